"""Optuna search over configurations that are judged by the mean over their seeds.

Configurations are asked for in rounds of a fixed size, and their results are reported in the order of proposal. A
proposal is therefore a function of the search's seed and of earlier results: the same on one core, on a cluster and
after a kill.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.search_samplers import SAMPLERS
from search_spaces.space import Grid, Params, SystemSpace
from trainables.utils.random import derive_seed
from trainables.utils.system import use_one_thread

if TYPE_CHECKING:
    import optuna
    from optuna.samplers import BaseSampler

Direction = Literal["maximize", "minimize"]
_RESULT_BLIND_SAMPLERS = ("qmc",)
"""Samplers that ignore results, but count their own proposals."""
_MAX_REPEATS = 3
"""Number of attempts that may end in a repeated configuration before the nearest unseen configuration is taken."""


class SeedAveragedSearch:
    """Hyperparameter search of one system.

    Args:
        space: space of the system.
        n_configurations: number of distinct configurations to try, at most all of the space.
        round_size: configurations per round.
        sampler: name in `search_spaces.search_samplers.SAMPLERS`; "grid" takes the configurations in their own order.
        seed: seed of the sampler.
        direction: direction of the metric.

    Attributes:
        configurations: all configurations of the space, the default ones first.
    """

    def __init__(
        self,
        space: SystemSpace,
        n_configurations: int,
        round_size: int,
        sampler: str,
        seed: int = 0,
        direction: Direction = "maximize",
    ) -> None:
        self.space, self.round_size = space, round_size
        self.configurations, self._grid = space.list_configurations(), space.grid
        self._configuration_set = set(self.configurations)
        self.n_configurations = min(n_configurations, len(self.configurations))
        self._proposals: dict[Params, None] = {}
        self._pending: list[tuple[Params, optuna.Trial | None]] = []  # without a trial: from an earlier start
        self._round_number = 0
        self._queue = (
            self.configurations
            if sampler == "grid"
            else [p for p in space.list_default_configurations() if p in self._configuration_set]
        )
        self.sampler, self._seed, self._direction = sampler, seed, direction

    def ask(self, previous: Sequence[Params] = ()) -> list[Params]:
        """Return the configurations of the next round, or an empty list once all proposals are made.

        The results of a round must be reported with `tell` before the next round is asked for.

        Args:
            previous: configurations that an earlier start of the same search, with the same results so far, proposed in
                this round. They are taken unchanged, since asking a sampler again for thousands of proposals would take
                minutes.
        """
        assert not self._pending
        count = min(self.round_size, self._n_remaining)
        self._round_number += 1
        if (
            self.sampler in _RESULT_BLIND_SAMPLERS
            or len(set(previous) - self._proposals.keys()) < count
            or not set(previous) <= self._configuration_set
        ):
            previous = ()
        for index in range(count):
            trial, point = (None, previous[index]) if previous else self._ask_unseen()
            self._proposals[point] = None
            self._pending.append((point, trial))
        return [point for point, _ in self._pending]

    def tell(self, values: Sequence[float | None]) -> None:
        """Report the results of the round.

        Args:
            values: mean of each configuration over its seeds, in the order of proposal. None if a seed failed.
        """
        import optuna

        for (point, trial), value in zip(self._pending, values, strict=True):
            state = optuna.trial.TrialState.FAIL if value is None else optuna.trial.TrialState.COMPLETE
            if trial is not None:
                self._study.tell(trial, value, state=state)
            else:
                fixed = optuna.trial.FixedTrial(to_suggestions(point, self._grid))
                choose_point(self.space, fixed)
                self._study.add_trial(
                    optuna.trial.create_trial(
                        state=state, value=value, params=fixed.params, distributions=fixed.distributions
                    )
                )
        self._pending = []

    def list_remaining(self) -> list[Params]:
        """Return the configurations that may still be proposed."""
        return [point for point in self.configurations if point not in self._proposals] if self._n_remaining else []

    def cancel_last_ask(self) -> None:
        """Withdraw the proposals of the last round, and propose nothing more."""
        for point, _ in self._pending:
            del self._proposals[point]
        self._pending = []
        self.n_configurations = len(self._proposals)

    @property
    def space_size(self) -> int:
        """Number of distinct configurations in the space."""
        return len(self.configurations)

    @property
    def key(self) -> list[Any]:
        """Everything that the proposals depend on, except the results."""
        defaults = [point.values for point in self._queue] if self.sampler != "grid" else []
        return [
            self.space.system,
            self.searched_values,
            defaults,
            self.round_size,
            self.sampler,
            self._seed,
            self._direction,
        ]

    @property
    def searched_values(self) -> dict[str, list[Any]]:
        """Values of every hyperparameter of the space that has more than one."""
        names = {name for point in self.configurations for name in point.values}
        return {name: list(self._grid[name]) for name in self._grid if name in names and len(self._grid[name]) > 1}

    @property
    def _n_remaining(self) -> int:
        return self.n_configurations - len(self._proposals)

    def _ask_unseen(self) -> "tuple[optuna.Trial, Params]":
        with use_one_thread() if self.sampler == "gp" else nullcontext():
            return self._ask_sampler()

    def _ask_sampler(self) -> "tuple[optuna.Trial, Params]":
        import optuna

        study = self._study
        if self.sampler not in _RESULT_BLIND_SAMPLERS and not self._pending:
            study.sampler = self._make_sampler(self._round_number)
        untried = [point for point in self._queue if point not in self._proposals]
        for _ in range(_MAX_REPEATS):
            if untried:
                study.enqueue_trial(to_suggestions(untried[0], self._grid))
            trial = study.ask()
            point = choose_point(self.space, trial)
            if point not in self._proposals:
                return trial, point
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        wanted = to_suggestions(point, self._grid)
        nearest = min(
            (point for point in self.configurations if point not in self._proposals),
            key=lambda other: self._distance(wanted, to_suggestions(other, self._grid)),
        )
        study.enqueue_trial(to_suggestions(nearest, self._grid))
        trial = study.ask()
        return trial, choose_point(self.space, trial)

    def _distance(self, left: dict[str, Any], right: dict[str, Any]) -> Fraction:
        """Return the distance of two configurations, summed over their hyperparameters.

        A hyperparameter adds its distance relative to its range, or 1 if only one configuration has it. The sum is
        exact. A rounded sum would depend on the order of the names, which differs from process to process.
        """
        total = Fraction()
        for name in left.keys() | right.keys():
            first, second = left.get(name), right.get(name)
            if isinstance(first, int) and isinstance(second, int):
                total += Fraction(abs(first - second), len(self._grid[name]) - 1)
            else:
                total += first != second
        return total

    @cached_property
    def _study(self) -> "optuna.Study":
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        return optuna.create_study(direction=self._direction, sampler=self._make_sampler(0))

    def _make_sampler(self, round_number: int) -> "BaseSampler":
        """Return the sampler of a round.

        Its draws depend on the round and on earlier results, not on earlier draws.
        """
        import optuna

        seed = derive_seed(self._seed, f"search/{self.space.system}", round_number) % 2**32
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return SAMPLERS[self.sampler](seed, self.round_size)


def choose_point(space: SystemSpace, trial: "optuna.trial.BaseTrial") -> Params:
    """Ask a trial for one value after another, until one configuration is left.

    A number is asked for by its index, so that the sampler knows which values are neighbours, however they are spaced.
    Which hyperparameter is next may depend on the values before it.
    """
    grid, left = space.grid, [(point, tuple(point.values.items())) for point in space.points]
    for place in range(len(grid)):
        if len(left) == 1:
            break
        name = left[0][1][place][0]
        values = grid[name]
        if len(values) > 1:
            if isinstance(values[0], str):
                value = trial.suggest_categorical(name, list(values))
            else:
                value = values[trial.suggest_int(name, 0, len(values) - 1)]
            left = [each for each in left if each[1][place][1] == value]
    return left[0][0]


def to_suggestions(point: Params, grid: Grid) -> dict[str, Any]:
    """Return the answers that lead a trial to a configuration: by name a text, or the index of a number."""
    varied = {name: value for name, value in point.values.items() if len(grid[name]) > 1}
    return {name: v if isinstance(v, str) else list(grid[name]).index(v) for name, v in varied.items()}
