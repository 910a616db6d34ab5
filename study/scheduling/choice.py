"""Means of configurations over their seeds on the development set, and the choice by them."""

from collections.abc import Iterable, Sequence
from statistics import fmean

import numpy as np

from records.run_record import Split
from study.folder.run_store import RunStore
from study.scheduling.trials import PlannedConfiguration
from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.run_spec import RunSpec
from trainables.utils.arrays import Floats


def compute_mean(item: PlannedConfiguration, store: RunStore, metric: str) -> float | None:
    """Return the mean of a dev metric over all seeds, or None if a seed failed or is missing."""
    is_complete = all(store.is_finished(run.id) for run in item.runs)
    return compute_mean_of_finished(item, store, metric) if is_complete else None


def compute_mean_of_finished(item: PlannedConfiguration, store: RunStore, metric: str) -> float | None:
    """Return the mean of a dev metric over the finished seeds, or None if no seed finished."""
    values = [_get_value(store, run.id, metric) for run in item.runs if store.is_finished(run.id)]
    return fmean(values) if values else None


def collect_per_query(runs: Sequence[RunSpec], store: RunStore, metric: str, split: Split = "dev") -> Floats | None:
    """Return a metric of each query for several runs.

    Returns:
        (runs, queries) values, or None if one of the runs is not finished.
    """
    if not all(store.is_finished(run.id, split) for run in runs):
        return None
    return np.stack([store.compute_values(run.id, metric, split) for run in runs])


def extrapolate_mean(
    item: PlannedConfiguration, seeds: int, complete: Sequence[PlannedConfiguration], store: RunStore, metric: str
) -> float | None:
    """Estimate the mean that a pruned configuration would have over all seeds.

    The estimate adds the mean difference between all seeds and the first seeds of the complete configurations.

    Returns:
        The estimated mean, or None if one of its runs is not finished.
    """
    own_values = collect_per_query(item.runs[:seeds], store, metric)
    if own_values is None:
        return None
    others = (collect_per_query(other.runs, store, metric) for other in complete)
    shifts = [float(values.mean() - values[:seeds].mean()) for values in others if values is not None]
    return float(own_values.mean()) + (sum(shifts) / len(shifts) if shifts else 0.0)


def select_best(items: Iterable[PlannedConfiguration], store: RunStore, metric: str) -> dict[str, PlannedConfiguration]:
    """Return the best complete configuration of each system on the development set, the first on a tie.

    Returns:
        The best configuration by system. Systems without a complete configuration are absent.
    """
    best = dict[str, tuple[float, PlannedConfiguration]]()
    for item in items:
        if (mean := compute_mean(item, store, metric)) is None:
            continue
        if item.name not in best or _orient(mean, metric) > best[item.name][0]:
            best[item.name] = _orient(mean, metric), item
    return {name: item for name, (_, item) in best.items()}


def select_best_run(runs: Sequence[RunSpec], store: RunStore, metric: str) -> RunSpec:
    """Return the finished run with the best value of a dev metric, the first on a tie; there must be one."""
    finished = [run for run in runs if store.is_finished(run.id)]
    return max(finished, key=lambda run: _orient(_get_value(store, run.id, metric), metric))


def _orient(value: float, metric: str) -> float:
    """Return the value with its sign changed where lower is better."""
    return -value if metric in LOWER_IS_BETTER else value


def _get_value(store: RunStore, run_id: str, metric: str) -> float:
    value = store.get_metric(run_id, "dev", metric)
    return float(store.compute_values(run_id, metric).mean()) if value is None else value
