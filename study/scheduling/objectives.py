"""Objectives of a search: means of one or several metrics over the seeds of a configuration."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from search_spaces.search import Direction
from study.config.schema import Study
from study.records.run_store import RunStore
from study.scheduling.trials import Configuration
from trainables.metrics import LOWER_IS_BETTER
from trainables.specs.base import RunSpec


def get_objectives(study: Study) -> tuple[str, ...]:
    """Return the metrics of the search; the first one decides."""
    return study.search.objectives or (study.analysis.metric,)


def get_directions(names: Iterable[str]) -> list[Direction]:
    """Return the directions of metrics in the form of Optuna.

    Example:
        >>> get_directions(["MAP"])
        ['maximize']
    """
    return ["minimize" if name in LOWER_IS_BETTER else "maximize" for name in names]


def compute_means(item: Configuration, store: RunStore, names: Sequence[str]) -> list[float] | None:
    """Return the mean of each dev metric over all seeds, or None if a seed failed or is missing."""
    means = [compute_mean(item, store, name) for name in names]
    return [value for value in means if value is not None] if None not in means else None


def compute_mean(item: Configuration, store: RunStore, name: str) -> float | None:
    """Return the mean of one dev metric over all seeds, or None if a seed failed or is missing."""
    values = [_get_value(store, run.id, name) for run in item.runs]
    return fmean(value for value in values if value is not None) if None not in values else None


def compute_means_of_finished(item: Configuration, store: RunStore, names: Sequence[str]) -> dict[str, float] | None:
    """Return the mean of each dev metric over the finished seeds, or None if no seed finished."""
    finished_ids = [run.id for run in item.runs if store.is_finished(run.id, "dev")]
    metrics = {name: [_get_value(store, run_id, name) for run_id in finished_ids] for name in names}
    if not finished_ids or any(None in values for values in metrics.values()):
        return None
    return {name: fmean(value for value in values if value is not None) for name, values in metrics.items()}


def to_maximization_values(values: Sequence[float], names: Sequence[str]) -> tuple[float, ...]:
    """Return the values with signs changed where needed, so that a higher value is better for each metric.

    Args:
        values: values of the metrics.
        names: names of the metrics.

    Example:
        >>> to_maximization_values([0.5, 2.0], ["MAP", "position"])
        (0.5, -2.0)
    """
    return tuple(-value if name in LOWER_IS_BETTER else value for value, name in zip(values, names, strict=True))


def get_applicable_metrics(item: Configuration, names: Sequence[str]) -> Sequence[str]:
    """Return the metrics that apply to a configuration.

    A reference ranking such as BM25 has no logits and thus no calibration. Only the first metric applies to it.
    """
    return names if item.runs[0].training is not None else names[:1]


def select_best(items: Iterable[Configuration], store: RunStore, names: Sequence[str]) -> dict[str, Configuration]:
    """Return the best complete configuration of each system on the development set.

    The first objective decides. The other objectives break ties in their order, and then the first configuration wins.

    Args:
        items: configurations of one or several systems.
        store: the run records.
        names: metrics of the search; the first one decides.

    Returns:
        The best configuration by system. Systems without a complete configuration are absent.
    """
    best: dict[str, tuple[tuple[float, ...], Configuration]] = {}
    for item in items:
        metrics = get_applicable_metrics(item, names)
        values = compute_means(item, store, metrics)
        if values is not None:
            key = to_maximization_values(values, metrics)
            if item.name not in best or key > best[item.name][0]:
                best[item.name] = key, item
    return {name: item for name, (_, item) in best.items()}


def select_best_run(runs: Sequence[RunSpec], store: RunStore, name: str) -> RunSpec:
    """Return the finished run with the best value of a dev metric, the first on a tie; there must be one."""
    values = [(run, value) for run in runs if (value := _get_value(store, run.id, name)) is not None]
    return max(values, key=lambda pair: to_maximization_values([pair[1]], [name]))[0]


def pareto_front(values: dict[str, tuple[float, ...]]) -> list[str]:
    """Return the keys of the Pareto front, which no other key dominates.

    A key dominates another one if it is at least as good in all objectives and better in one.

    Args:
        values: objectives by key, where higher is better.

    Example:
        >>> pareto_front({"a": (0.5, 0.1), "b": (0.4, 0.3), "c": (0.4, 0.2)})
        ['a', 'b']
    """
    return [
        key
        for key, point in values.items()
        if not any(
            other != point and all(b >= a for a, b in zip(point, other, strict=True)) for other in values.values()
        )
    ]


def _get_value(store: RunStore, run_id: str, name: str) -> float | None:
    if not store.is_finished(run_id, "dev"):
        return None
    value = store.get_metric(run_id, "dev", name)
    return store.compute_overall(run_id, name) if value is None else value
