"""Compares the stored plan of a study with its current settings."""

import json
from collections.abc import Mapping
from typing import Any

from study.config.sources import flatten_settings

_MAX_VALUE_LENGTH = 60
"""Maximum number of characters of a value."""


def list_changed_settings(old_plan: Mapping[str, Any], new_plan: Mapping[str, Any]) -> list[str]:
    """Return every changed setting as text, such as `search.epsilon [0.1] -> [0.2]`.

    Example:
        >>> list_changed_settings({"settings": {"seeds": [1]}}, {"settings": {"seeds": [1, 2]}})
        ['seeds [1] -> [1, 2]']
    """
    before, after = (
        dict(flatten_settings({key: plan.get(key) for key in ("settings", "data")})) for plan in (old_plan, new_plan)
    )
    names = [*before, *(name for name in after if name not in before)]
    return [
        f"{name.removeprefix('settings.')} {_format_value(before, name)} -> {_format_value(after, name)}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def _format_value(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_LENGTH else text[: _MAX_VALUE_LENGTH - 3] + "..."
