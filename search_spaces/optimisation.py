"""What may vary in the optimisation, for every system alike: learning rate, batch size, negatives a query."""

from typing import Any

from search_spaces.space import Grid, Trial, choose

NAMES = ("learning_rate", "batch_size", "negatives")
"""Keys of `trainables.specification.TrainingSettings`."""


def optimisation(trial: Trial, grid: Grid) -> tuple[tuple[str, Any], ...]:
    """The settings of training that are searched, and their values.

    Args:
        trial: who answers.
        grid: values by name; a name that is not in it is not searched.
    """
    return tuple((name, choose(trial, name, grid[name])) for name in NAMES if name in grid)
