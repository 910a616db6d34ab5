"""The class of the studies of each trainable: its sections, and the check of their agreement."""

from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, create_model, model_validator
from pydantic_core import PydanticCustomError

from search_spaces.registry import DEFAULT, kind
from search_spaces.settings import described, distinct
from study.config.schema import Study
from study.config.validation import disagreements


def _agreeing(study: Study) -> Study:
    if found := disagreements(study):
        lines = [f"{key}: {value}; expected {expected}" for key, value, expected, _ in found]
        raise PydanticCustomError("disagreements", "{lines}", {"lines": "; ".join(lines), "found": found})
    return study


@lru_cache
def study_type(trainable: str = DEFAULT) -> type[Study]:
    """The class of the studies of a trainable.

    Raises:
        ValueError: there is no such trainable.
    """
    own = kind(trainable)
    sections, names = own.sections, tuple(own.variants)

    def among(values: tuple[str, ...]) -> tuple[str, ...]:
        if own.baseline not in distinct(values) or not {*values} <= {*names}:
            raise ValueError
        return values

    expected = (
        f"a list of distinct names out of {', '.join(names)}, the baseline {own.baseline} among them, "
        f'e.g. ["{names[0]}", "{names[1]}"]'
    )
    fields: dict[str, Any] = {
        "trainable": (Annotated[Literal[trainable], Field(exclude_if=lambda it: it == DEFAULT)], trainable),
        "variants": (Annotated[tuple[str, ...], AfterValidator(among), described(expected)], names),
        **{name: (section, section()) for name, section in vars(sections).items()},
    }
    agreeing: Any = model_validator(mode="after")(_agreeing)
    return create_model("Study", __base__=Study, __validators__={"agreeing": agreeing}, **fields)
