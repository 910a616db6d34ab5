"""What a configuration is judged by: means over its seeds of one metric, or of several."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from search_spaces.search import Direction
from study.config.schema import Study
from study.records.run_store import RunStore
from study.scheduling.trials import Configuration
from trainables.metrics import LOWER_IS_BETTER


def get_objectives(study: Study) -> tuple[str, ...]:
    """The metrics of the search, the one that decides first."""
    return study.search.objectives or (study.analysis.metric,)


def get_directions(names: Iterable[str]) -> list[Direction]:
    """As Optuna has them."""
    return ["minimize" if name in LOWER_IS_BETTER else "maximize" for name in names]


def compute_means(item: Configuration, store: RunStore, names: Sequence[str]) -> list[float] | None:
    """Each metric on the development set, averaged over all seeds; None where a seed failed or is missing."""
    found = [compute_mean(item, store, name) for name in names]
    return [value for value in found if value is not None] if None not in found else None


def compute_mean(item: Configuration, store: RunStore, name: str) -> float | None:
    """One metric, averaged over all seeds; None where a seed failed or is missing."""
    values = [_get_value(store, run.id, name) for run in item.runs]
    return fmean(value for value in values if value is not None) if None not in values else None


def compute_means_of_finished(item: Configuration, store: RunStore, names: Sequence[str]) -> dict[str, float] | None:
    """Each metric, averaged over those seeds that finished; None where none did."""
    finished_ids = [run.id for run in item.runs if store.is_finished(run.id, "dev")]
    found = {name: [_get_value(store, run_id, name) for run_id in finished_ids] for name in names}
    if not finished_ids or any(None in values for values in found.values()):
        return None
    return {name: fmean(value for value in values if value is not None) for name, values in found.items()}


def to_maximization_values(values: Sequence[float], names: Sequence[str]) -> tuple[float, ...]:
    """The same, so that more is better in each."""
    return tuple(-value if name in LOWER_IS_BETTER else value for value, name in zip(values, names, strict=True))


def get_applicable_metrics(item: Configuration, names: Sequence[str]) -> Sequence[str]:
    """BM25's scores are no logits, and cannot be calibrated."""
    return names if item.runs[0].training is not None else names[:1]


def select_best(items: Iterable[Configuration], store: RunStore, names: Sequence[str]) -> dict[str, Configuration]:
    """By system, the complete configuration that is best on the development set, the first on a tie.

    Of several objectives the first decides, and the others in their order where it does not.
    """
    found: dict[str, tuple[tuple[float, ...], Configuration]] = {}
    for item in items:
        metrics = get_applicable_metrics(item, names)
        values = compute_means(item, store, metrics)
        if values is not None:
            key = to_maximization_values(values, metrics)
            if item.name not in found or key > found[item.name][0]:
                found[item.name] = key, item
    return {name: item for name, (_, item) in found.items()}


def pareto_front(found: dict[str, tuple[float, ...]]) -> list[str]:
    """The keys of the Pareto front of gains: those that no other is at least as good as in all, and better in one."""
    return [
        key
        for key, own in found.items()
        if not any(other != own and all(b >= a for a, b in zip(own, other, strict=True)) for other in found.values())
    ]


def _get_value(store: RunStore, run_id: str, name: str) -> float | None:
    if not store.is_finished(run_id, "dev"):
        return None
    value = store.get_metric(run_id, "dev", name)
    return store.compute_overall(run_id, name) if value is None else value
