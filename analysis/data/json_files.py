"""Reads JSON files that a study wrote, with clear errors if a file is damaged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError
from trainables.utils.files import read_json

History = list[dict[str, Any]]
"""One row for each number of instances."""
_Model = TypeVar("_Model", bound=BaseModel)
_EXPECTED_FILE = "the file as the study wrote it; rerun the study to recreate it"


def read_history(path: Path, expected_sha256: str | None = None) -> History:
    """Read the learning curve that is stored next to a run record; empty if there is none.

    Args:
        path: path of the file.
        expected_sha256: SHA-256 of the file in the record; None for a run that trains nothing and needs no file.

    Raises:
        UserError: if the file is missing, damaged, or not a list of JSON objects.
    """
    rows = _read_json(path) if expected_sha256 or path.is_file() else []
    if expected_sha256 and hash_file(path) != expected_sha256:
        raise UserError(str(path), "it does not match its checksum", _EXPECTED_FILE)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(str(path), "not a list of JSON objects", "a file that the study wrote")
    return rows


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UserError: if the file does not exist or holds something else.
    """
    value = _read_json(path)
    if not isinstance(value, dict):
        raise UserError(str(path), "not a JSON object", "a file that the study wrote")
    return value


def parse_model(model: type[_Model], stored: Any, where: str) -> _Model:
    """Parse what was read from a file.

    Raises:
        UserError: if a value is bad; it names the first one.
    """
    try:
        return model.model_validate(stored)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(where, ".".join(map(str, first["loc"])) + " is bad", first["msg"]) from error


def sort_keys(value: Any, names: Sequence[str]) -> Any:
    """Return the same value with the keys of every object in the order of these names.

    Other keys follow in alphabetical order. W&B returns objects with their keys in any order; the report must not
    depend on it.
    """
    if isinstance(value, list):
        return [sort_keys(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    positions = {name: position for position, name in enumerate(names)}
    ordered = sorted(value, key=lambda key: (positions.get(key, len(positions)), key))
    return {key: sort_keys(value[key], names) for key in ordered}


def drop_empty_objects(value: Any) -> Any:
    """Return the same value without empty objects in its objects, which W&B's client leaves out."""
    if not isinstance(value, dict):
        return value
    kept = {key: drop_empty_objects(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item != {}}


def _read_json(path: Path) -> object:
    try:
        value: object = read_json(path)
    except FileNotFoundError as error:
        raise UserError(str(path), "no such file", "a file that the study wrote") from error
    except ValueError as error:
        raise UserError(str(path), error, _EXPECTED_FILE) from error
    return value
