"""Optuna over configurations that are each judged by the mean over their seeds.

Configurations are asked for in rounds of a fixed size and told in the order of proposal, so a proposal is a function of
the search's seed and of earlier results: the same on one core, on a cluster and after a kill.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.samplers import SAMPLERS
from search_spaces.space import Point, places
from search_spaces.system_space import Family
from trainables.utils.random import counter
from trainables.utils.threads import one_thread

if TYPE_CHECKING:
    import optuna
    from optuna.samplers import BaseSampler

Direction = Literal["maximize", "minimize"]
_BLIND = ("qmc",)
"""Samplers that look at no results, but count their own proposals."""
_REPEATS = 3
"""How often the sampler may repeat itself before the nearest unseen point is taken instead."""


class Search:
    """The search of one system.

    Args:
        family: its space.
        proposals: how many distinct configurations are tried, at most all of them.
        parallel: configurations a round.
        sampler: a key of `search_spaces.samplers.SAMPLERS`, or "grid" for the points in their own order.
        seed: of the sampler.
        directions: of each objective.
    """

    def __init__(
        self,
        family: Family,
        proposals: int,
        parallel: int,
        sampler: str,
        seed: int,
        directions: Sequence[Direction] = ("maximize",),
    ) -> None:
        self.family, self.parallel = family, parallel
        self.points, self._grid = family.points(), family.grid
        self._known = set(self.points)
        self.proposals = min(proposals, len(self.points))
        self._seen: dict[Point, None] = {}
        self._asked: list[tuple[Point, optuna.Trial | None]] = []  # no trial: known without asking
        self._rounds = 0
        self._queue = self.points if sampler == "grid" else [p for p in family.defaults() if p in self._known]
        self.sampler, self._seed, self._directions = sampler, seed, list(directions)
        self._study: optuna.Study | None = None

    def round(self, known: Sequence[Point] = ()) -> list[Point]:
        """The next configurations; none once all proposals are made. Every round is told before the next is asked.

        Args:
            known: what an earlier start of the same search, told the same until here, proposed in this round. It is
                taken as it is, since to ask a sampler again for thousands of proposals would take minutes.
        """
        assert not self._asked
        count = min(self.parallel, self._left)
        self._rounds += 1
        if self.sampler in _BLIND or len(set(known) - self._seen.keys()) < count or not set(known) <= self._known:
            known = ()
        for place in range(count):
            trial, point = (None, known[place]) if known else self._unseen()
            self._seen[point] = None
            self._asked.append((point, trial))
        return [point for point, _ in self._asked]

    def tell(self, values: Sequence[Sequence[float] | None]) -> None:
        """The objectives of each configuration of the round, means over its seeds; None where a seed failed."""
        import optuna

        study = self._study = self._study or self._begin()
        for (point, trial), found in zip(self._asked, values, strict=True):
            state = optuna.trial.TrialState.FAIL if found is None else optuna.trial.TrialState.COMPLETE
            if trial is not None:
                study.tell(trial, found, state=state)
            else:
                answers = optuna.trial.FixedTrial(self._places(point))
                self.family(answers)
                study.add_trial(
                    optuna.trial.create_trial(
                        state=state, values=found, params=answers.params, distributions=answers.distributions
                    )
                )
        self._asked = []

    def remaining(self) -> list[Point]:
        """What may still be proposed."""
        return [point for point in self.points if point not in self._seen] if self._left else []

    def withdraw(self) -> None:
        """Takes the last round back, and proposes nothing more."""
        for point, _ in self._asked:
            del self._seen[point]
        self._asked = []
        self.proposals = len(self._seen)

    @property
    def size(self) -> int:
        """Distinct configurations of the space."""
        return len(self.points)

    @property
    def key(self) -> list[Any]:
        """What its proposals depend on, beside what it is told."""
        untuned = [point.values for point in self._queue] if self.sampler != "grid" else []
        return [self.family.system, self.varied, untuned, self.parallel, self.sampler, self._seed, self._directions]

    @property
    def varied(self) -> dict[str, list[Any]]:
        """The values of every hyperparameter of the space that has more than one."""
        names = {name for point in self.points for name in point.values}
        return {name: list(self._grid[name]) for name in self._grid if name in names and len(self._grid[name]) > 1}

    @property
    def _left(self) -> int:
        return self.proposals - len(self._seen)

    def _unseen(self) -> "tuple[optuna.Trial, Point]":
        with one_thread() if self.sampler == "gp" else nullcontext():
            return self._asked_for()

    def _asked_for(self) -> "tuple[optuna.Trial, Point]":
        import optuna

        study = self._study = self._study or self._begin()
        if self.sampler not in _BLIND and not self._asked:
            study.sampler = self._made(self._rounds)
        untried = [point for point in self._queue if point not in self._seen]
        for _ in range(_REPEATS):
            if untried:
                study.enqueue_trial(self._places(untried[0]))
            trial = study.ask()
            point = self.family(trial)
            if point not in self._seen:
                return trial, point
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        wanted = self._places(point)
        nearest = min(
            (point for point in self.points if point not in self._seen),
            key=lambda other: self._distance(wanted, self._places(other)),
        )
        study.enqueue_trial(self._places(nearest))
        trial = study.ask()
        return trial, self.family(trial)

    def _places(self, point: Point) -> dict[str, Any]:
        return places(point, self._grid)

    def _distance(self, one: dict[str, Any], other: dict[str, Any]) -> Fraction:
        """Sum over the hyperparameters of how far apart they are in their range; 1 where only one has it.

        It is exact: a rounded sum follows the order of the names, which differs from process to process.
        """
        total = Fraction()
        for name in one.keys() | other.keys():
            first, second = one.get(name), other.get(name)
            if isinstance(first, int) and isinstance(second, int):
                total += Fraction(abs(first - second), len(self._grid[name]) - 1)
            else:
                total += first != second
        return total

    def _begin(self) -> "optuna.Study":
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        return optuna.create_study(directions=self._directions, sampler=self._made(0))

    def _made(self, number: int) -> "BaseSampler":
        """The sampler of a round: what it draws depends on the round and on earlier results, not on earlier draws."""
        import optuna

        seed = counter(self._seed, f"search/{self.family.system}", number) % 2**32
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return SAMPLERS["qmc" if self.sampler == "grid" else self.sampler](seed, self.parallel)
