"""Reads what a user writes: study and suite files as TOML, the arguments of a command, variables of the environment."""

import difflib
import math
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainables.utils.errors import UserError, raise_if_any

STUDIES_FOLDER = Path(__file__).parents[1] / "studies"
COMMAND_LINE = "command line"
_MAX_DEPTH = 8
"""Maximum nesting of tables and lists; a study has four levels."""


def list_names() -> list[str]:
    """Return the names of all shipped studies and suites, sorted."""
    return sorted(file.stem for file in STUDIES_FOLDER.glob("*.toml"))


def list_shipped(suites: bool = False) -> dict[str, str]:
    """Return the first comment line of every shipped study, or of every shipped suite, by name in sorted order."""
    files = sorted(STUDIES_FOLDER.glob("*.toml"), key=lambda file: file.stem)
    texts = {file.stem: file.read_text("utf-8") for file in files}
    shown = {name: text for name, text in texts.items() if is_suite_content(tomllib.loads(text)) == suites}
    return {name: text.partition("\n")[0].lstrip("# ") for name, text in shown.items()}


def is_suite_content(data: Mapping[str, Any]) -> bool:
    """Return whether the content of a file is that of a suite: it has a key that no study has.

    A suite with missing or misspelt axes is one, so that the message is about them.
    """
    return not data.keys().isdisjoint(("axes", "base", "study"))


def read_toml(source: str) -> dict[str, Any]:
    """Return the content of a study or suite file, or of the shipped one of this name, as it is written.

    Raises:
        UserError: if there is no such file, or it is not TOML.
    """
    names = list_names()
    file = STUDIES_FOLDER / f"{source}.toml" if source in names else Path(os.path.expanduser(source))
    expected = "a study file or a name that --list shows"
    try:
        data = tomllib.loads(file.read_text("utf-8-sig"), parse_float=_parse_finite_float)
    except FileNotFoundError:
        close = difflib.get_close_matches(source, names, n=1)
        raise UserError(source, "no such file", expected + (f"; did you mean {close[0]}?" if close else "")) from None
    except OSError as error:
        raise UserError(source, f"cannot be read ({error.strerror})", expected) from None
    except UnicodeDecodeError:
        raise UserError(source, "not UTF-8 text", expected) from None
    except (ValueError, RecursionError) as error:
        raise UserError(source, f"not TOML: {error}", "lines of the form key = value") from None
    _reject_deep_nesting(source, data)
    return data


def _reject_deep_nesting(place: str, data: Mapping[str, Any]) -> None:
    """Raise UserError if the data is nested too deeply for the recursive functions of this module."""
    for name, value in data.items():
        levels, nodes = 0, [value]
        while nodes := [child for node in nodes for child in _get_children(node)]:
            levels += 1
        if levels > _MAX_DEPTH:
            raise UserError(f"{place}: {truncate(name)}", f"{levels} levels of keys and lists", f"at most {_MAX_DEPTH}")


def _get_children(value: object) -> Collection[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _parse_finite_float(text: str) -> float | str:
    """Return the number, or the text for nan and inf, which then fails validation under its own key."""
    value = float(text)
    return value if math.isfinite(value) else text


def expand_variables(text: str, place: str = COMMAND_LINE, is_draft: bool = False) -> str:
    """Return the text with each ${NAME} replaced by the environment variable NAME.

    Args:
        text: a text of a study file or of the command line.
        place: where it stands, for messages.
        is_draft: True to leave variables that are not set as they are written.

    Raises:
        UserError: if a variable is not set.
    """

    def substitute(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            if is_draft:
                return match[0]
            raise UserError(place, format_value(text), f"the environment variable {match[1]} to be set")
        return os.environ[match[1]]

    return re.sub(r"\$\{(\w+)\}", substitute, text)


def expand_texts(value: Any, source: str, is_draft: bool, key: str = "") -> Any:
    """Return a value of a study file with the variables expanded in each text."""
    if isinstance(value, str):
        return expand_variables(value, f"{source}: {key}", is_draft)
    if isinstance(value, dict):
        names = {name: f"{key}.{name}" if key else name for name in value}
        return {name: expand_texts(item, source, is_draft, names[name]) for name, item in value.items()}
    return [expand_texts(item, source, is_draft, key) for item in value] if isinstance(value, list) else value


def parse_overrides(overrides: Sequence[str]) -> list[dict[str, Any]]:
    """Return settings of the form "key.sub=value" as nested tables, one for each.

    Raises:
        UserError: if one of them has another form; the message has one line for each.
    """
    parsed, mistakes = [], []
    for override in overrides:
        try:
            parsed.append(parse_override(override))
        except UserError as error:
            mistakes.append(error)
    raise_if_any(mistakes)
    return parsed


def parse_override(override: str) -> dict[str, Any]:
    """Return a setting of the form "key.sub=value" as nested tables.

    Raises:
        UserError: if it has another form, or a variable of the environment is not set.
    """
    key, equals, text = (part.strip() for part in expand_variables(override).partition("="))
    if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
        raise UserError(COMMAND_LINE, format_value(override), "KEY=VALUE, e.g. training.learning_rate=1e-5")
    value: Any = None if text.lower() == "none" else text
    try:
        table = tomllib.loads(f"value = {text}", parse_float=_parse_finite_float)
    except (ValueError, RecursionError):
        table = {}
    if table.keys() == {"value"} and isinstance(table["value"], int | float | str | list | dict):
        value = table["value"]
    for name in reversed(key.split(".")):
        value = {name: value}
    nested: dict[str, Any] = value
    _reject_deep_nesting(COMMAND_LINE, nested)
    return nested


def split_arguments(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the name of the study, or None if no name is given, and the overrides.

    Args:
        arguments: the arguments of the command line. An argument with an equals sign is an override KEY=VALUE; any
            other argument is the name of a study or the path of a study file.

    Raises:
        UserError: if there are several names.

    Example:
        >>> split_arguments(["quick", "seeds=[1, 2]", "search.sampler=grid"])
        ('quick', ['seeds=[1, 2]', 'search.sampler=grid'])
        >>> split_arguments(["seeds=[1]"])
        (None, ['seeds=[1]'])
    """
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) > 1:
        raise UserError("command line", repr(names[1]), f"only one study; after {names[0]!r} give only KEY=VALUE")
    return (names[0] if names else None), [argument for argument in arguments if "=" in argument]


def flatten_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables by dotted name; an empty table counts as a value.

    Example:
        >>> dict(flatten_settings({"seeds": [1], "search": {"epsilon": [0.1], "hours": None}}))
        {'seeds': [1], 'search.epsilon': [0.1], 'search.hours': None}
    """
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flatten_settings(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def format_value(value: object) -> str:
    """Return a value as a message shows it; None is the bare word none."""
    return truncate("none" if value is None else repr(value))


def truncate(text: str) -> str:
    """Return the text, cut to the length that a message shows."""
    return text if len(text) <= 80 else f"{text[:77]}..."
