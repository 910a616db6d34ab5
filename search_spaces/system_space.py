"""The whole space of a system: its smoothing, its curriculum, what is searched of the optimisation. Loads no numpy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from search_spaces import curriculum
from search_spaces.optimisation import optimisation
from search_spaces.smoothing import defaults, smoothing
from search_spaces.space import Grid, Point, Trial, points
from trainables.smoothing.schedules import Variant


@dataclass(frozen=True)
class Family:
    """A system's space: its smoothing, its curriculum, and what is searched of the optimisation.

    Attributes:
        system: its name.
        cell: how it smooths.
        strengths: the hyperparameters of smoothing but for those of its schedule, and their untuned values.
        smoothing: values of every setting of smoothing, by name.
        optimisation: values of the settings of training that are searched, by name.
        untuned: the study's own settings of training.
        curriculum: values of every setting of the curriculum, by name; empty: there is none.
    """

    system: str
    cell: Variant
    strengths: Mapping[str, Any]
    smoothing: Grid
    optimisation: Grid
    untuned: dict[str, Any]
    curriculum: Grid = field(default_factory=dict)

    @property
    def grid(self) -> Grid:
        """The values of every hyperparameter that it may ask for, by name."""
        return {**self.smoothing, **self.optimisation, **self.curriculum}

    def __call__(self, trial: Trial) -> Point:
        """Asks a trial for every hyperparameter of this variant."""
        return Point(
            smoothing(trial, self.cell, self.strengths, self.smoothing),
            optimisation(trial, self.optimisation),
            curriculum.curriculum(trial, self.curriculum),
        )

    def points(self) -> list[Point]:
        """All of them: the untuned ones, as far as the grid has them, then the rest in its order."""
        found = dict.fromkeys(points(self))
        first = [point for point in self.defaults() if point in found]
        return list(dict.fromkeys(first) | found)

    def defaults(self) -> list[Point]:
        """The untuned configurations, one a schedule, whether or not the grid has them."""
        own = tuple((name, self.untuned[name]) for name in self.optimisation)
        order = curriculum.defaults(self.curriculum)
        found = defaults(self.cell, self.strengths, self.smoothing)
        return [Point(tuple(values.items()), own, order) for values in found]
