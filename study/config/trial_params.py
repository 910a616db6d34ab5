"""Reads one configuration from its values as text: from the command line, a W&B sweep or a file of a sweep's trials."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from search_spaces.space import Grid, Params
from search_spaces.system_space import SystemSpace
from study.config.schema import Study
from study.config.spaces import make_system_space
from study.config.systems import get_systems
from study.config.validation import find_training_errors
from trainables.utils.errors import UserError, raise_if_any

SWEEP_OPTION = "--sweep"
_MAX_LISTED_VALUES = 6
"""Most values that a message names."""


def list_param_names(study: Study) -> tuple[str, ...]:
    """What a configuration of the study is named by."""
    return ("variant", *study.study_type.hyperparameter_names)


class TrialParams(NamedTuple):
    """A configuration of a study."""

    variant: str
    params: Params
    ignored: tuple[str, ...]
    """Names of the values that were given, and that the system does not take with this schedule or pacing."""


def parse_trial_params(study: Study, texts: Mapping[str, str]) -> TrialParams:
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
    expected = f"a name out of {', '.join(list_param_names(study))}"
    raise_if_any(
        [
            UserError(f"{SWEEP_OPTION} {name}", repr(texts[name]), expected)
            for name in texts
            if name not in list_param_names(study)
        ]
    )
    variant = texts.get("variant", "none")
    known = get_systems(study)
    if variant not in known:
        raise UserError(f"{SWEEP_OPTION} variant", variant, f"one of the study's variants: {', '.join(known)}")
    values = _parse_values(study, {name: text for name, text in texts.items() if name != "variant"})
    space = _restrict_space(study, variant, values)
    params = space(_MissingParamSuggester(space.grid))
    training = study.training.model_copy(update=dict(params.optimisation))
    for name in training.epoch_size_fields if training.epochs is not None else ():
        if getattr(training, name) != getattr(study.training, name):
            expected = f"the study's {getattr(study.training, name)}, as its length is training.epochs"
            raise UserError(f"{SWEEP_OPTION} {name}", values[name], expected)
    for key, found, expected, others in find_training_errors(study, training):
        own = (name for name in (key, *others) if name.removeprefix("training.") in values)
        name = next(own, key).removeprefix("training.")
        shown = found if key.endswith(name) else f"{values[name]}, while {key} is {found}"
        raise UserError(f"{SWEEP_OPTION} {name}", shown, expected)
    return TrialParams(variant, params, tuple(name for name in values if name not in params.values))


def _parse_values(study: Study, texts: Mapping[str, str]) -> dict[str, Any]:
    try:
        parsed = study.study_type.hyperparameter_schema.model_validate(texts)
    except ValidationError as error:
        wrong = {str(one["loc"][0]): _describe_expected(one) for one in reversed(error.errors())}
        raise_if_any(
            [UserError(f"{SWEEP_OPTION} {name}", repr(texts[name]), wrong[name]) for name in texts if name in wrong]
        )
        raise
    grid = {**study.search.smoothing_grid, **study.search.optimisation_grid, **study.curriculum.grid}
    found = parsed.model_dump(exclude_none=True)
    return {name: _snap_to_grid(value, grid.get(name, ())) for name, value in found.items()}


def _describe_expected(error: ErrorDetails) -> str:
    known = {"float_parsing": "a number", "int_parsing": "a whole number", "int_from_float": "a whole number"}
    if error.get("ctx", {}).get("lt") == math.inf:
        return "a finite number"
    return known.get(error["type"], error["msg"].removeprefix("Input should be ").removeprefix("Value error, "))


def _snap_to_grid(value: Any, grid: Sequence[Any]) -> Any:
    """W&B and the shell may have rounded it on the way."""
    if not isinstance(value, float):
        return value
    return next((known for known in grid if math.isclose(value, known, rel_tol=1e-9)), value)


def _restrict_space(study: Study, variant: str, values: Mapping[str, Any]) -> SystemSpace:
    """The system's space, with one value only for every hyperparameter that is named."""
    own = make_system_space(study, variant)
    fixed = study.curriculum.compare if own.curriculum_grid else None
    if fixed and values.get(fixed, own.curriculum_grid[fixed][0]) != own.curriculum_grid[fixed][0]:
        raise UserError(
            f"{SWEEP_OPTION} {fixed}", values[fixed], f"{own.curriculum_grid[fixed][0]}, which is what {variant} has"
        )
    if own.curriculum_grid and values.get("score", own.curriculum_grid["score"][0]) not in own.curriculum_grid["score"]:
        listed = ", ".join(map(str, own.curriculum_grid["score"]))
        raise UserError(
            f"{SWEEP_OPTION} score", values["score"], f"one that the study lists and is ready for: {listed}"
        )
    smoothing = {name: (values[name],) if name in values else grid for name, grid in own.smoothing_grid.items()}
    order = {name: (values[name],) if name in values else grid for name, grid in own.curriculum_grid.items()}
    named = {name: (values[name],) for name in study.search.optimisation_params if name in values}
    optimisation = _order_grid(study, {**own.optimisation_grid, **named})
    return replace(own, smoothing_grid=smoothing, optimisation_grid=optimisation, curriculum_grid=order)


def _order_grid(study: Study, grid: Grid) -> Grid:
    return {name: grid[name] for name in study.search.optimisation_params if name in grid}


class _MissingParamSuggester:
    """Answers nothing: what the space still asks for is missing."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def suggest_int(self, name: str, low: int, high: int) -> int:
        raise self._make_error(name)

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> Any:
        raise self._make_error(name)

    def _make_error(self, name: str) -> UserError:
        listed = ", ".join(map(str, self._grid[name][:_MAX_LISTED_VALUES]))
        more = ", ..." if len(self._grid[name]) > _MAX_LISTED_VALUES else ""
        return UserError(f"{SWEEP_OPTION} {name}", "missing", f"a value, such as the grid's {listed}{more}")
