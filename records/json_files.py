"""Reads JSON files that a study wrote, with clear errors if a file is damaged."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trainables.utils.errors import UserError
from trainables.utils.files import read_json

_Model = TypeVar("_Model", bound=BaseModel)
EXPECTED = "the file as the study wrote it; rerun the study to recreate it"
"""Expectation of the error for a damaged file."""


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UserError: if the file is damaged, or holds something else.
        FileNotFoundError: if there is no such file.
    """
    try:
        value = read_json(path)
    except ValueError as error:
        raise UserError(str(path), error, EXPECTED) from None
    if not isinstance(value, dict):
        raise UserError(str(path), "not a JSON object", EXPECTED)
    return value


def read_intact_object(path: Path) -> dict[str, Any]:
    """Read a JSON object that can be made again: empty if the file is missing or damaged."""
    try:
        return read_object(path)
    except (FileNotFoundError, UserError):
        return {}


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
