"""The class of the studies of each trainable: its sections, and the check of their agreement."""

from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from search_spaces.registry import DEFAULT_STUDY_TYPE, get_study_type
from search_spaces.settings import check_distinct, expect
from study.config.schema import Study
from study.config.validation import find_config_errors


def _check_study(study: Study) -> Study:
    if found := find_config_errors(study):
        lines = [f"{key}: {value}; expected {expected}" for key, value, expected, _ in found]
        raise PydanticCustomError("disagreements", "{lines}", {"lines": "; ".join(lines), "found": found})
    return study


@lru_cache
def get_study_class(trainable: str = DEFAULT_STUDY_TYPE) -> type[Study]:
    """The class of the studies of a trainable.

    Raises:
        ValueError: there is no such trainable.
    """
    own = get_study_type(trainable)
    sections, names = own.sections, tuple(own.variants)

    def check_variants(values: tuple[str, ...]) -> tuple[str, ...]:
        if own.baseline not in check_distinct(values) or not {*values} <= {*names}:
            raise ValueError
        return values

    expected = (
        f"a list of distinct names out of {', '.join(names)}, the baseline {own.baseline} among them, "
        f'e.g. ["{names[0]}", "{names[1]}"]'
    )
    fields: dict[str, Any] = {
        "trainable": (Annotated[Literal[trainable], Field(exclude_if=lambda it: it == DEFAULT_STUDY_TYPE)], trainable),
        "variants": (Annotated[tuple[str, ...], AfterValidator(check_variants), expect(expected)], names),
        **{name: (section, section()) for name, section in vars(sections).items()},
    }
    agreeing: Any = model_validator(mode="after")(_check_study)
    return create_model("Study", __base__=Study, __validators__={"agreeing": agreeing}, **fields)
