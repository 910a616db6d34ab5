"""A schedule of your own with a setting of its own: the strength of the smoothing falls as a power.

It is a function, and its setting is a field with a range and a default: `search.schedule = ["powered"]`,
`search.schedule_settings.power = [1.0, 3.0]`.
"""

from typing import Annotated

from pydantic import Field

from trainables.smoothing import SCHEDULES
from trainables.utils.base_settings import Settings


class PoweredSettings(Settings):
    """Setting of the schedule."""

    power: Annotated[float, Field(gt=0, le=5)] = 2.0
    """Power of the schedule powered: the larger, the faster the strength falls at first."""


@SCHEDULES.register(
    "powered",
    "falls as (1 - p)^power, where p is the share of training that is done",
    "an example",
    settings=PoweredSettings,
)
def powered(epsilon: float, seen: int, total: int, power: float) -> float:
    """Return a strength that falls as (1 - p)^power, where p is the share of training that is done.

    Args:
        epsilon: strength of the smoothing at the start.
        seen: instances trained so far.
        total: instances of the whole training.
        power: the power.

    Example:
        >>> powered(0.4, 50, 100, power=2.0)
        0.1
    """
    return epsilon * (1 - seen / total) ** power
