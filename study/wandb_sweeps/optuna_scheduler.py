"""Optuna as the engine of a W&B sweep, in the process `wandb sweep-scheduler`.

W&B's client asks an Optuna study for a trial, calls a function that returns the trial's values, and reports the result
to the Optuna study. This module makes both from the study that the sweep was exported from: its space and its sampler.
"""

import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

from search_spaces.samplers import SAMPLERS
from search_spaces.space import Params, to_suggestions
from study.config.loader import Study, load_study
from study.config.spaces import count_proposals, make_system_space
from study.config.trial_params import list_param_names, parse_trial_params
from study.scheduling.objectives import get_directions, get_objectives
from study.wandb_sweeps.export import SCHEDULER_ORIGIN, StudyReference, SweepScheduler
from trainables.utils.errors import UserError

SearchSpace = Callable[[optuna.Trial], dict[str, Any]]
Optimizer = Callable[[Any], optuna.Study]
_MAX_REPEATS = 3
"""Repeated proposals of the sampler after which an unseen configuration is taken instead."""


def make_sweep_scheduler(source: StudyReference, variant: str, folder: Path) -> SweepScheduler:
    """Return the engine of a sweep, and the Python file that it names.

    Raises:
        UserError: the study runs its whole grid, so nothing has to be proposed.
    """
    study = load_study(source.name, source.overrides)
    if study.search.sampler == "grid":
        raise UserError("--engine", "optuna, for the sampler grid", "another search.sampler, or no --engine")
    path = folder / f"{re.sub(r'[-.]', '_', variant.lower())}_space.py"
    arguments = ", ".join(map(repr, source.arguments))
    code = (
        f'"""Search space and sampler of {variant} {SCHEDULER_ORIGIN}\n\n'
        "from study.wandb_sweeps.optuna_scheduler import make_scheduler_functions\n\n"
        f"search_space, optimizer = make_scheduler_functions({variant!r}, {arguments})\n"
    )
    settings = {
        "engine": "optuna",
        "source": os.path.relpath(path),
        "search_space": "search_space",
        "optimizer": "optimizer",
    }
    return SweepScheduler({"scheduler": settings}, (path, code))


def make_scheduler_functions(variant: str, name: str, *overrides: str) -> tuple[SearchSpace, Optimizer]:
    """Return the two functions that the `scheduler` section of a sweep names.

    Args:
        variant: the variant of the sweep.
        name: name or file of the study.
        overrides: overrides of its settings, KEY=VALUE.

    Returns:
        `search_space`, which returns the values of an Optuna trial, and `optimizer`, which returns the Optuna study.
    """
    study = load_study(name, overrides)
    space = make_system_space(study, variant)

    def search_space(trial: optuna.Trial) -> dict[str, Any]:
        return {"variant": variant, **space(trial).values}

    def optimizer(sweep: Any) -> optuna.Study:
        return _SweepStudy(study, variant)

    return search_space, optimizer


class _BoundedSampler(optuna.samplers.PartialFixedSampler):
    """Sampler of the study, which also answers whether the search has ended.

    W&B's client asks it what it asks Optuna's GridSampler. With nothing fixed, the base class delegates every call.

    Args:
        sampler: proposes the configurations.
        n_configurations: number of configurations to propose.
    """

    def __init__(self, sampler: optuna.samplers.BaseSampler, n_configurations: int) -> None:
        super().__init__({}, sampler)
        self._n_configurations = n_configurations

    def is_exhausted(self, study: "_SweepStudy") -> bool:
        """Return whether nothing more is to be proposed. W&B then ends the sweep once its runs have ended."""
        return study.n_proposed >= self._n_configurations


class _SweepStudy(optuna.Study):
    """Optuna study that proposes each configuration once, and no more than the study's search would.

    Default configurations come first if the grid has them. The study's sampler proposes the others.

    Args:
        study: its sampler, objectives and grid are used.
        variant: the variant to search.
    """

    def __init__(self, study: Study, variant: str) -> None:
        self._study, self._space = study, make_system_space(study, variant)
        self._grid = self._space.grid
        self._points, self._seen = self._space.list_configurations(), dict[Params, None]()
        self._has_enqueued = False
        storage = optuna.storages.InMemoryStorage()
        optuna.create_study(storage=storage, study_name=variant, directions=get_directions(get_objectives(study)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = SAMPLERS[study.search.sampler](study.search.seed, study.search.round_size)
            bounded_sampler = _BoundedSampler(sampler, count_proposals(study)[variant])
        super().__init__(variant, storage, sampler=bounded_sampler)

    @property
    def n_proposed(self) -> int:
        """Number of distinct configurations that were proposed or taken over."""
        return len(self._seen)

    def enqueue_trial(
        self, params: dict[str, Any], user_attrs: dict[str, Any] | None = None, skip_if_exists: bool = False
    ) -> None:
        """Enqueue an existing run by its values: the next call of `ask` returns it.

        Raises:
            UserError: the study cannot have such a run.
            ValueError: the values are not in its grid.
        """
        values = {name: str(value) for name, value in params.items() if name in list_param_names(self._study)}
        self._enqueue_point(parse_trial_params(self._study, values).params)
        self._has_enqueued = True

    def ask(self, fixed_distributions: dict[str, Any] | None = None) -> optuna.Trial:
        """Return the next configuration, or the enqueued one."""
        pending_defaults = [
            point
            for point in self._space.list_default_configurations()
            if point in self._points and point not in self._seen
        ]
        if pending_defaults and not self._has_enqueued:
            self._enqueue_point(pending_defaults[0])
        for _ in range(_MAX_REPEATS):
            trial = super().ask()
            point = self._space(trial)
            if point not in self._seen or self._has_enqueued:
                self._has_enqueued, self._seen[point] = False, None
                return trial
            self.tell(trial, state=optuna.trial.TrialState.FAIL)
        self._enqueue_point(next(point for point in self._points if point not in self._seen))
        return self.ask()

    def _enqueue_point(self, point: Params) -> None:
        super().enqueue_trial(to_suggestions(point, self._grid))
