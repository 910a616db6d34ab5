"""Creates the study class of each trainable, with its sections and consistency checks."""

import operator
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from search_spaces.search_settings import check_distinct, expect
from search_spaces.study_type import DEFAULT_STUDY_TYPE, get_study_type
from study.config.schema import EvaluatedCollection, Study
from study.config.validation import find_config_errors
from trainables.specs.run_spec import BaseTaskSettings
from trainables.utils.plugins import LOADED
from trainables.utils.registry import PLUGINS_HINT


def _check_study(study: Study) -> Study:
    if errors := find_config_errors(study):
        lines = [f"{key}: {value}; expected {expected}" for key, value, expected, _ in errors]
        raise PydanticCustomError("disagreements", "{lines}", {"lines": "; ".join(lines), "found": errors})
    return study


def get_study_class(trainable: str = DEFAULT_STUDY_TYPE) -> type[Study]:
    """Return the study class of a trainable.

    Args:
        trainable: name of the trainable, a key of `search_spaces.study_type.STUDY_TYPES`.

    Raises:
        ValueError: if there is no such trainable.

    Example:
        >>> get_study_class("sentence-encoder").model_fields["variants"].default
        ('SimCSE', 'GS-InfoNCE', 'T-GS-InfoNCE')
    """
    return _make_study_class(trainable, tuple(LOADED))


@lru_cache
def _make_study_class(trainable: str, plugins: tuple[str, ...]) -> type[Study]:
    study_type = get_study_type(trainable)
    study_type.check()
    sections, names = study_type.sections, study_type.default_variants or tuple(study_type.variants)
    expected = (
        f"a list of distinct names out of {study_type.describe_variants()}, including {study_type.describe_baselines()}"
        f', e.g. ["{names[0]}", "{names[1]}"]'
    )

    def check_variants(values: tuple[str, ...]) -> tuple[str, ...]:
        if not values:
            raise ValueError(expected)
        for name in values:
            if name not in study_type.variants:
                similar = study_type.describe_unknown(name)
                raise ValueError(f"{similar}; {expected}" if similar else expected + PLUGINS_HINT)
            if (form := study_type.find_baseline(name)) not in values:
                raise ValueError(f"also {form}, the baseline of {name}")
        return values

    task: Any = study_type.collection or BaseTaskSettings
    collection = create_model("EvaluatedCollection", __base__=EvaluatedCollection, task=(task, ...))
    fields: dict[str, Any] = {
        "evaluate": (Annotated[tuple[collection, ...], Field(exclude_if=operator.not_)], ()),  # type: ignore[valid-type]
        "trainable": (Literal[trainable], trainable),
        "variants": (
            Annotated[
                tuple[str, ...], AfterValidator(check_distinct), expect(expected), AfterValidator(check_variants)
            ],
            names,
        ),
        **{name: (section, section()) for name, section in vars(sections).items()},
    }
    validator: Any = model_validator(mode="after")(_check_study)
    return create_model("Study", __base__=Study, __validators__={"consistent": validator}, **fields)
