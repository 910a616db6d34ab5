"""Round of a search: starts the runs of its proposals and prunes configurations by racing."""

from collections.abc import Iterator, Sequence

import numpy as np

from study.records.run_store import RunStore
from study.scheduling.racing import FIRST_ROUND_SEEDS, find_pruned
from study.scheduling.trials import Configuration
from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.base import RunSpec
from trainables.utils.arrays import Floats


class SearchRound:
    """Configurations that are proposed and run together.

    Args:
        configurations: the configurations in the order of proposal.
        racing: whether seeds are started in several steps and significantly worse configurations get no further seeds.

    Attributes:
        configurations: the configurations in the order of proposal.
        pruned: number of seeds that each pruned configuration got, by its id.
    """

    def __init__(self, configurations: Sequence[Configuration], racing: bool) -> None:
        self.configurations = list(configurations)
        self.pruned: dict[str, int] = {}
        self._seeds = len(configurations[0].runs)
        self._seeds_started = min(FIRST_ROUND_SEEDS, self._seeds) if racing else self._seeds

    def get_due_runs(self) -> Iterator[tuple[Configuration, RunSpec]]:
        """Yield the runs that have been started, finished ones included."""
        for item in self.configurations:
            for run in item.runs[: self.pruned.get(item.id, self._seeds_started)]:
                yield item, run

    def advance(self, complete: Sequence[Configuration], store: RunStore, metric: str, n_competitors: int) -> bool:
        """Start the next seed after all due runs have ended, and prune configurations.

        Args:
            complete: configurations of earlier rounds that have all their seeds.
            store: the run records.
            metric: metric by which configurations are compared.
            n_competitors: number of other configurations with which a configuration may be compared.

        Returns:
            Whether there are more runs to start.
        """
        if self._seeds_started == self._seeds:
            return False
        remaining = {item.id: item for item in self.configurations if item.id not in self.pruned}
        sign = -1 if metric in LOWER_IS_BETTER else 1
        values_by_id = {
            key: sign * values
            for key, item in {**{item.id: item for item in complete}, **remaining}.items()
            if (values := collect_per_query(item, store, metric, self._seeds_started)) is not None
        }
        for key in find_pruned(values_by_id, remaining, self._seeds, n_competitors):
            self.pruned[key] = self._seeds_started
        self._seeds_started += 1
        return len(self.pruned) < len(self.configurations)


def collect_per_query(item: Configuration, store: RunStore, metric: str, seeds: int) -> Floats | None:
    """Return a dev metric of each query for the first seeds of a configuration.

    Args:
        item: the configuration.
        store: the run records.
        metric: name of the metric.
        seeds: number of seeds.

    Returns:
        (seeds, queries) values, or None if one of the runs is not finished.
    """
    runs = item.runs[:seeds]
    if not all(store.is_finished(run.id, "dev") for run in runs):
        return None
    return np.stack([store.compute_per_query(run.id, metric) for run in runs])


def extrapolate_mean(
    item: Configuration, seeds: int, complete: Sequence[Configuration], store: RunStore, metric: str
) -> float | None:
    """Estimate the mean that a pruned configuration would have over all seeds.

    The estimate adds the mean difference between all seeds and the first seeds of the complete configurations.

    Args:
        item: the pruned configuration.
        seeds: number of seeds that it got.
        complete: configurations that have all their seeds.
        store: the run records.
        metric: name of the metric.

    Returns:
        The estimated mean, or None if one of its runs is not finished.
    """
    own_values = collect_per_query(item, store, metric, seeds)
    if own_values is None:
        return None
    shifts = []
    for other in complete:
        values = collect_per_query(other, store, metric, len(other.runs))
        if values is not None:
            shifts.append(float(values.mean() - values[:seeds].mean()))
    return float(own_values.mean()) + (sum(shifts) / len(shifts) if shifts else 0.0)
