"""A round of proposals: which of its runs are due, and which configurations it drops on the way."""

from collections.abc import Iterator, Sequence

import numpy as np

from study.records.run_store import RunStore
from study.scheduling.racing import FIRST_ROUND_SEEDS, find_pruned
from study.scheduling.trials import Configuration
from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.base import RunSpec
from trainables.utils.arrays import Floats


class SearchRound:
    """Configurations that are run together.

    Args:
        configurations: in the order of proposal.
        race: whether seeds are started in rounds, and configurations that are behind get no more of them.

    Attributes:
        dropped: by the configuration's id, how many seeds a dropped one got.
    """

    def __init__(self, configurations: Sequence[Configuration], racing: bool) -> None:
        self.configurations = list(configurations)
        self.pruned: dict[str, int] = {}
        self._seeds = len(configurations[0].runs)
        self._seeds_started = min(FIRST_ROUND_SEEDS, self._seeds) if racing else self._seeds

    def get_due_runs(self) -> Iterator[tuple[Configuration, RunSpec]]:
        """The runs that may run by now, done or not."""
        for item in self.configurations:
            for run in item.runs[: self.pruned.get(item.id, self._seeds_started)]:
                yield item, run

    def advance(self, complete: Sequence[Configuration], store: RunStore, metric: str, n_competitors: int) -> bool:
        """Whether there is more to run, once all that is due has ended; may drop configurations.

        Args:
            complete: configurations of earlier rounds that have all their seeds.
            ledger: of the records.
            metric: by which configurations are compared.
            rivals: other configurations that any one may be compared with.
        """
        if self._seeds_started == self._seeds:
            return False
        own = {item.id: item for item in self.configurations if item.id not in self.pruned}
        sign = -1 if metric in LOWER_IS_BETTER else 1
        found = {
            key: sign * values
            for key, item in {**{item.id: item for item in complete}, **own}.items()
            if (values := collect_per_query(item, store, metric, self._seeds_started)) is not None
        }
        for key in find_pruned(found, own, self._seeds, n_competitors):
            self.pruned[key] = self._seeds_started
        self._seeds_started += 1
        return len(self.pruned) < len(self.configurations)


def collect_per_query(item: Configuration, store: RunStore, metric: str, seeds: int) -> Floats | None:
    """(seeds, queries) the metric with the first `seeds` seeds on the development set; None where one is missing."""
    runs = item.runs[:seeds]
    if not all(store.is_finished(run.id, "dev") for run in runs):
        return None
    return np.stack([store.compute_per_query(run.id, metric) for run in runs])


def extrapolate_mean(
    item: Configuration, seeds: int, complete: Sequence[Configuration], store: RunStore, metric: str
) -> float | None:
    """What a dropped configuration's mean would be if its missing seeds were as much easier or harder than its own as
    they were for the complete configurations."""
    own = collect_per_query(item, store, metric, seeds)
    if own is None:
        return None
    shifts = []
    for other in complete:
        values = collect_per_query(other, store, metric, len(other.runs))
        if values is not None:
            shifts.append(float(values.mean() - values[:seeds].mean()))
    return float(own.mean()) + (sum(shifts) / len(shifts) if shifts else 0.0)
