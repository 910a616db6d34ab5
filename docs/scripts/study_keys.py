"""Lists the keys of a study file with their types, defaults and meanings, from the settings classes themselves."""

import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from search_spaces.registry import get_study_type
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.workflows.choices import read_field_docs
from trainables.utils.settings import Settings

N_CONFIGURATIONS = "search.n_configurations"
"""Field with a key for every variant."""


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
        return self.name.rpartition(".")[0].removesuffix(".n_configurations")


def list_study_keys(trainable: str) -> list[StudyKey]:
    """Return every key that a study of a trainable has, without the names of the tables.

    Raises:
        KeyError: if a field has no docstring.
    """
    return list(_iter_keys(get_study_class(trainable), "", trainable))


def _iter_keys(model: type[Settings], prefix: str, trainable: str) -> Iterator[StudyKey]:
    base = Study if issubclass(model, Study) else model
    docs = read_field_docs(base)
    for name, field in model.model_fields.items():
        dotted = prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield from _iter_keys(field.annotation, f"{dotted}.", trainable)
        else:
            yield StudyKey(dotted, field.annotation, tuple(field.metadata), field.default, _clean(docs[name]), base)
            if dotted == N_CONFIGURATIONS:
                yield from _iter_variant_keys(field, trainable, base)


def _iter_variant_keys(field: FieldInfo, trainable: str, owner: type[Settings]) -> Iterator[StudyKey]:
    """Yield the key of every variant for its number of configurations."""
    study_type = get_study_type(trainable)
    annotation: Any = field.annotation
    for variant in study_type.default_variants or study_type.variants:
        row = study_type.variants[variant]
        meaning = f"The number for {variant}, at most all configurations of its grid."
        if variant == study_type.baseline:
            meaning = f"The number for {variant}. It has nothing to search unless a training setting is searched."
        yield StudyKey(
            f"{N_CONFIGURATIONS}.{variant}", annotation.__args__[1], (), row.n_configurations, meaning, owner
        )


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
