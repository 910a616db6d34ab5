"""What every settings model has in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Proportion = Annotated[float, Field(ge=0, le=1)]
MAX_COUNT = 10**12
"""Of every count: more than any machine trains, and far below what 64 bits hold."""
NonNegativeInt = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveInt = Annotated[int, Field(ge=1, le=MAX_COUNT)]
AtLeastTwo = Annotated[int, Field(ge=2, le=MAX_COUNT)]


class Settings(BaseModel):
    """Base of every settings model: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
