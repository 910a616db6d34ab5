"""Search space of the optimisation, such as learning rate and batch size.

It is the same for every system.
"""

from typing import Any

from search_spaces.space import Grid, Suggester, suggest_value


def suggest_optimisation(trial: Suggester, grid: Grid) -> tuple[tuple[str, Any], ...]:
    """Return the training settings that are searched, and their values.

    Args:
        trial: suggests the values.
        grid: values by name, in the order of suggestion. A name that is missing is not searched.
    """
    return tuple((name, suggest_value(trial, name, values)) for name, values in grid.items())
