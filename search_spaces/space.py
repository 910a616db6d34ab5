"""Finite search spaces, defined by running a function that asks for one value after another.

What the function asks for may depend on the values it received. The same function serves a sampler, which answers from
earlier results, and `enumerate_space`, which answers in every possible way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Grid = Mapping[str, Sequence[Any]]
"""Name of a hyperparameter -> the values it may take; numbers are in increasing order."""


class Suggester(Protocol):
    """Suggests values, as `optuna.Trial` does."""

    def suggest_int(self, name: str, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included."""

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> Any:
        """Return one of the choices."""


class Params(NamedTuple):
    """Hyperparameters of a configuration.

    Attributes:
        smoothing: names and values of the smoothing hyperparameters.
        optimisation: names and values of the training settings that are searched.
        curriculum: names and values of the curriculum hyperparameters.

    Example:
        >>> Params(smoothing=(("epsilon", 0.2),), optimisation=(("batch_size", 16),)).values
        {'epsilon': 0.2, 'batch_size': 16}
    """

    smoothing: tuple[tuple[str, Any], ...] = ()
    optimisation: tuple[tuple[str, Any], ...] = ()
    curriculum: tuple[tuple[str, Any], ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """Values of all hyperparameters, by name."""
        return dict(self.smoothing + self.optimisation + self.curriculum)


Space = Callable[[Suggester], Params]
"""Function that asks for hyperparameters and returns the configuration."""


def suggest_value(trial: Suggester, name: str, values: Sequence[Any]) -> Any:
    """Return one of the values.

    A number is suggested by its index, so that the sampler knows which values are neighbours, however they are spaced.
    If there is only one value, nothing is asked.

    Args:
        trial: suggests the value.
        name: name of the hyperparameter.
        values: values it may take.
    """
    if len(values) == 1:
        return values[0]
    if isinstance(values[0], str):
        return trial.suggest_categorical(name, list(values))
    return values[trial.suggest_int(name, 0, len(values) - 1)]


def to_suggestions(params: Params, grid: Grid) -> dict[str, Any]:
    """Return the suggestions that lead a trial to this configuration.

    Args:
        params: the configuration.
        grid: values of every hyperparameter.

    Returns:
        Name -> text, or index of a number in its values. Hyperparameters with one value are left out.
    """
    varied = {name: value for name, value in params.values.items() if len(grid[name]) > 1}
    return {name: v if isinstance(v, str) else list(grid[name]).index(v) for name, v in varied.items()}


class _EnumeratingSuggester:
    """Answers with the given indices, then with 0, and notes the number of choices each time."""

    def __init__(self, prefix: Sequence[int]) -> None:
        self._prefix, self.answers, self.sizes = prefix, list[int](), list[int]()

    def suggest_int(self, name: str, low: int, high: int) -> int:
        return low + self._answer(high - low + 1)

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> Any:
        return choices[self._answer(len(choices))]

    def _answer(self, size: int) -> int:
        index = self._prefix[len(self.answers)] if len(self.answers) < len(self._prefix) else 0
        self.answers.append(index)
        self.sizes.append(size)
        return index


def enumerate_space(space: Space) -> Iterator[Params]:
    """Yield every configuration of the space once.

    Args:
        space: function that asks for hyperparameters and returns the configuration.

    Example:
        >>> space = lambda trial: Params(smoothing=(("epsilon", suggest_value(trial, "epsilon", [0.1, 0.2])),))
        >>> [params.values for params in enumerate_space(space)]
        [{'epsilon': 0.1}, {'epsilon': 0.2}]
    """
    prefix: list[int] | None = []
    while prefix is not None:
        suggester = _EnumeratingSuggester(prefix)
        yield space(suggester)
        taken, sizes = suggester.answers, suggester.sizes
        while taken and taken[-1] == sizes[len(taken) - 1] - 1:
            taken.pop()
        prefix = [*taken[:-1], taken[-1] + 1] if taken else None


def collect_values(configurations: Iterable[Params]) -> dict[str, list[Any]]:
    """Return the values that each hyperparameter takes among some configurations.

    Args:
        configurations: the configurations.

    Returns:
        Name -> distinct values in the order in which they occur.
    """
    values_by_name: dict[str, dict[Any, None]] = {}
    for params in configurations:
        for name, value in params.values.items():
            values_by_name.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in values_by_name.items()}


def split_into_branches(configurations: Iterable[Params]) -> list[list[Params]]:
    """Group configurations by the hyperparameters that they have.

    Within a group all values can be combined.
    """
    branches: dict[tuple[str, ...], list[Params]] = {}
    for params in configurations:
        branches.setdefault(tuple(params.values), []).append(params)
    return list(branches.values())
