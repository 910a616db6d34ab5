"""What every settings model has in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
LARGEST = 10**12
"""Of every count: more than any machine trains, and far below what 64 bits hold."""
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Positive = Annotated[int, Field(ge=1, le=LARGEST)]
Plural = Annotated[int, Field(ge=2, le=LARGEST)]


class Settings(BaseModel):
    """Base of every settings model: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
