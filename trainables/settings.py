"""What every settings model has in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """Base of every settings model: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
