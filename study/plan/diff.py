"""Compares the stored plan of a study with its current settings."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

_MAX_VALUE_LENGTH = 60
"""Maximum number of characters of a value."""


def list_changed_settings(old_plan: Mapping[str, Any], new_plan: Mapping[str, Any]) -> list[str]:
    """Return every changed setting as text, such as `search.epsilon [0.1] -> [0.2]`.

    Example:
        >>> list_changed_settings({"settings": {"seeds": [1]}}, {"settings": {"seeds": [1, 2]}})
        ['seeds [1] -> [1, 2]']
    """
    before, after = (
        {name: value for key in ("settings", "data") for name, value in _flatten(key, plan)}
        for plan in (old_plan, new_plan)
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
