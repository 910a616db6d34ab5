"""Finite search spaces: the list of all configurations of a system, and the defaults among them.

The module does not load numpy.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from search_spaces.curriculum_params import DEFAULTS, PARAM_NAMES
from trainables.losses import DEFAULT_TEMPERATURE, has_temperature
from trainables.smoothing.schedules import Variant, get_defaults

Grid = Mapping[str, Sequence[Any]]
"""Name of a hyperparameter -> the values it may take; numbers are in increasing order."""
Values = tuple[tuple[str, Any], ...]
"""Names and values of some hyperparameters, in the order in which a sampler chooses them."""


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

    smoothing: Values = ()
    optimisation: Values = ()
    curriculum: Values = ()

    @property
    def values(self) -> dict[str, Any]:
        """Values of all hyperparameters, by name."""
        return dict(self.smoothing + self.optimisation + self.curriculum)


@dataclass(frozen=True)
class SystemSpace:
    """Search space of a system: its smoothing, its curriculum and the searched optimisation.

    Attributes:
        smoothing_defaults: hyperparameters of the smoothing, except those of its schedule, and their default values.
        smoothing_grid: values of every smoothing hyperparameter, by name.
        optimisation_grid: values of the training settings that are searched, by name.
        training_defaults: the study's own training settings, by name.
        curriculum_grid: values of every curriculum hyperparameter, by name. If empty, there is no curriculum.
        fixed: the smoothing hyperparameters that are part of what the system is, and their values.
    """

    system: str
    variant: Variant
    smoothing_defaults: Mapping[str, Any]
    smoothing_grid: Grid
    optimisation_grid: Grid
    training_defaults: dict[str, Any]
    curriculum_grid: Grid = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def grid(self) -> Grid:
        """Values of every hyperparameter that a configuration may have, by name."""
        return {**self.smoothing_grid, **self.optimisation_grid, **self.curriculum_grid}

    @cached_property
    def points(self) -> list[Params]:
        """All configurations; the values of the last hyperparameter change first."""
        smoothings = [(*own, *rest) for own in self._iter_smoothings() for rest in self._iter_temperatures()]
        optimisations = list(_combine(self.optimisation_grid, self.optimisation_grid))
        return [Params(*parts) for parts in product(smoothings, optimisations, self._iter_curricula())]

    def list_configurations(self) -> list[Params]:
        """Return all configurations, the default ones among them first."""
        points = dict.fromkeys(self.points)
        return list(dict.fromkeys(p for p in self.list_default_configurations() if p in points) | points)

    def list_default_configurations(self) -> list[Params]:
        """Return the default configurations, one per schedule, whether or not the grid contains them.

        The variant's own schedule comes first. They have the system's own value of the hyperparameters that are part of
        what it is, and the published value of the others; of a temperature and a curriculum, the first value of the
        grid if it does not contain the published one.
        """
        optimisation = tuple((name, self.training_defaults[name]) for name in self.optimisation_grid)
        grid = self.curriculum_grid
        curriculum = {name: _choose_default(grid[name], DEFAULTS[name]) for name in PARAM_NAMES if grid}
        if curriculum.get("pacing") == "step":
            del curriculum["delta"]
        own = tuple(curriculum.items())
        return [
            Params(tuple((name, self.fixed.get(name, value)) for name, value in smoothing.items()), optimisation, own)
            for smoothing in self._iter_default_smoothings()
        ]

    def _iter_smoothings(self) -> Iterator[Values]:
        """Yield the smoothings: every strength, and if it is not constant every schedule with its settings."""
        if self.variant.distribution == "none":
            yield ()
            return
        for own in _combine(self.smoothing_grid, self.smoothing_defaults):
            if self.variant.schedule == "constant":
                yield own
                continue
            for schedule in self.smoothing_grid["schedule"]:
                for settings in _combine(self.smoothing_grid, get_defaults(schedule)):
                    yield (*own, ("schedule", schedule), *settings)

    def _iter_temperatures(self) -> Iterator[Values]:
        return _combine(self.smoothing_grid, ("temperature",) if self._has_temperature else ())

    def _iter_curricula(self) -> Iterator[Values]:
        """Yield the curricula; the pacing function "step" has its own thirds, so it has no delta."""
        if not self.curriculum_grid:
            yield ()
            return
        for own in _combine(self.curriculum_grid, ("pacing", "score")):
            names = ("duration",) if ("pacing", "step") in own else ("delta", "duration")
            yield from ((*own, *rest) for rest in _combine(self.curriculum_grid, names))

    def _iter_default_smoothings(self) -> Iterator[dict[str, Any]]:
        temperature = {}
        if self._has_temperature:
            temperature["temperature"] = _choose_default(self.smoothing_grid["temperature"], DEFAULT_TEMPERATURE)
        if self.variant.distribution == "none":
            yield temperature
        elif self.variant.schedule == "constant":
            yield {**self.smoothing_defaults, **temperature}
        else:
            for name in sorted(self.smoothing_grid["schedule"], key=lambda name: name != self.variant.schedule):
                yield {**self.smoothing_defaults, "schedule": name, **get_defaults(name), **temperature}

    @property
    def _has_temperature(self) -> bool:
        return has_param(self.variant, "temperature", ())


def _choose_default(values: Sequence[Any], published: Any) -> Any:
    return published if published in values else values[0]


def _combine(grid: Grid, names: Iterable[str]) -> Iterator[Values]:
    """Yield every combination of the values of these hyperparameters."""
    names = tuple(names)
    return (tuple(zip(names, values, strict=True)) for values in product(*(grid[name] for name in names)))


def has_param(variant: Variant, name: str, smoothing_params: Iterable[str]) -> bool:
    """Return whether a variant has a hyperparameter of smoothing, with any schedule.

    Args:
        variant: the variant.
        name: name of the hyperparameter, such as epsilon or switch.
        smoothing_params: names of the hyperparameters of the smoothing itself; the others are those of losses and
            schedules.
    """
    if name == "temperature":
        return variant.loss is not None and has_temperature(variant.loss, variant.distribution)
    return variant.distribution != "none" and (name in smoothing_params or variant.schedule != "constant")


def collect_values(configurations: Iterable[Params]) -> dict[str, list[Any]]:
    """Return the distinct values that each hyperparameter takes among some configurations, in the order of occurrence.

    Example:
        >>> collect_values([Params((("epsilon", 0.1),)), Params((("epsilon", 0.2),))])
        {'epsilon': [0.1, 0.2]}
    """
    values_by_name: dict[str, dict[Any, None]] = {}
    for params in configurations:
        for name, value in params.values.items():
            values_by_name.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in values_by_name.items()}


def split_into_branches(configurations: Iterable[Params]) -> list[list[Params]]:
    """Group configurations by the hyperparameters that they have; within a group all values can be combined."""
    branches: dict[tuple[str, ...], list[Params]] = {}
    for params in configurations:
        branches.setdefault(tuple(params.values), []).append(params)
    return list(branches.values())
