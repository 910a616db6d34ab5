"""Base class and number types of all settings models."""

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

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
