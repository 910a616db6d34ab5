"""What differs between the plan that a folder holds and the study as it is asked for now."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from study.records.plan_file import read_plan

_MAX_VALUE_LENGTH = 60
"""Characters of a value."""


def list_changed_settings(folder: Path, new_plan: Mapping[str, Any]) -> list[str]:
    """Every setting that is not what it was, as `search.epsilon [0.1] -> [0.2]`; none where there is no plan yet.

    Args:
        folder: of the study; its plan.json must be a plan.
        now: `study.plan.analysis_plan.declared`.
    """
    path = folder / "plan.json"
    if not path.is_file():
        return []
    earlier = read_plan(path)
    kinds = ("settings", "data")
    before, after = (
        {name: value for kind in kinds for name, value in _flatten(kind, plan)} for plan in (earlier, new_plan)
    )
    names = [*before, *(name for name in after if name not in before)]
    return [
        f"{name.removeprefix('settings.')} {_format_value(before, name)} -> {_format_value(after, name)}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _flatten(name: str, values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    value, full = values.get(name), f"{prefix}{name}"
    if isinstance(value, Mapping) and value:
        for inner in value:
            yield from _flatten(inner, value, f"{full}.")
    else:
        yield full, value


def _format_value(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_LENGTH else text[: _MAX_VALUE_LENGTH - 3] + "..."
