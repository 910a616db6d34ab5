"""Parses a configuration from text values.

The values come from the command line, from a W&B sweep or from the file of a sweep trial.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError, create_model
from pydantic_core import ErrorDetails

from search_spaces.curriculum_params import PARAM_NAMES
from search_spaces.search_settings import LORA
from search_spaces.space import Params, SystemSpace, collect_values
from study.config.schema import Study
from study.config.spaces import make_system_space
from study.config.systems import get_systems
from trainables.smoothing.schedules import get_setting_type
from trainables.specs.run_spec import LoraSettings
from trainables.utils.base_settings import Settings
from trainables.utils.errors import UserError, raise_if_any

SWEEP_OPTION = "--sweep"
_MAX_LISTED_VALUES = 6
"""Maximum number of values that a message lists."""


def list_param_names(study: Study) -> tuple[str, ...]:
    """Return the names that a configuration may set: `variant` and the hyperparameters."""
    return ("variant", *study.study_type.hyperparameter_names, *study.search.adapter_params)


class TrialParams(NamedTuple):
    """Parsed values of a configuration."""

    variant: str
    params: Params
    ignored: tuple[str, ...]
    """Names of the given values that the system does not use with this schedule or pacing function."""


def parse_trial_params(study: Study, texts: Mapping[str, str]) -> TrialParams:
    """Parse the values of one configuration.

    A value may be anything in its range, also outside the grid of the study. Only the difficulty score of a curriculum
    must be one that the study lists. A value that equals a value of the grid up to rounding is replaced
    by it. A hyperparameter may be absent if the grid has only one value for it.

    Args:
        study: the study, which determines the variants, the grid and the training settings.
        texts: text values by name, with the names of `list_param_names`.

    Raises:
        UserError: if a name or value is invalid, or a value is missing.

    Example:
        >>> from study.config.loader import load_study
        >>> parsed = parse_trial_params(load_study("quick"), {"variant": "LS", "epsilon": "0.2"})
        >>> parsed.variant, parsed.params.values
        ('LS', {'epsilon': 0.2})
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
    for name, listed in collect_values(space.points).items():
        if len(listed) > 1:
            choices = [*map(str, listed[:_MAX_LISTED_VALUES]), *(["..."] if len(listed) > _MAX_LISTED_VALUES else [])]
            raise UserError(f"{SWEEP_OPTION} {name}", "missing", f"a value, e.g. one of the grid: {', '.join(choices)}")
    params = space.points[0]
    return TrialParams(variant, params, tuple(name for name in values if name not in params.values))


def _parse_values(study: Study, texts: Mapping[str, str]) -> dict[str, Any]:
    try:
        parsed = _make_schema(study).model_validate(texts)
    except ValidationError as error:
        expected = {str(details["loc"][0]): _describe_expected(details) for details in reversed(error.errors())}
        raise_if_any(
            [
                UserError(f"{SWEEP_OPTION} {name}", repr(texts[name]), expected[name])
                for name in texts
                if name in expected
            ]
        )
        raise
    grid = {**study.search.smoothing_grid, **study.search.optimisation_grid, **study.curriculum.grid}
    values = parsed.model_dump(exclude_none=True)
    return {name: _snap_to_grid(value, grid.get(name, ())) for name, value in values.items()}


def _make_schema(study: Study) -> type[Settings]:
    """Return a class with a field for each hyperparameter: None, or one of what the study has a list of."""
    fields: dict[str, Any] = {}
    for name in list_param_names(study)[1:]:
        section = study.curriculum if name in PARAM_NAMES else study.search
        field = type(section).model_fields.get(name)
        if name.startswith(LORA):
            kind = LoraSettings.model_fields[name.removeprefix(LORA)].rebuild_annotation()
        else:
            kind = get_args(field.annotation)[0] if field else get_setting_type(name)
        fields[name] = kind | None, None
    return create_model("Hyperparameters", __base__=Settings, **fields)


def _describe_expected(error: ErrorDetails) -> str:
    known = {"float_parsing": "a number", "int_parsing": "a whole number", "int_from_float": "a whole number"}
    if error.get("ctx", {}).get("lt") == math.inf:
        return "a finite number"
    return known.get(error["type"], error["msg"].removeprefix("Input should be ").removeprefix("Value error, "))


def _snap_to_grid(value: Any, grid: Sequence[Any]) -> Any:
    """Return the value of the grid that equals `value` up to rounding by W&B or the shell, else `value`."""
    if not isinstance(value, float):
        return value
    return next((known for known in grid if math.isclose(value, known, rel_tol=1e-9)), value)


def _restrict_space(study: Study, variant: str, values: Mapping[str, Any]) -> SystemSpace:
    """Return the space of the system, with a single value for every hyperparameter in `values`."""
    space = make_system_space(study, variant)
    scores = space.curriculum_grid.get("score", ())
    compared = study.curriculum.compare if space.curriculum_grid else None
    fixed = dict(space.fixed)
    if compared:
        fixed[compared] = space.curriculum_grid[compared][0]
    for name, value in fixed.items():
        if values.get(name, value) != value:
            raise UserError(f"{SWEEP_OPTION} {name}", values[name], f"{value}, the only value of {variant}")
    if scores and values.get("score", scores[0]) not in scores:
        listed = ", ".join(map(str, scores))
        raise UserError(f"{SWEEP_OPTION} score", values["score"], f"a score of the study's curriculum.score: {listed}")
    smoothing = {name: (values[name],) if name in values else grid for name, grid in space.smoothing_grid.items()}
    curriculum = {name: (values[name],) if name in values else grid for name, grid in space.curriculum_grid.items()}
    names = (*study.search.optimisation_params, *study.search.adapter_params)
    named = {name: (values[name],) for name in names if name in values}
    grid = {**space.optimisation_grid, **named}
    optimisation = {name: grid[name] for name in names if name in grid}
    return replace(space, smoothing_grid=smoothing, optimisation_grid=optimisation, curriculum_grid=curriculum)
