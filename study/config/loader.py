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

from search_spaces.registry import DEFAULT
from study.config.schema import Study
from study.config.study_type import study_type
from study.config.systems import CURRICULUM
from trainables.utils.errors import UserError, refuse
from trainables.utils.settings import Settings

__all__ = ["Study", "known_keys", "load", "shipped"]

STUDIES = Path(__file__).parents[1] / "studies"
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
_OF_THE_KERNEL = ("/proc", "/sys")
_LEVELS = 8
"""Most tables and lists within each other; a study has four."""
_LENGTHS = ("epochs", "instances")


def shipped() -> list[tuple[str, str]]:
    """Name and first comment line of every shipped study, by name."""
    files = sorted(STUDIES.glob("*.toml"), key=lambda file: file.stem)
    return [(file.stem, file.read_text("utf-8").partition("\n")[0].lstrip("# ")) for file in files]


def known_keys() -> set[str]:
    """Every key that a study has, whatever it trains, and those of its sections with a dot."""
    return set(_known(Study))


def load(path: str | None = None, overrides: Sequence[str] = ()) -> Study:
    """Read a study.

    Args:
        path: a file, the name of a shipped study, or None for the quick study.
        overrides: "key.sub=value"; the value is read as TOML, else taken as text; the bare word none is no value;
            ${NAME} is a variable of the environment.
            They win over the file; WANDB_MODE in the environment wins over tracking.mode.

    Raises:
        UserError: what is wrong, a line each.
    """
    source = _filled(path or "quick")
    data, places = _read(source), dict[str, str]()
    given = _parsed(overrides)
    model = _model([(source, data), *((COMMAND_LINE, override) for override in given)])
    mistakes = [*_unknown(model, source, data), *_given_twice(given)]
    for override in given:
        mistakes += _unknown(model, COMMAND_LINE, override)
        _merge(data, override, COMMAND_LINE, places)
    if mode := os.environ.get("WANDB_MODE"):
        if mode in _WANDB_MODES:
            _merge(data, {"tracking": {"mode": _WANDB_MODES[mode]}}, ENVIRONMENT, places)
        else:
            mistakes.append(UserError(ENVIRONMENT, repr(mode), f"one of {', '.join(_WANDB_MODES)}"))
    _keep_last_length(data, places)
    try:
        # JSON, because its strict mode takes a list for a tuple and still refuses "1" or true for 1.
        study = model.model_validate_json(json.dumps(data, default=str), strict=True)
    except ValidationError as error:
        mistakes += _explained(error, source, places, alone=not mistakes)
    else:
        found = _unusable_paths(study)
        mistakes += [UserError(f"{places.get(key, source)}: {key}", value, wanted) for key, value, wanted in found]
    refuse(mistakes)
    return study


def _read(source: str) -> dict[str, Any]:
    names = [name for name, _ in shipped()]
    file = STUDIES / f"{source}.toml" if source in names else Path(os.path.expanduser(source))
    expected = f"a study file or one of {', '.join(names)}"
    try:
        found = tomllib.loads(file.read_text("utf-8-sig"), parse_float=_finite)
    except FileNotFoundError:
        close = difflib.get_close_matches(source, names, n=1)
        raise UserError(source, "no such file", expected + (f"; did you mean {close[0]}?" if close else "")) from None
    except OSError as error:
        raise UserError(source, f"cannot be read ({error.strerror})", expected) from None
    except UnicodeDecodeError:
        raise UserError(source, "not UTF-8 text", expected) from None
    except (ValueError, RecursionError) as error:
        raise UserError(source, f"not TOML: {error}", "lines of the form key = value") from None
    _refuse_deep(source, found)
    return found


def _refuse_deep(place: str, data: Mapping[str, Any]) -> None:
    """Before anything walks through the data by calling itself."""
    for name, value in data.items():
        levels, inner = 0, [value]
        while inner := [part for whole in inner for part in _parts(whole)]:
            levels += 1
        if levels > _LEVELS:
            raise UserError(f"{place}: {_cut(name)}", f"{levels} levels of keys and lists", f"at most {_LEVELS}")


def _parts(value: object) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _finite(text: str) -> float | str:
    """Text for nan and inf, which then fails where a number is expected, under its own key."""
    value = float(text)
    return value if math.isfinite(value) else text


def _filled(text: str) -> str:
    """`text` with the environment's values of the variables that it names as ${NAME}."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise UserError(COMMAND_LINE, f"{_show(text)}, and {found[1]} is not in the environment", "its value there")
        return os.environ[found[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)


def _parsed(overrides: Sequence[str]) -> list[dict[str, Any]]:
    given, mistakes = [], []
    for override in overrides:
        try:
            given.append(_parse(override))
        except UserError as error:
            mistakes.append(error)
    refuse(mistakes)
    return given


def _parse(override: str) -> dict[str, Any]:
    """The nested tables that an override stands for."""
    key, equals, text = (part.strip() for part in _filled(override).partition("="))
    if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
        raise UserError(COMMAND_LINE, _show(override), "KEY=VALUE, e.g. training.learning_rate=1e-5")
    value: Any = None if text.lower() == "none" else text
    try:
        read = tomllib.loads(f"value = {text}", parse_float=_finite)
    except (ValueError, RecursionError):
        read = {}
    if read.keys() == {"value"} and isinstance(read["value"], int | float | str | list | dict):
        value = read["value"]
    for name in reversed(key.split(".")):
        value = {name: value}
    nested: dict[str, Any] = value
    _refuse_deep(COMMAND_LINE, nested)
    return nested


def _given_twice(overrides: Sequence[Mapping[str, Any]]) -> Iterator[UserError]:
    """Keys with two values: which one was meant, nobody knows."""
    found: dict[str, Any] = {}
    for key, value in (leaf for override in overrides for leaf in _leaves(override)):
        earlier = found.setdefault(key, value)
        if repr(earlier) != repr(value):
            twice = f"given twice, as {_show(earlier)} and {_show(value)}"
            yield UserError(f"{COMMAND_LINE}: {key}", twice, "one value")


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
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


def _keep_last_length(data: dict[str, Any], places: Mapping[str, str]) -> None:
    """Of epochs and instances one says how long training is: an override of either takes the place of the file's."""
    training = data.get("training")
    given = [name for name in _LENGTHS if isinstance(training, dict) and training.get(name) is not None]
    overriding = [name for name in given if f"training.{name}" in places]
    if isinstance(training, dict) and len(given) == len(_LENGTHS) and len(overriding) == 1:
        data["training"] = {name: value for name, value in training.items() if name not in given or name in overriding}


def _model(sources: Sequence[tuple[str, Mapping[str, Any]]]) -> type[Study]:
    """The class of studies of the trainable that the last of these places names."""
    named = [(place, data["trainable"]) for place, data in sources if "trainable" in data]
    place, name = named[-1] if named else ("", DEFAULT)
    try:
        return study_type(name if isinstance(name, str) else "")
    except ValueError as error:
        raise UserError(f"{place}: trainable", _show(name), str(error)) from None


def _known(model: type[Settings], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a study."""
    for own_name, field in model.model_fields.items():
        name = field.alias or own_name
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield from _known(field.annotation, f"{prefix}{name}.")
    if issubclass(model, Study) and model is not Study:
        variants = model.model_fields["variants"].default
        yield from (f"search.trials.{variant}" for variant in variants)


def _unknown(model: type[Study], place: str, data: Mapping[str, Any], prefix: str = "") -> Iterator[UserError]:
    """Keys that no study of this trainable has."""
    known = list(_known(model))
    for name, value in data.items():
        key = prefix + name
        if key not in known and not (prefix == "search.trials." and CURRICULUM.fullmatch(name)):
            yield UserError(f"{place}: {_cut(key)}", _show(value), f"a known key; {_hint(key, known)}")
        elif isinstance(value, dict) and any(other.startswith(f"{key}.") for other in known):
            yield from _unknown(model, place, value, f"{key}.")


def _hint(key: str, known: Sequence[str]) -> str:
    """A key of the same table misspelt by little, the same name in another table, else the most similar of the same
    table, else all of it."""
    table, _, name = key.rpartition(".")
    siblings = {other.rpartition(".")[2]: other for other in known if other.rpartition(".")[0] == table}
    close = [siblings[other] for other in difflib.get_close_matches(name, siblings, n=1, cutoff=0.9)]
    close += [other for other in known if other.rpartition(".")[2] == name]
    close += [siblings[other] for other in difflib.get_close_matches(name, siblings, n=1, cutoff=0.7)]
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(siblings.values())}"


def _explained(error: ValidationError, source: str, places: Mapping[str, str], alone: bool) -> Iterator[UserError]:
    """The first of pydantic's errors for each key; unknown keys are told elsewhere.

    Args:
        error: of a study.
        source: where the study comes from.
        places: where keys were set that are not the source's.
        alone: whether nothing else is wrong; else parts may disagree only because of that.
    """
    told = set[str]()
    for found in error.errors():
        if found["type"] == "disagreements":
            own = [(key, _show(value), *rest) for key, value, *rest in found["ctx"]["found"]] if alone else []
        else:
            own = [] if found["type"] == "extra_forbidden" else [(*_explain(found), ())]
        for key, shown, expected, others in own:
            if key in told:
                continue
            told.add(key)
            where = next((places[name] for name in (key, *others) if name in places), source)
            yield UserError(f"{where}: {key}", shown, expected)


def _explain(error: ErrorDetails) -> tuple[str, str, str]:
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
    return key, _show(error["input"]), expected


def _show(value: object) -> str:
    return _cut("none" if value is None else repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _unusable_paths(study: Study) -> Iterator[tuple[str, str, str]]:
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
        if fault := _unusable_folder(path):
            yield key, repr(str(path)), fault
    for key, place in (("cache.stages", study.caching.stages and study.stages), ("output.records", study.records)):
        if place and re.search("://.*:.*@", place):  # not shown either
            hidden = re.sub("://.*@", "://...@", place)
            yield key, repr(hidden), "no password in it; credentials are read from the environment"
        elif place and (fault := _unusable_storage(place)):
            yield key, repr(place), fault


def _unusable_folder(path: Path) -> str | None:
    """What is expected instead of a folder that can never hold files; whether it may be written to is not looked up."""
    existing = next(parent for parent in (path, *path.parents) if os.path.exists(parent))
    if not os.path.isdir(existing):
        return f"a folder; {existing} is a file"
    system = next((own for own in _OF_THE_KERNEL if existing.resolve().is_relative_to(own)), None)
    return f"a folder on a disk; {system} holds no files, only what the kernel shows" if system else None


def _unusable_storage(place: str) -> str | None:
    """What is expected instead of a place that states cannot be kept at; whether it can be reached is not looked up."""
    if "://" not in place:
        return _unusable_folder(Path(place))
    import fsspec  # only here, because it is not loaded in an instant

    try:
        fsspec.get_filesystem_class(place.partition("://")[0])
    except ValueError:
        return "a folder, or the URL of a file system that fsspec knows, e.g. s3://bucket/stages"
    except ImportError as error:
        return f"the package of this file system to be installed ({error})"
    return None
