"""Reads a study file and dotted overrides into one validated `Study`.

Every error is reported as one line: its place (file or command line), the dotted key, the value and the expectation.
The module imports only the standard library and pydantic, so `--help`, `--list` and `--dry-run` answer at once.
"""

import difflib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from search_spaces.study_type import DEFAULT_STUDY_TYPE, STUDY_TYPES, get_study_type
from study.config.paths import find_unusable_paths
from study.config.schema import Study
from study.config.sources import (
    COMMAND_LINE,
    expand_texts,
    expand_variables,
    flatten_settings,
    format_value,
    is_suite_content,
    parse_overrides,
    read_toml,
    truncate,
)
from study.config.spaces import draw_fresh_seeds, get_seed_count
from study.config.study_class import get_study_class
from study.config.systems import CURRICULUM_PATTERN
from trainables.smoothing.schedules import SETTINGS
from trainables.specs.run_spec import BaseTaskSettings
from trainables.utils.base_settings import Settings
from trainables.utils.errors import UserError, raise_if_any
from trainables.utils.plugins import load_plugins

__all__ = ["Study", "list_known_keys", "load_layered_study", "load_study"]

ENVIRONMENT = "environment variable WANDB_MODE"
_WANDB_MODES = {
    "offline": "offline",
    "online": "online",
    "disabled": "disabled",
    "dryrun": "offline",
    "run": "online",
    "shared": "online",
}
"""Mode of the W&B client -> mode of the study."""
_ALTERNATIVES = (("epochs", "instances"), ("evaluations", "evaluation_steps"))
"""Alternative keys of [training]: a study has one of each pair."""
_N_CONFIGURATIONS = "search.n_configurations."


def list_known_keys() -> set[str]:
    """Return the keys that every study has, for any trainable; keys within sections are dotted."""
    return set(_iter_known_keys(Study))


def load_study(path: str | None = None, overrides: Sequence[str] = ()) -> Study:
    """Read and validate a study.

    Args:
        path: a study file, or the name of a shipped study. If None, the study `quick` is read. ${NAME} is replaced by
            the environment variable NAME, here and in each text of the file.
        overrides: settings of the form "key.sub=value", which replace those of the file. The value is parsed as TOML;
            if that fails, it is text. The bare word none unsets the key. ${NAME} is replaced by the environment
            variable NAME.

    Returns:
        The study. The environment variable WANDB_MODE replaces its `tracking.mode`.

    Raises:
        UserError: if something is wrong; the message has one line for each error.

    Example:
        >>> study = load_study("quick", ["seeds=[1, 2]", "training.learning_rate=1e-4"])
        >>> study.seeds, study.training.learning_rate
        ((1, 2), 0.0001)
        >>> load_study("quick", ["training.learningrate=1e-4"])
        Traceback (most recent call last):
        trainables.utils.errors.UserError: command line: training.learningrate: 0.0001; expected a known key; did you \
mean training.learning_rate?
    """
    source = expand_variables(path or "quick")
    data = read_toml(source)
    if is_suite_content(data):
        raise UserError(source, "a suite of studies", "one study; python -m study.run runs a suite, --study one of it")
    return load_layered_study([(source, data)], overrides)


def load_layered_study(
    layers: Sequence[tuple[str, Mapping[str, Any]]], overrides: Sequence[str] = (), is_draft: bool = False
) -> Study:
    """Validate a study with settings from several places. A later place replaces settings of an earlier one.

    Args:
        layers: for each place its name, for messages, and its settings as nested tables.
        overrides: settings of the form "key.sub=value", as for `load_study`.
        is_draft: True if the study will not run: environment variables that are not set stay as they are written, and
            its paths are not checked.

    Raises:
        UserError: if something is wrong; the message has one line for each error.
    """
    source = layers[0][0]
    parsed = [(place, expand_texts(data, place, is_draft)) for place, data in layers]
    parsed += ((COMMAND_LINE, override) for override in parse_overrides(overrides))
    _load_plugins(parsed)
    model = _select_study_class(parsed)
    known = list(_iter_known_keys(model))
    _check_trainable(model, known, parsed)
    data, places = parsed[0][1], dict[str, str]()
    mistakes = list(_find_unknown_keys(known, source, data))
    for place, group in groupby(parsed[1:], key=itemgetter(0)):
        own_places, given = dict[str, str](), [settings for _, settings in group]
        mistakes += _find_conflicting_overrides(place, given)
        for settings in given:
            mistakes += _find_unknown_keys(known, place, settings)
            _merge(data, settings, place, own_places)
        _drop_overridden_alternatives(data, own_places)
        places |= own_places
    if mode := os.environ.get("WANDB_MODE"):
        if mode in _WANDB_MODES:
            _merge(data, {"tracking": {"mode": _WANDB_MODES[mode]}}, ENVIRONMENT, places)
        else:
            mistakes.append(UserError(ENVIRONMENT, repr(mode), f"one of {', '.join(_WANDB_MODES)}"))
    mistakes += _complete_task(model, data, is_draft)
    try:
        study = _validate_study(model, data)
    except ValidationError as error:
        mistakes += _explain_errors(error, source, places, no_other_errors=not mistakes)
    else:
        unusable = [] if is_draft else find_unusable_paths(study)
        mistakes += [UserError(f"{places.get(key, source)}: {key}", *rest) for key, *rest in unusable]
    raise_if_any(mistakes)
    return study


def _complete_task(model: type[Study], data: dict[str, Any], is_draft: bool) -> Iterator[UserError]:
    """Set what the study leaves to the files of its data; yield what prevents it. Files of a draft may be missing."""
    task, settings = data.get("task"), model.model_fields["task"].annotation
    if isinstance(task, dict) and isinstance(settings, type) and issubclass(settings, BaseTaskSettings):
        try:
            settings.complete_from_source(task)
        except UserError as error:
            if not is_draft:
                yield error


def _validate_study(model: type[Study], data: dict[str, Any]) -> Study:
    """Return the study of these settings; a number of fresh seeds becomes as many seeds."""

    def validate(settings: dict[str, Any]) -> Study:
        # The strict mode of JSON accepts a list for a tuple and still rejects "1" or true for 1.
        return model.model_validate_json(json.dumps(settings, default=str), strict=True)

    number = get_seed_count(data)
    if number is None:
        return validate(data)
    seeds = draw_fresh_seeds(validate(data | {"confirm": {}}), number)
    return validate(data | {"confirm": data["confirm"] | {"seeds": seeds}})


def _find_conflicting_overrides(place: str, overrides: Sequence[Mapping[str, Any]]) -> Iterator[UserError]:
    """Yield an error for every setting that the overrides give two values."""
    seen = dict[str, Any]()
    for override in overrides:
        for key, value in flatten_settings(override):
            if repr(earlier := seen.setdefault(key, value)) != repr(value):
                twice = f"given twice, as {format_value(earlier)} and {format_value(value)}"
                yield UserError(f"{place}: {key}", twice, "one value")


def _merge(data: dict[str, Any], new: Mapping[str, Any], place: str, places: dict[str, str], prefix: str = "") -> None:
    """Merge `new` into `data`, and record in `places` the place that set each key."""
    for name, value in new.items():
        places[prefix + name] = place
        if isinstance(value, dict):
            if not isinstance(data.get(name), dict):
                data[name] = {}
            _merge(data[name], value, place, places, f"{prefix}{name}.")
        else:
            data[name] = value


def _drop_overridden_alternatives(data: dict[str, Any], places: Mapping[str, str]) -> None:
    """Remove from `data` each setting for which an override sets the alternative.

    `training.epochs` and `training.instances` are alternatives, for example: overriding one of them removes the other,
    which the study file set.
    """
    for names in _ALTERNATIVES:
        settings = data.get("training")
        if not isinstance(settings, dict):
            return
        given = [name for name in names if settings.get(name) is not None]
        overriding = [name for name in given if f"training.{name}" in places]
        if len(given) == len(names) and len(overriding) == 1:
            rest = {name: value for name, value in settings.items() if name not in given or name in overriding}
            data["training"] = rest


def _load_plugins(sources: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Import the plug-ins of a study; the last source that names any decides. A wrong list is reported later."""
    named = [(place, data["plugins"]) for place, data in sources if "plugins" in data]
    if named and isinstance(named[-1][1], list):
        load_plugins([name for name in named[-1][1] if isinstance(name, str) and name], f"{named[-1][0]}: plugins")


def _select_study_class(sources: Sequence[tuple[str, Mapping[str, Any]]]) -> type[Study]:
    """Return the study class of the trainable; the last source that names a trainable decides."""
    named = [(place, data["trainable"]) for place, data in sources if "trainable" in data]
    place, name = named[-1] if named else ("", DEFAULT_STUDY_TYPE)
    try:
        return get_study_class(name if isinstance(name, str) else "")
    except ValueError as error:
        raise UserError(f"{place}: trainable", format_value(name), str(error)) from None


def _check_trainable(
    model: type[Study], known: Sequence[str], sources: Sequence[tuple[str, Mapping[str, Any]]]
) -> None:
    """Check that the keys of a study are not those of a trainable that it forgot to name.

    Raises:
        UserError: if no trainable is named, and all unknown keys are known to the same other trainable.
    """
    if any("trainable" in data for _, data in sources):
        return
    unknown = {key: place for place, data in sources for key, _ in flatten_settings(data) if key not in known}
    for name in STUDY_TYPES if unknown else ():
        other = get_study_class(name)
        if other is not model and unknown.keys() <= {*_iter_known_keys(other)}:
            place, keys = next(iter(unknown.values())), ", ".join(unknown)
            raise UserError(f"{place}: trainable", "none", f'trainable = "{name}", which has the keys {keys}')


def _iter_known_keys(model: type[Settings], prefix: str = "") -> Iterator[str]:
    """Yield the dotted name of every field of a study."""
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield from _iter_known_keys(field.annotation, f"{prefix}{name}.")
    if issubclass(model, Study) and model is not Study:
        study_type = get_study_type(model.model_fields["trainable"].default)
        yield from (f"{_N_CONFIGURATIONS}{variant}" for variant in study_type.variants)
        yield from (f"search.schedule_settings.{name}" for name in SETTINGS)


def _find_unknown_keys(
    known: Sequence[str], place: str, data: Mapping[str, Any], prefix: str = ""
) -> Iterator[UserError]:
    """Yield an error for every key that no study of this trainable has."""
    for name, value in data.items():
        key = prefix + name
        if "." in name:
            yield UserError(f"{place}: {key}", f"{name!r} in quotes", "a key without a dot in it")
        elif key not in known and not (prefix == _N_CONFIGURATIONS and CURRICULUM_PATTERN.fullmatch(name)):
            hint = _suggest_variant(value, known) or _suggest_key(key, known)
            yield UserError(f"{place}: {truncate(key)}", format_value(value), f"a known key; {hint}")
        elif isinstance(value, dict) and any(other.startswith(f"{key}.") for other in known):
            yield from _find_unknown_keys(known, place, value, f"{key}.")


def _suggest_variant(value: object, known: Sequence[str]) -> str | None:
    """Return a hint for the value of an unknown key that is the name of a variant, such as a loss, or None."""
    variants = (key.removeprefix(_N_CONFIGURATIONS) for key in known if key.startswith(_N_CONFIGURATIONS))
    names = {re.sub("[-_]", "", variant).lower(): variant for variant in variants}
    variant = names.get(re.sub("[-_]", "", value).lower()) if isinstance(value, str) else None
    return variant and f'did you mean variants = ["{variant}"]?'


def _suggest_key(key: str, known: Sequence[str]) -> str:
    """Return a hint for an unknown key.

    The candidates, best first, are a nearly equal key of the same table, a key of the same name in another table, and a
    similar key of the same table. Without any candidate the hint lists the keys of the table.
    """
    table, _, name = key.rpartition(".")
    names = [(other.rpartition(".")[2], other) for other in known]
    siblings = {last: other for last, other in names if other.rpartition(".")[0] == table}
    close = [siblings[last] for last in difflib.get_close_matches(name, siblings, n=1, cutoff=0.9)]
    close += [other for last, other in names if last == name]
    close += [siblings[last] for last in difflib.get_close_matches(name, siblings, n=1, cutoff=0.7)]
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(siblings.values())}"


def _explain_errors(
    error: ValidationError, source: str, places: Mapping[str, str], no_other_errors: bool
) -> Iterator[UserError]:
    """Yield the first of pydantic's errors for each key; `_find_unknown_keys` reports the unknown keys.

    Args:
        error: the validation error of a study.
        source: the name or file of the study.
        places: by dotted key, the place that set it, for the keys that something else than `source` set.
        no_other_errors: whether nothing else is wrong. Otherwise conflicts between settings are not reported, because
            another error may be their only cause.
    """
    reported = set[str]()
    for details in error.errors():
        if details["type"] == "disagreements":
            explained = (
                [(key, format_value(value), *rest) for key, value, *rest in details["ctx"]["found"]]
                if no_other_errors
                else []
            )
        else:
            is_known = details["type"] == "extra_forbidden" and details["loc"][0] != "evaluate"
            related = details["loc"][:1] if "evaluate" in details["loc"][:1] else ()
            explained = [] if is_known else [(*_explain_error(details), related)]
        for key, shown, expected, related in explained:
            if key in reported:
                continue
            reported.add(key)
            place = next((places[name] for name in (key, *related) if name in places), source)
            yield UserError(f"{place}: {key}", shown, expected)


def _explain_error(error: ErrorDetails) -> tuple[str, str, str]:
    """Return the key, the value and the expectation of one of pydantic's errors."""
    context = error.get("ctx", {})
    key = ".".join(part for part in error["loc"] if isinstance(part, str))
    if error["type"] == "missing":
        return key, "missing", "a value"
    if error["type"] == "value_error":
        expected = str(context["error"])
    elif error["type"] == "extra_forbidden":
        expected = "a key of [task], or split" if error["loc"][-2] == "task" else "label, metric and task"
    elif error["type"] in ("model_type", "dict_type"):
        expected = "a table of keys"
    elif error["type"] == "tuple_type":
        expected = 'a list in brackets, e.g. ["one", "two"]'
    else:
        expected = error["msg"].removeprefix("Input should be ").replace("valid integer", "whole number")
    return key, format_value(error["input"]), expected
