"""Chooses by the metric of a study: the mean of a configuration over its seeds on the development set."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from study.records.run_store import RunStore
from study.scheduling.trials import Configuration
from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.base import RunSpec


def compute_mean(item: Configuration, store: RunStore, metric: str) -> float | None:
    """Return the mean of a dev metric over all seeds, or None if a seed failed or is missing."""
    values = [_get_value(store, run.id, metric) for run in item.runs]
    return fmean(value for value in values if value is not None) if None not in values else None


def compute_mean_of_finished(item: Configuration, store: RunStore, metric: str) -> float | None:
    """Return the mean of a dev metric over the finished seeds, or None if no seed finished."""
    values = [_get_value(store, run.id, metric) for run in item.runs]
    finished = [value for value in values if value is not None]
    return fmean(finished) if finished else None


def select_best(items: Iterable[Configuration], store: RunStore, metric: str) -> dict[str, Configuration]:
    """Return the best complete configuration of each system on the development set, the first on a tie.

    Args:
        items: configurations of one or several systems.
        store: the run records.
        metric: metric of the study.

    Returns:
        The best configuration by system. Systems without a complete configuration are absent.
    """
    best = dict[str, tuple[float, Configuration]]()
    for item in items:
        if (mean := compute_mean(item, store, metric)) is None:
            continue
        if item.name not in best or _orient(mean, metric) > best[item.name][0]:
            best[item.name] = _orient(mean, metric), item
    return {name: item for name, (_, item) in best.items()}


def select_best_run(runs: Sequence[RunSpec], store: RunStore, metric: str) -> RunSpec:
    """Return the finished run with the best value of a dev metric, the first on a tie; there must be one."""
    values = [(run, value) for run in runs if (value := _get_value(store, run.id, metric)) is not None]
    return max(values, key=lambda pair: _orient(pair[1], metric))[0]


def _orient(value: float, metric: str) -> float:
    """Return the value with its sign changed where lower is better."""
    return -value if metric in LOWER_IS_BETTER else value


def _get_value(store: RunStore, run_id: str, metric: str) -> float | None:
    if not store.is_finished(run_id, "dev"):
        return None
    value = store.get_metric(run_id, "dev", metric)
    return store.compute_overall(run_id, metric) if value is None else value
