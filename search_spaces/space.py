"""Finite spaces, defined by running: a function asks a trial for one value after another, and may ask by what it got.

The same function serves a sampler, which answers by what it has learnt, and `points`, which answers in every way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

Grid = Mapping[str, Sequence[Any]]
"""Name of a hyperparameter -> the values it may take; numbers are in increasing order."""


class Suggester(Protocol):
    """Who answers; `optuna.Trial` does."""

    def suggest_int(self, name: str, low: int, high: int) -> int:
        """A number from `low` to `high`, both included."""

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> Any:
        """One of the choices."""


class Params(NamedTuple):
    """A configuration's hyperparameters: those of the smoothing, those of the optimisation that are searched, and those
    of its curriculum."""

    smoothing: tuple[tuple[str, Any], ...] = ()
    optimisation: tuple[tuple[str, Any], ...] = ()
    curriculum: tuple[tuple[str, Any], ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """All of them by name."""
        return dict(self.smoothing + self.optimisation + self.curriculum)


Space = Callable[[Suggester], Params]


def suggest_value(trial: Suggester, name: str, values: Sequence[Any]) -> Any:
    """One of the values.

    A number is asked for by its place, so that the sampler knows which values are neighbours however they are spaced;
    where there is one value only, nothing is asked.
    """
    if len(values) == 1:
        return values[0]
    if isinstance(values[0], str):
        return trial.suggest_categorical(name, list(values))
    return values[trial.suggest_int(name, 0, len(values) - 1)]


def to_suggestions(params: Params, grid: Grid) -> dict[str, Any]:
    """What a trial must answer to arrive at this point."""
    found = {name: value for name, value in params.values.items() if len(grid[name]) > 1}
    return {name: v if isinstance(v, str) else list(grid[name]).index(v) for name, v in found.items()}


class _EnumeratingSuggester:
    """Answers with the places it was given, then with first places; notes how many there were each time."""

    def __init__(self, prefix: Sequence[int]) -> None:
        self._prefix, self.answers, self.sizes = prefix, list[int](), list[int]()

    def suggest_int(self, name: str, low: int, high: int) -> int:
        return low + self._answer(high - low + 1)

    def suggest_categorical(self, name: str, choices: Sequence[str]) -> Any:
        return choices[self._answer(len(choices))]

    def _answer(self, size: int) -> int:
        place = self._prefix[len(self.answers)] if len(self.answers) < len(self._prefix) else 0
        self.answers.append(place)
        self.sizes.append(size)
        return place


def enumerate_space(space: Space) -> Iterator[Params]:
    """Every point of the space, once."""
    following: list[int] | None = []
    while following is not None:
        walk = _EnumeratingSuggester(following)
        yield space(walk)
        taken, sizes = walk.answers, walk.sizes
        while taken and taken[-1] == sizes[len(taken) - 1] - 1:
            taken.pop()
        following = [*taken[:-1], taken[-1] + 1] if taken else None


def collect_values(configurations: Iterable[Params]) -> dict[str, list[Any]]:
    """The values that each hyperparameter takes among some points, by name, in the order in which they come."""
    taken: dict[str, dict[Any, None]] = {}
    for point in configurations:
        for name, value in point.values.items():
            taken.setdefault(name, {})[value] = None
    return {name: list(own) for name, own in taken.items()}


def split_into_branches(configurations: Iterable[Params]) -> list[list[Params]]:
    """Points parted by which hyperparameters they have: within a branch all values can be combined."""
    parted: dict[tuple[str, ...], list[Params]] = {}
    for point in configurations:
        parted.setdefault(tuple(point.values), []).append(point)
    return list(parted.values())
