"""Filters and orders of a client's questions: the part of MongoDB's language that the public API documents.

https://docs.wandb.ai/ref/python/public-api/api, `Api.runs`: filters and order.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from wandb_server.executor import RefusedError

Lookup = Callable[[str], Any]
"""The value of a run's attribute by its dotted path, None where there is none."""

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda value, bound: value > bound,
    "$gte": lambda value, bound: value >= bound,
    "$lt": lambda value, bound: value < bound,
    "$lte": lambda value, bound: value <= bound,
}


def matches(lookup: Lookup, query: Mapping[str, Any]) -> bool:
    """Return True if a run fits; raises `RefusedError` at an operator that is not known."""
    return all(_holds(lookup, name, condition) for name, condition in query.items())


def _holds(lookup: Lookup, name: str, condition: Any) -> bool:
    if name == "$and":
        return all(matches(lookup, part) for part in condition)
    if name == "$or":
        return any(matches(lookup, part) for part in condition)
    if name == "$nor":
        return not any(matches(lookup, part) for part in condition)
    if name.startswith("$"):
        raise RefusedError(f"unknown operator {name}")
    value = lookup(name)
    if isinstance(condition, Mapping) and any(operator.startswith("$") for operator in condition):
        return all(_compares(value, operator, operand) for operator, operand in condition.items())
    return _equals(value, condition)


def _equals(value: Any, wanted: Any) -> bool:
    """A list, such as the tags, equals what it holds."""
    return bool(value == wanted or (isinstance(value, list) and wanted in value))


def _compares(value: Any, operator: str, operand: Any) -> bool:
    if operator == "$eq":
        return _equals(value, operand)
    if operator == "$ne":
        return not _equals(value, operand)
    if operator == "$in":
        return any(_equals(value, wanted) for wanted in operand)
    if operator == "$nin":
        return not any(_equals(value, wanted) for wanted in operand)
    if operator == "$exists":
        return (value is not None) == bool(operand)
    if operator == "$regex":
        return isinstance(value, str) and re.search(operand, value) is not None
    if operator == "$not":
        return not all(_compares(value, *part) for part in operand.items())
    if operator in _COMPARISONS:
        comparable = isinstance(value, str) if isinstance(operand, str) else isinstance(value, int | float)
        return bool(comparable and _COMPARISONS[operator](value, operand))
    raise RefusedError(f"unknown operator {operator}")


def rank(value: Any) -> tuple[int, float, str]:
    """A key that orders values of all types: nothing first, then numbers, then text."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, int | float):
        return (1, float(value), "")
    return (2, 0.0, str(value))
