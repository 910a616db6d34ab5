"""Base class and number types of all settings models."""

import math
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")
PositiveNumber = Annotated[float, Field(gt=0, lt=math.inf)]
Proportion = Annotated[float, Field(ge=0, le=1)]
MAX_COUNT = 10**12
"""Upper limit of every count: more than any machine can train, and far below the range of 64 bits."""
NonNegativeInt = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveInt = Annotated[int, Field(ge=1, le=MAX_COUNT)]
AtLeastTwo = Annotated[int, Field(ge=2, le=MAX_COUNT)]


class Settings(BaseModel):
    """Base class of all settings models: instances are immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def is_none(value: object) -> bool:
    """Return whether a setting is unset, so that a key which came later is in no hash of a run without it."""
    return value is None


def require(value: T | None) -> T:
    """Return a setting that is there, such as the model of a run that trains."""
    assert value is not None
    return value
