"""Settings of a schedule, as the signature of its function declares them.

A setting is a parameter after (epsilon, seen, total) with a range, a description and a default:

    power: Annotated[float, Field(gt=0, le=5, description="Power of the schedule power.")] = 2.0

Everything else that a setting needs, such as its key in a study file, is made from this.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AllowInfNan, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from trainables.utils.errors import UserError
from trainables.utils.registry import Entry

BATCH_SIZE = "batch_size"
"""Parameter that is no setting: the instances per batch, for a schedule that needs them."""
_POSITIONAL = ("epsilon", "seen", "total")
_EXPECTED = 'Annotated[float, Field(gt=0, description="...")] with its own limits, and a default'
_RESERVED = frozenset({
    *_POSITIONAL, BATCH_SIZE, "distribution", "schedule", "loss", "variant", "seed", "role", "study", "trainable",
    "task", "model", "data", "plan_hash", "specification", "specification_id", "configuration_id",
    "teacher", "has_probabilities",
})  # fmt: skip
"""Names that the labels of a run have for something else."""


@dataclass(frozen=True)
class Searched:
    """Values that a search tries, if they are not those that the function has by itself.

    Attributes:
        values: default values of the search, in increasing order. If empty, the default of the function is the only
            one.
        limits: range of the values, as in Field(gt=0, lt=1). If None, that of the function.
        unit: unit of the values, for messages.
    """

    values: tuple[float, ...] = ()
    limits: Any = None
    unit: str = ""


@dataclass(frozen=True)
class ScheduleSetting:
    """A setting of a schedule.

    Attributes:
        name: name of the parameter.
        default: default of the function.
        value_type: type of a value with the range that the function accepts.
        searched_type: type of a value with the range that a search may try.
        values: default values of the search.
        description: what the setting is, in one sentence.
        expected: values of the search in words, for messages.
    """

    name: str
    default: float
    value_type: Any
    searched_type: Any
    values: tuple[float, ...]
    description: str
    expected: str


def read_settings(function: Callable[..., float]) -> dict[str, ScheduleSetting]:
    """Return the settings of a schedule by name, in the order of the parameters.

    Args:
        function: a function of (epsilon, seen, total, **settings), and of the batch size if it needs it.

    Raises:
        ValueError: if a parameter is no setting. The message has the form "actual; expected what".

    Example:
        >>> from trainables.smoothing.schedules import linear
        >>> setting = read_settings(linear)["end"]
        >>> setting.default, setting.expected
        (0.8, 'a list of increasing numbers, each above 0 and at most 1 (share of training), e.g. [0.5, 0.8]')
    """
    parameters, hints = list(inspect.signature(function).parameters.values()), _read_hints(function)
    kinds = {parameter.kind for parameter in parameters}
    if len(parameters) < len(_POSITIONAL) or kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
        raise ValueError(f"{inspect.signature(function)}; expected (epsilon, seen, total) and settings with names")
    own = [parameter for parameter in parameters[len(_POSITIONAL) :] if parameter.name != BATCH_SIZE]
    return {parameter.name: _read_setting(parameter, hints.get(parameter.name)) for parameter in own}


def takes_batch_size(function: Callable[..., float]) -> bool:
    """Return whether a schedule needs the number of instances per batch."""
    return BATCH_SIZE in inspect.signature(function).parameters


def complete_schedule(entry: Entry, others: Sequence[Entry]) -> Entry:
    """Return the entry of a schedule with its settings as options.

    Args:
        entry: the entry.
        others: the entries before it.

    Raises:
        UserError: if the entry or the signature of its function is wrong, or if another schedule has a setting of the
            same name with another range, default or list of values.
    """
    if entry.pattern is not None:
        raise UserError(entry.place, "a name with a parameter", "a schedule with settings")
    function = entry.load_target()
    if not callable(function):
        raise UserError(entry.place, repr(function), "a function of (epsilon, seen, total)")
    try:
        settings = read_settings(function)
    except ValueError as error:
        actual, _, expected = str(error).partition("; expected ")
        raise UserError(entry.place, actual, expected) from None
    if unknown := [name for name in entry.options if name not in settings]:
        expected = f"settings of its function: {', '.join(settings) or 'none'}"
        raise UserError(entry.place, f"the option {unknown[0]}", expected)
    for other in others:
        for name, known in read_settings(other.load_target()).items():
            if name in settings and not _are_alike(settings[name], known):
                expected = f"the range, default and values that the schedule {other.name} gives it, or another name"
                raise UserError(entry.place, f"the setting {name}", expected)
    return replace(entry, options=tuple(settings))


def _are_alike(first: ScheduleSetting, second: ScheduleSetting) -> bool:
    return replace(first, description="") == replace(second, description="")


def _read_hints(function: Callable[..., float]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as error:  # a type as text may be any expression
        raise ValueError(f"types that cannot be read ({error}); expected {_EXPECTED}") from None


def _read_setting(parameter: inspect.Parameter, hint: Any) -> ScheduleSetting:
    name = parameter.name
    if name in _RESERVED or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"the setting {name}; expected a free name of lower-case letters, digits and _")
    base, *metadata = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    field = next((part for part in metadata if isinstance(part, FieldInfo)), None)
    if base not in (float, int) or field is None or not _list_limits(field):
        raise ValueError(f"no range for the setting {name}; expected {_EXPECTED}")
    if not field.description:
        raise ValueError(f"no description for the setting {name}; expected {_EXPECTED}")
    if parameter.default is inspect.Parameter.empty:
        raise ValueError(f"no default for the setting {name}; expected {_EXPECTED}")
    searched = next((part for part in metadata if isinstance(part, Searched)), Searched())
    limits = _list_limits(searched.limits or field)
    values, examples = searched.values or (parameter.default,), field.examples or searched.values or [parameter.default]
    setting = ScheduleSetting(
        name,
        parameter.default,
        _make_type(base, _list_limits(field)),
        _make_type(base, limits),
        values,
        field.description,
        _describe_values(base, limits, searched.unit, list(examples)),
    )
    _check_values(name, setting.value_type, (parameter.default,))
    _check_values(name, setting.searched_type, values)
    return setting


def _list_limits(field: FieldInfo) -> list[Any]:
    return [part for part in field.metadata if isinstance(part, Gt | Ge | Lt | Le)]


def _make_type(base: type, limits: Sequence[Any]) -> Any:
    return Annotated[base, *limits, *([AllowInfNan(False)] if base is float else [])]


def _check_values(name: str, value_type: Any, values: Sequence[Any]) -> None:
    try:
        TypeAdapter(tuple[value_type, ...]).validate_python(tuple(values), strict=True)
    except ValidationError as error:
        expected = error.errors()[0]["msg"].removeprefix("Input should be ")
        raise ValueError(f"{list(values)} for the setting {name}; expected {expected}") from None


def _describe_values(base: type, limits: Sequence[Any], unit: str, examples: Sequence[Any]) -> str:
    words = {Gt: ("above", "gt"), Ge: ("at least", "ge"), Lt: ("below", "lt"), Le: ("at most", "le")}
    ranges = [f"{words[type(limit)][0]} {getattr(limit, words[type(limit)][1]):g}" for limit in limits]
    numbers = "increasing numbers" if base is float else "increasing whole numbers"
    each = f", each {' and '.join(ranges)}" if len(ranges) > 1 else f" {ranges[0]}"
    return f"a list of {numbers}{each}{f' ({unit})' if unit else ''}, e.g. {examples}"
