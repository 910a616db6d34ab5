"""Reads one configuration from its values as text: from the command line, a W&B sweep or a file of a sweep's trials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from search_spaces.space import Grid, Point
from search_spaces.system_space import Family
from study.config.schema import Study
from study.config.spaces import family
from study.config.systems import systems
from study.config.validation import of_training
from trainables.utils.errors import UserError, refuse

WHERE = "--sweep"
_LISTED = 6
"""Most values that a message names."""


def names(study: Study) -> tuple[str, ...]:
    """What a configuration of the study is named by."""
    return ("variant", *study.kind.hyperparameters)


class Named(NamedTuple):
    """A configuration of a study."""

    variant: str
    point: Point
    ignored: tuple[str, ...]
    """Names of the values that were given, and that the system does not take with this schedule or pacing."""


def read(study: Study, given: Mapping[str, str]) -> Named:
    """The configuration that these values name.

    A value may be any in its range, whether or not the study's grid has it, but for a curriculum's score, which the
    study must list; one that equals the grid's but for rounding is the grid's. Of a hyperparameter that is not named,
    the grid must have one value.

    Args:
        study: whose variants, grid and training.
        given: `variant` and hyperparameters of the study's trainable -> value.

    Raises:
        UserError: a name or a value is none, a value is missing, or no run can have this combination.
    """
    expected = f"a name out of {', '.join(names(study))}"
    refuse([UserError(f"{WHERE} {name}", repr(given[name]), expected) for name in given if name not in names(study)])
    variant = given.get("variant", "none")
    known = systems(study)
    if variant not in known:
        raise UserError(f"{WHERE} variant", variant, f"one of the study's variants: {', '.join(known)}")
    values = _values(study, {name: text for name, text in given.items() if name != "variant"})
    space = _space(study, variant, values)
    point = space(_Asked(space.grid))
    training = study.training.model_copy(update=dict(point.optimisation))
    for name in training.sizes if training.epochs is not None else ():
        if getattr(training, name) != getattr(study.training, name):
            expected = f"the study's {getattr(study.training, name)}, as its length is training.epochs"
            raise UserError(f"{WHERE} {name}", values[name], expected)
    for key, found, expected, others in of_training(study, training):
        own = (name for name in (key, *others) if name.removeprefix("training.") in values)
        name = next(own, key).removeprefix("training.")
        told = found if key.endswith(name) else f"{values[name]}, while {key} is {found}"
        raise UserError(f"{WHERE} {name}", told, expected)
    return Named(variant, point, tuple(name for name in values if name not in point.values))


def _values(study: Study, given: Mapping[str, str]) -> dict[str, Any]:
    try:
        parsed = study.kind.values.model_validate(given)
    except ValidationError as error:
        wrong = {str(one["loc"][0]): _expected(one) for one in reversed(error.errors())}
        refuse([UserError(f"{WHERE} {name}", repr(given[name]), wrong[name]) for name in given if name in wrong])
        raise
    grid = {**study.search.smoothing, **study.search.optimisation, **study.curriculum.grid}
    found = parsed.model_dump(exclude_none=True)
    return {name: _snapped(value, grid.get(name, ())) for name, value in found.items()}


def _expected(error: ErrorDetails) -> str:
    known = {"float_parsing": "a number", "int_parsing": "a whole number", "int_from_float": "a whole number"}
    if error.get("ctx", {}).get("lt") == math.inf:
        return "a finite number"
    return known.get(error["type"], error["msg"].removeprefix("Input should be ").removeprefix("Value error, "))


def _snapped(value: Any, grid: Sequence[Any]) -> Any:
    """W&B and the shell may have rounded it on the way."""
    if not isinstance(value, float):
        return value
    return next((known for known in grid if math.isclose(value, known, rel_tol=1e-9)), value)


def _space(study: Study, variant: str, values: Mapping[str, Any]) -> Family:
    """The system's space, with one value only for every hyperparameter that is named."""
    own = family(study, variant)
    fixed = study.curriculum.compare if own.curriculum else None
    if fixed and values.get(fixed, own.curriculum[fixed][0]) != own.curriculum[fixed][0]:
        raise UserError(f"{WHERE} {fixed}", values[fixed], f"{own.curriculum[fixed][0]}, which is what {variant} has")
    if own.curriculum and values.get("score", own.curriculum["score"][0]) not in own.curriculum["score"]:
        listed = ", ".join(map(str, own.curriculum["score"]))
        raise UserError(f"{WHERE} score", values["score"], f"one that the study lists and is ready for: {listed}")
    smoothing = {name: (values[name],) if name in values else grid for name, grid in own.smoothing.items()}
    order = {name: (values[name],) if name in values else grid for name, grid in own.curriculum.items()}
    named = {name: (values[name],) for name in study.search.optimised if name in values}
    optimisation = _ordered(study, {**own.optimisation, **named})
    return replace(own, smoothing=smoothing, optimisation=optimisation, curriculum=order)


def _ordered(study: Study, grid: Grid) -> Grid:
    return {name: grid[name] for name in study.search.optimised if name in grid}


class _Asked:
    """Answers nothing: what the space still asks for is missing."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def suggest_int(self, name: str, low: int, high: int) -> int:
        raise self._missing(name)

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> Any:
        raise self._missing(name)

    def _missing(self, name: str) -> UserError:
        listed = ", ".join(map(str, self._grid[name][:_LISTED]))
        more = ", ..." if len(self._grid[name]) > _LISTED else ""
        return UserError(f"{WHERE} {name}", "missing", f"a value, such as the grid's {listed}{more}")
