"""Lists the keys of a study file with their types, defaults and meanings, from the settings classes themselves."""

import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from study.config.schema import Study
from study.config.study_class import get_study_class
from study.workflows.choices import read_field_docs
from trainables.utils.base_settings import Settings


class StudyKey(NamedTuple):
    """A key of a study file.

    Attributes:
        name: dotted name.
        annotation: type of the field.
        metadata: constraints and validators of the type.
        default: default of the field; `PydanticUndefined` if the key is required.
        meaning: docstring below the field, in one line.
        owner: class that defines the table of the key.
    """

    name: str
    annotation: Any
    metadata: tuple[Any, ...]
    default: Any
    meaning: str
    owner: type[Settings]

    @property
    def section(self) -> str:
        """Table of the study file, or an empty string for the keys above all tables."""
        return self.name.rpartition(".")[0]


def list_study_keys(trainable: str) -> list[StudyKey]:
    """Return every key that a study of a trainable has, without the names of the tables.

    Raises:
        KeyError: if a field has no docstring.
    """
    return list(_iter_keys(get_study_class(trainable), ""))


def _iter_keys(model: type[Settings], prefix: str) -> Iterator[StudyKey]:
    base = Study if issubclass(model, Study) else model
    docs = read_field_docs(base)
    for name, field in model.model_fields.items():
        dotted = prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield from _iter_keys(field.annotation, f"{dotted}.")
        else:
            yield StudyKey(dotted, field.annotation, tuple(field.metadata), field.default, _clean(docs[name]), base)


def list_value_types(annotation: Any) -> list[Any]:
    """Return the types that a value may have, without None.

    Example:
        >>> list_value_types(int | None), list_value_types(str)
        ([<class 'int'>], [<class 'str'>])
    """
    is_union = get_origin(annotation) in (Union, UnionType)
    return [kind for kind in get_args(annotation) if kind is not NoneType] if is_union else [annotation]


def _clean(text: str) -> str:
    """Return a docstring as a user reads it: with the words of a study file, and a final period."""
    return re.sub(r"\b(None|True|False)\b", lambda match: match[0].lower(), text).removesuffix(".") + "."
