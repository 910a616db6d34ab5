"""A schedule of your own with a setting of its own: the strength of the smoothing falls as a power.

It is a function, and its setting is a parameter: `search.schedule = ["powered"]`, `search.power = [1.0, 3.0]`. The
module is imported by every command, so it imports nothing that takes time.
"""

from typing import Annotated

from pydantic import Field


def powered(
    epsilon: float,
    seen: int,
    total: int,
    power: Annotated[
        float, Field(gt=0, le=5, description="Powers of the schedule powered.", examples=[1.0, 3.0])
    ] = 2.0,
) -> float:
    """Return a strength that falls as (1 - p)^power, where p is the share of training that is done.

    Args:
        epsilon: strength of the smoothing at the start.
        seen: instances trained so far.
        total: instances of the whole training.
        power: the larger, the faster the strength falls at first.

    Example:
        >>> powered(0.4, 50, 100)
        0.1
    """
    return epsilon * (1 - seen / total) ** power
