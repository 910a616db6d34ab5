"""What may vary in the optimisation, for every system alike, such as learning rate and batch size."""

from typing import Any

from search_spaces.space import Grid, Suggester, suggest_value


def suggest_optimisation(trial: Suggester, grid: Grid) -> tuple[tuple[str, Any], ...]:
    """The settings of training that are searched, and their values.

    Args:
        trial: who answers.
        grid: values by name, in the order of asking; a name that is not in it is not searched.
    """
    return tuple((name, suggest_value(trial, name, values)) for name, values in grid.items())
