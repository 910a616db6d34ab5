"""Optuna as the engine of a W&B sweep, in the process `wandb sweep-scheduler`: the study's own space and sampler.

W&B's client asks a study of Optuna's for a trial, hands that to a function that says which values it stands for, and
tells the study what became of it. Both are made here, from the study that the sweep was exported from.
"""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

from search_spaces.samplers import SAMPLERS
from search_spaces.space import Point, places
from study.config import trial_params as hyperparameters
from study.config.loader import Study, load
from study.config.spaces import family, searched
from study.scheduling.objectives import directions, objectives
from study.wandb_sweeps.export import Proposer, Source
from trainables.utils.errors import UserError

SearchSpace = Callable[[optuna.Trial], dict[str, Any]]
Optimizer = Callable[[Any], optuna.Study]
_REPEATS = 3
"""How often the sampler may repeat itself before an unseen configuration is taken instead."""


def engine(source: Source, variant: str, folder: Path) -> Proposer:
    """What a sweep says of its engine, and the file that it names.

    Raises:
        UserError: the study runs its whole grid, for which nothing has to be proposed.
    """
    study = load(source.name, source.overrides)
    if study.search.sampler == "grid":
        raise UserError("--engine", "optuna, for the sampler grid", "another search.sampler, or no --engine")
    path = folder / f"{variant.lower().replace('-', '_')}_space.py"
    named = ", ".join(map(repr, source.arguments))
    code = (
        f'"""What `wandb sweep-scheduler` needs to know of {variant}: the space and the sampler of its study."""\n\n'
        "from study.wandb_sweeps.optuna_scheduler import scheduled\n\n"
        f"search_space, optimizer = scheduled({variant!r}, {named})\n"
    )
    settings = {
        "engine": "optuna",
        "source": os.path.relpath(path),
        "search_space": "search_space",
        "optimizer": "optimizer",
    }
    return Proposer({"scheduler": settings}, (path, code))


def scheduled(variant: str, name: str, *overrides: str) -> tuple[SearchSpace, Optimizer]:
    """The two functions that a sweep's `scheduler` names.

    Args:
        variant: whose sweep.
        name: of the study.
        overrides: of its settings.
    """
    asked = load(name, overrides)
    space = family(asked, variant)

    def search_space(trial: optuna.Trial) -> dict[str, Any]:
        return {"variant": variant, **space(trial).values}

    def optimizer(sweep: Any) -> optuna.Study:
        return _Proposals(asked, variant)

    return search_space, optimizer


class _Proposals(optuna.Study):
    """Proposes each configuration once: the untuned ones first, as far as the grid has them, the rest as the study's
    sampler does; no more than the study's search would.

    Args:
        asked: whose sampler, objectives and grid.
        variant: whose space.
    """

    def __init__(self, asked: Study, variant: str) -> None:
        self._study, self._family = asked, family(asked, variant)
        self._grid = self._family.grid
        self._points, self._seen = self._family.points(), dict[Point, None]()
        self._given = False
        kept = optuna.storages.InMemoryStorage()
        optuna.create_study(storage=kept, study_name=variant, directions=directions(objectives(asked)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = SAMPLERS[asked.search.sampler](asked.search.seed, asked.search.parallel)
        wanted = searched(asked)[variant]
        # W&B's client asks the sampler, as Optuna's for grids answers, whether the sweep ends when its runs have ended.
        sampler.is_exhausted = lambda study: len(self._seen) >= wanted  # type: ignore[attr-defined]
        super().__init__(variant, kept, sampler=sampler)

    def enqueue_trial(
        self, params: dict[str, Any], user_attrs: dict[str, Any] | None = None, skip_if_exists: bool = False
    ) -> None:
        """A run that exists, by its values; the next trial that is asked for is this one.

        Raises:
            UserError: the study cannot have such a run.
            ValueError: its grid has not.
        """
        given = {name: str(value) for name, value in params.items() if name in hyperparameters.names(self._study)}
        self._enqueue(hyperparameters.read(self._study, given).point)
        self._given = True

    def ask(self, fixed_distributions: dict[str, Any] | None = None) -> optuna.Trial:
        """The next configuration, or the one that was enqueued."""
        untuned = [point for point in self._family.defaults() if point in self._points and point not in self._seen]
        if untuned and not self._given:
            self._enqueue(untuned[0])
        for _ in range(_REPEATS):
            trial = super().ask()
            point = self._family(trial)
            if point not in self._seen or self._given:
                self._given, self._seen[point] = False, None
                return trial
            self.tell(trial, state=optuna.trial.TrialState.FAIL)
        self._enqueue(next(point for point in self._points if point not in self._seen))
        return self.ask()

    def _enqueue(self, point: Point) -> None:
        super().enqueue_trial(places(point, self._grid))
