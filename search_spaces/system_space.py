"""Complete search space of a system: its smoothing, its curriculum and the searched optimisation.

The module does not load numpy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from search_spaces.curriculum import get_default_curriculum, suggest_curriculum
from search_spaces.optimisation import suggest_optimisation
from search_spaces.smoothing import get_default_loss, list_default_smoothings, suggest_loss, suggest_smoothing
from search_spaces.space import Grid, Params, Suggester, enumerate_space
from trainables.smoothing.schedules import Variant


@dataclass(frozen=True)
class SystemSpace:
    """Search space of a system: its smoothing, its curriculum and the searched optimisation.

    Attributes:
        system: name of the system.
        variant: its smoothing.
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
        """Values of every hyperparameter that it may ask for, by name."""
        return {**self.smoothing_grid, **self.optimisation_grid, **self.curriculum_grid}

    def __call__(self, trial: Suggester) -> Params:
        """Ask a trial for every hyperparameter of this system, and return the configuration."""
        return Params(
            (
                *suggest_smoothing(trial, self.variant, self.smoothing_defaults, self.smoothing_grid),
                *suggest_loss(trial, self.variant, self.smoothing_grid),
            ),
            suggest_optimisation(trial, self.optimisation_grid),
            suggest_curriculum(trial, self.curriculum_grid),
        )

    def list_configurations(self) -> list[Params]:
        """Return all configurations of the space.

        The default ones that the grid contains come first, then the rest in the grid's order.
        """
        points = dict.fromkeys(enumerate_space(self))
        defaults = [point for point in self.list_default_configurations() if point in points]
        return list(dict.fromkeys(defaults) | points)

    def list_default_configurations(self) -> list[Params]:
        """Return the default configurations, one per schedule, whether or not the grid contains them.

        They have the system's own value of the hyperparameters that are part of what it is.
        """
        optimisation = tuple((name, self.training_defaults[name]) for name in self.optimisation_grid)
        default_curriculum = get_default_curriculum(self.curriculum_grid)
        smoothings = list_default_smoothings(self.variant, self.smoothing_defaults, self.smoothing_grid)
        loss = get_default_loss(self.variant, self.smoothing_grid)
        smoothings = [{name: self.fixed.get(name, value) for name, value in (own | loss).items()} for own in smoothings]
        return [Params(tuple(values.items()), optimisation, default_curriculum) for values in smoothings]
