"""JSON that a study wrote, read with a name for whatever is wrong with it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError
from trainables.utils.files import read_json

History = list[dict[str, Any]]
"""One row for each number of instances."""
_EXPECTED_FILE = "the file as the study wrote it; run again, the study makes it anew"


def read_history(path: Path, expected_sha256: str | None = None) -> History:
    """The curve of a run that has one, beside its record.

    Args:
        path: of the file.
        known: its SHA-256 in the record; None: records of before had none, and runs that train nothing need no file.

    Raises:
        UserError: the file is something else.
    """
    found = _read_json(path) if expected_sha256 or path.is_file() else []
    if expected_sha256 and hash_file(path) != expected_sha256:
        raise UserError(str(path), "it does not match its checksum", _EXPECTED_FILE)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise UserError(str(path), "not a list of JSON objects", "a file that the study wrote")
    return found


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        UserError: the file is not there, or is something else.
    """
    value = _read_json(path)
    if not isinstance(value, dict):
        raise UserError(str(path), "not a JSON object", "a file that the study wrote")
    return value


def sort_keys(value: Any, names: Sequence[str]) -> Any:
    """The same value, the keys of every object in it in the order of these names, others behind them by the alphabet.

    W&B gives objects back with their keys in any order; what the report shows of them must not depend on it.
    """
    if isinstance(value, list):
        return [sort_keys(item, names) for item in value]
    if not isinstance(value, dict):
        return value
    places = {name: place for place, name in enumerate(names)}
    ordered = sorted(value, key=lambda key: (places.get(key, len(places)), key))
    return {key: sort_keys(value[key], names) for key in ordered}


def drop_empty_objects(value: Any) -> Any:
    """The same value without empty objects in its objects, which W&B's client leaves out."""
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
