"""The whole space of a system: its smoothing, its curriculum, what is searched of the optimisation. Loads no numpy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from search_spaces import curriculum
from search_spaces.optimisation import suggest_optimisation
from search_spaces.smoothing import list_default_smoothings, suggest_smoothing
from search_spaces.space import Grid, Params, Suggester, enumerate_space
from trainables.smoothing.schedules import Variant


@dataclass(frozen=True)
class SystemSpace:
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
    variant: Variant
    smoothing_defaults: Mapping[str, Any]
    smoothing_grid: Grid
    optimisation_grid: Grid
    training_defaults: dict[str, Any]
    curriculum_grid: Grid = field(default_factory=dict)

    @property
    def grid(self) -> Grid:
        """The values of every hyperparameter that it may ask for, by name."""
        return {**self.smoothing_grid, **self.optimisation_grid, **self.curriculum_grid}

    def __call__(self, trial: Suggester) -> Params:
        """Asks a trial for every hyperparameter of this variant."""
        return Params(
            suggest_smoothing(trial, self.variant, self.smoothing_defaults, self.smoothing_grid),
            suggest_optimisation(trial, self.optimisation_grid),
            curriculum.suggest_curriculum(trial, self.curriculum_grid),
        )

    def list_configurations(self) -> list[Params]:
        """All of them: the untuned ones, as far as the grid has them, then the rest in its order."""
        found = dict.fromkeys(enumerate_space(self))
        first = [point for point in self.list_default_configurations() if point in found]
        return list(dict.fromkeys(first) | found)

    def list_default_configurations(self) -> list[Params]:
        """The untuned configurations, one a schedule, whether or not the grid has them."""
        own = tuple((name, self.training_defaults[name]) for name in self.optimisation_grid)
        order = curriculum.get_default_curriculum(self.curriculum_grid)
        found = list_default_smoothings(self.variant, self.smoothing_defaults, self.smoothing_grid)
        return [Params(tuple(values.items()), own, order) for values in found]
