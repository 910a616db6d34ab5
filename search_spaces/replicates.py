"""Optuna over configurations that are each judged by the mean over their seeds.

Configurations are asked for in rounds of a fixed size and told in the order of proposal, so a proposal is a function of
the search's seed and of earlier results: the same on one core, on a cluster and after a kill.
"""

from collections.abc import Sequence
from typing import NamedTuple

import optuna

from search_spaces.smoothing import DEFAULTS, settings, size, smoothing
from trainables.randomness import counter
from trainables.smoothing import VARIANTS
from trainables.specification import VariantSettings

_REPEATS = 200
"""How often the sampler may repeat itself before the next unseen point of the grid is taken instead."""


class Proposal(NamedTuple):
    """A configuration in the order of proposal."""

    number: int
    variant: str
    settings: VariantSettings


class Search:
    """The search of one variant.

    Args:
        variant: a key of `trainables.smoothing.VARIANTS`.
        proposals: how many distinct configurations are tried, at most the size of the grid.
        parallel: configurations a round.
        seed: of the sampler.
        epsilons: grid of epsilon.
        switches: grid of the switch point.
    """

    def __init__(
        self,
        variant: str,
        proposals: int,
        parallel: int,
        seed: int,
        epsilons: Sequence[float],
        switches: Sequence[float],
    ) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.variant, self._parallel = variant, parallel
        self._left = min(proposals, size(variant, epsilons, switches))
        self._grid = (tuple(epsilons), tuple(switches))
        sampler = optuna.samplers.TPESampler(
            seed=counter(seed, f"search/{variant}", 0) % 2**32, n_startup_trials=parallel, multivariate=True
        )
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._seen: list[VariantSettings] = []
        self._asked: list[optuna.Trial] = []
        default = {name: value for name, value in DEFAULTS.items() if name in self._names()}
        if settings(variant, default) in self._points():
            self._study.enqueue_trial(default)

    def round(self) -> list[Proposal]:
        """The next configurations; none once all proposals are made. Every round is told before the next is asked."""
        assert not self._asked
        proposals = []
        for _ in range(min(self._parallel, self._left)):
            trial, values = self._unseen()
            proposals.append(Proposal(len(self._seen), self.variant, values))
            self._seen.append(values)
            self._asked.append(trial)
        self._left -= len(proposals)
        return proposals

    def tell(self, means: Sequence[float | None]) -> None:
        """The mean over the seeds of each configuration of the round; None where a seed failed."""
        for trial, mean in zip(self._asked, means, strict=True):
            if mean is None:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                self._study.tell(trial, mean)
        self._asked = []

    def remaining(self) -> list[VariantSettings]:
        """What may still be proposed."""
        return [point for point in self._points() if point not in self._seen] if self._left else []

    def _unseen(self) -> tuple[optuna.Trial, VariantSettings]:
        for repeat in range(_REPEATS + 1):
            if repeat == _REPEATS:
                point = next(point for point in self._points() if point not in self._seen)
                self._study.enqueue_trial(point.model_dump(include=self._names()))
            trial = self._study.ask()
            values = smoothing(trial, self.variant, *self._grid)
            if values not in self._seen:
                break
            self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
        return trial, values

    def _names(self) -> set[str]:
        return {"epsilon", "switch"} if VARIANTS[self.variant].schedule == "two_stage" else {"epsilon"}

    def _points(self) -> list[VariantSettings]:
        epsilons, switches = self._grid
        if "switch" not in self._names():
            return [settings(self.variant, {"epsilon": epsilon}) for epsilon in epsilons]
        pairs = [{"epsilon": epsilon, "switch": switch} for epsilon in epsilons for switch in switches]
        return [settings(self.variant, pair) for pair in pairs]
