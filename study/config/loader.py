"""From a study file and dotted overrides to one validated `Study`.

Whatever is wrong becomes one line: where it stands (file or command line), the dotted key, the value, the expectation.
Only the standard library and pydantic are imported, so that `--help`, `--list` and `--plan` answer at once.
"""

import difflib
import importlib.util
import json
import math
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from search_spaces.registry import DEFAULT_STUDY_TYPE
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.config.systems import CURRICULUM_PATTERN
from trainables.utils.errors import UserError, raise_if_any
from trainables.utils.settings import Settings

__all__ = ["Study", "list_known_keys", "list_shipped_studies", "load_study"]

STUDIES_FOLDER = Path(__file__).parents[1] / "studies"
COMMAND_LINE = "command line"
ENVIRONMENT = "environment variable WANDB_MODE"
_WANDB_MODES = {
    "offline": "offline",
    "online": "online",
    "disabled": "disabled",
    "dryrun": "offline",
    "run": "online",
    "shared": "online",
}
"""What W&B's client takes for a mode -> the study's."""
_KERNEL_FOLDERS = ("/proc", "/sys")
_MAX_DEPTH = 8
"""Most tables and lists within each other; a study has four."""
_LENGTH_KEYS = ("epochs", "instances")


def list_shipped_studies() -> list[tuple[str, str]]:
    """Name and first comment line of every shipped study, by name."""
    files = sorted(STUDIES_FOLDER.glob("*.toml"), key=lambda file: file.stem)
    return [(file.stem, file.read_text("utf-8").partition("\n")[0].lstrip("# ")) for file in files]


def list_known_keys() -> set[str]:
    """Every key that a study has, whatever it trains, and those of its sections with a dot."""
    return set(_iter_known_keys(Study))


def load_study(path: str | None = None, overrides: Sequence[str] = ()) -> Study:
    """Read a study.

    Args:
        path: a file, the name of a shipped study, or None for the quick study.
        overrides: "key.sub=value"; the value is read as TOML, else taken as text; the bare word none is no value;
            ${NAME} is a variable of the environment.
            They win over the file; WANDB_MODE in the environment wins over tracking.mode.

    Raises:
        UserError: what is wrong, a line each.
    """
    source = _expand_variables(path or "quick")
    data, places = _read_study_file(source), dict[str, str]()
    parsed_overrides = _parse_overrides(overrides)
    model = _select_study_class([(source, data), *((COMMAND_LINE, override) for override in parsed_overrides)])
    mistakes = [*_find_unknown_keys(model, source, data), *_find_conflicting_overrides(parsed_overrides)]
    for override in parsed_overrides:
        mistakes += _find_unknown_keys(model, COMMAND_LINE, override)
        _merge(data, override, COMMAND_LINE, places)
    if mode := os.environ.get("WANDB_MODE"):
        if mode in _WANDB_MODES:
            _merge(data, {"tracking": {"mode": _WANDB_MODES[mode]}}, ENVIRONMENT, places)
        else:
            mistakes.append(UserError(ENVIRONMENT, repr(mode), f"one of {', '.join(_WANDB_MODES)}"))
    _drop_overridden_length(data, places)
    try:
        # JSON, because its strict mode takes a list for a tuple and still refuses "1" or true for 1.
        study = model.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        mistakes += _explain_errors(error, source, places, no_other_errors=not mistakes)
    else:
        found = _find_unusable_paths(study)
        mistakes += [UserError(f"{places.get(key, source)}: {key}", value, wanted) for key, value, wanted in found]
    raise_if_any(mistakes)
    return study


def _read_study_file(source: str) -> dict[str, Any]:
    names = [name for name, _ in list_shipped_studies()]
    file = STUDIES_FOLDER / f"{source}.toml" if source in names else Path(os.path.expanduser(source))
    expected = f"a study file or one of {', '.join(names)}"
    try:
        found = tomllib.loads(file.read_text("utf-8-sig"), parse_float=_parse_finite_float)
    except FileNotFoundError:
        close = difflib.get_close_matches(source, names, n=1)
        raise UserError(source, "no such file", expected + (f"; did you mean {close[0]}?" if close else "")) from None
    except OSError as error:
        raise UserError(source, f"cannot be read ({error.strerror})", expected) from None
    except UnicodeDecodeError:
        raise UserError(source, "not UTF-8 text", expected) from None
    except (ValueError, RecursionError) as error:
        raise UserError(source, f"not TOML: {error}", "lines of the form key = value") from None
    _reject_deep_nesting(source, found)
    return found


def _reject_deep_nesting(place: str, data: Mapping[str, Any]) -> None:
    """Before anything walks through the data by calling itself."""
    for name, value in data.items():
        levels, inner = 0, [value]
        while inner := [part for whole in inner for part in _get_children(whole)]:
            levels += 1
        if levels > _MAX_DEPTH:
            raise UserError(
                f"{place}: {_truncate(name)}", f"{levels} levels of keys and lists", f"at most {_MAX_DEPTH}"
            )


def _get_children(value: object) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _parse_finite_float(text: str) -> float | str:
    """Text for nan and inf, which then fails where a number is expected, under its own key."""
    value = float(text)
    return value if math.isfinite(value) else text


def _expand_variables(text: str) -> str:
    """`text` with the environment's values of the variables that it names as ${NAME}."""

    def substitute(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise UserError(
                COMMAND_LINE, f"{_format_value(text)}, and {found[1]} is not in the environment", "its value there"
            )
        return os.environ[found[1]]

    return re.sub(r"\$\{(\w+)\}", substitute, text)


def _parse_overrides(overrides: Sequence[str]) -> list[dict[str, Any]]:
    given, mistakes = [], []
    for override in overrides:
        try:
            given.append(_parse_override(override))
        except UserError as error:
            mistakes.append(error)
    raise_if_any(mistakes)
    return given


def _parse_override(override: str) -> dict[str, Any]:
    """The nested tables that an override stands for."""
    key, equals, text = (part.strip() for part in _expand_variables(override).partition("="))
    if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
        raise UserError(COMMAND_LINE, _format_value(override), "KEY=VALUE, e.g. training.learning_rate=1e-5")
    value: Any = None if text.lower() == "none" else text
    try:
        read = tomllib.loads(f"value = {text}", parse_float=_parse_finite_float)
    except (ValueError, RecursionError):
        read = {}
    if read.keys() == {"value"} and isinstance(read["value"], int | float | str | list | dict):
        value = read["value"]
    for name in reversed(key.split(".")):
        value = {name: value}
    nested: dict[str, Any] = value
    _reject_deep_nesting(COMMAND_LINE, nested)
    return nested


def _find_conflicting_overrides(overrides: Sequence[Mapping[str, Any]]) -> Iterator[UserError]:
    """Keys with two values: which one was meant, nobody knows."""
    found: dict[str, Any] = {}
    for key, value in (leaf for override in overrides for leaf in _iter_leaves(override)):
        earlier = found.setdefault(key, value)
        if repr(earlier) != repr(value):
            twice = f"given twice, as {_format_value(earlier)} and {_format_value(value)}"
            yield UserError(f"{COMMAND_LINE}: {key}", twice, "one value")


def _iter_leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _iter_leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _merge(data: dict[str, Any], new: Mapping[str, Any], place: str, places: dict[str, str], prefix: str = "") -> None:
    """Lay `new` over `data`, and note for each key in which place it was set."""
    for name, value in new.items():
        places[prefix + name] = place
        if isinstance(value, dict) and isinstance(data.setdefault(name, {}), dict):
            _merge(data[name], value, place, places, f"{prefix}{name}.")
        else:
            data[name] = value


def _drop_overridden_length(data: dict[str, Any], places: Mapping[str, str]) -> None:
    """Of epochs and instances one says how long training is: an override of either takes the place of the file's."""
    training = data.get("training")
    given = [name for name in _LENGTH_KEYS if isinstance(training, dict) and training.get(name) is not None]
    overriding = [name for name in given if f"training.{name}" in places]
    if isinstance(training, dict) and len(given) == len(_LENGTH_KEYS) and len(overriding) == 1:
        data["training"] = {name: value for name, value in training.items() if name not in given or name in overriding}


def _select_study_class(sources: Sequence[tuple[str, Mapping[str, Any]]]) -> type[Study]:
    """The class of studies of the trainable that the last of these places names."""
    named = [(place, data["trainable"]) for place, data in sources if "trainable" in data]
    place, name = named[-1] if named else ("", DEFAULT_STUDY_TYPE)
    try:
        return get_study_class(name if isinstance(name, str) else "")
    except ValueError as error:
        raise UserError(f"{place}: trainable", _format_value(name), str(error)) from None


def _iter_known_keys(model: type[Settings], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a study."""
    for own_name, field in model.model_fields.items():
        name = field.alias or own_name
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield from _iter_known_keys(field.annotation, f"{prefix}{name}.")
    if issubclass(model, Study) and model is not Study:
        variants = model.model_fields["variants"].default
        yield from (f"search.trials.{variant}" for variant in variants)


def _find_unknown_keys(
    model: type[Study], place: str, data: Mapping[str, Any], prefix: str = ""
) -> Iterator[UserError]:
    """Keys that no study of this trainable has."""
    known = list(_iter_known_keys(model))
    for name, value in data.items():
        key = prefix + name
        if key not in known and not (prefix == "search.trials." and CURRICULUM_PATTERN.fullmatch(name)):
            yield UserError(
                f"{place}: {_truncate(key)}", _format_value(value), f"a known key; {_suggest_key(key, known)}"
            )
        elif isinstance(value, dict) and any(other.startswith(f"{key}.") for other in known):
            yield from _find_unknown_keys(model, place, value, f"{key}.")


def _suggest_key(key: str, known: Sequence[str]) -> str:
    """A key of the same table misspelt by little, the same name in another table, else the most similar of the same
    table, else all of it."""
    table, _, name = key.rpartition(".")
    siblings = {other.rpartition(".")[2]: other for other in known if other.rpartition(".")[0] == table}
    close = [siblings[other] for other in difflib.get_close_matches(name, siblings, n=1, cutoff=0.9)]
    close += [other for other in known if other.rpartition(".")[2] == name]
    close += [siblings[other] for other in difflib.get_close_matches(name, siblings, n=1, cutoff=0.7)]
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(siblings.values())}"


def _explain_errors(
    error: ValidationError, source: str, places: Mapping[str, str], no_other_errors: bool
) -> Iterator[UserError]:
    """The first of pydantic's errors for each key; unknown keys are told elsewhere.

    Args:
        error: of a study.
        source: where the study comes from.
        places: where keys were set that are not the source's.
        alone: whether nothing else is wrong; else parts may disagree only because of that.
    """
    reported = set[str]()
    for found in error.errors():
        if found["type"] == "disagreements":
            own = (
                [(key, _format_value(value), *rest) for key, value, *rest in found["ctx"]["found"]]
                if no_other_errors
                else []
            )
        else:
            own = [] if found["type"] == "extra_forbidden" else [(*_explain_error(found), ())]
        for key, shown, expected, others in own:
            if key in reported:
                continue
            reported.add(key)
            where = next((places[name] for name in (key, *others) if name in places), source)
            yield UserError(f"{where}: {key}", shown, expected)


def _explain_error(error: ErrorDetails) -> tuple[str, str, str]:
    """Key, value and what was expected, of one of pydantic's errors."""
    context = error.get("ctx", {})
    key = ".".join(part for part in error["loc"] if isinstance(part, str))
    if error["type"] == "missing":
        return key, "missing", "a value"
    if error["type"] == "value_error":
        expected = str(context["error"])
    elif error["type"] in ("model_type", "dict_type"):
        expected = "a table of keys"
    elif error["type"] == "tuple_type":
        expected = 'a list in brackets, e.g. ["one", "two"]'
    else:
        expected = error["msg"].removeprefix("Input should be ")
    return key, _format_value(error["input"]), expected


def _format_value(value: object) -> str:
    return _truncate("none" if value is None else repr(value))


def _truncate(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _find_unusable_paths(study: Study) -> Iterator[tuple[str, str, str]]:
    """Key, value and expectation for paths that cannot be used; a hub id is not looked up."""
    name = study.model.name
    package, _, inner = name.removeprefix("package:").partition("/")
    folder: Path | None = None
    if name.startswith("package:"):
        spec = importlib.util.find_spec(package) if package.isidentifier() else None
        if spec and spec.submodule_search_locations:
            folder = Path(spec.submodule_search_locations[0], inner)
        else:
            yield "model.name", repr(name), f"package:MODULE/FOLDER of an installed package; {package!r} is none"
    elif name.startswith((".", "/", "~")) or (os.sep in name and os.path.exists(name)):
        folder = Path(os.path.expanduser(name)).absolute()
    elif not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name):
        yield "model.name", repr(name), "a hub id (OWNER/NAME), a local folder, or package:MODULE/FOLDER"
    if folder and not os.path.isfile(folder / "config.json"):
        state = "has no config.json" if os.path.isdir(folder) else "does not exist"
        yield "model.name", repr(name), f"a folder with config.json; {folder} {state}"
    for key, path in (("output.folder", study.folder), ("cache.folder", study.cache)):
        if fault := _find_folder_fault(path):
            yield key, repr(str(path)), fault
    for key, place in (
        ("cache.stages", study.caching.stages and study.checkpoints_url),
        ("output.records", study.records_url),
    ):
        if place and re.search("://.*:.*@", place):  # not shown either
            hidden = re.sub("://.*@", "://...@", place)
            yield key, repr(hidden), "no password in it; credentials are read from the environment"
        elif place and (fault := _find_storage_fault(place)):
            yield key, repr(place), fault


def _find_folder_fault(path: Path) -> str | None:
    """What is expected instead of a folder that can never hold files; whether it may be written to is not looked up."""
    existing = next(parent for parent in (path, *path.parents) if os.path.exists(parent))
    if not os.path.isdir(existing):
        return f"a folder; {existing} is a file"
    system = next((own for own in _KERNEL_FOLDERS if existing.resolve().is_relative_to(own)), None)
    return f"a folder on a disk; {system} holds no files, only what the kernel shows" if system else None


def _find_storage_fault(place: str) -> str | None:
    """What is expected instead of a place that states cannot be kept at; whether it can be reached is not looked up."""
    if "://" not in place:
        return _find_folder_fault(Path(place))
    import fsspec  # only here, because it is not loaded in an instant

    try:
        fsspec.get_filesystem_class(place.partition("://")[0])
    except ValueError:
        return "a folder, or the URL of a file system that fsspec knows, e.g. s3://bucket/stages"
    except ImportError as error:
        return f"the package of this file system to be installed ({error})"
    return None
