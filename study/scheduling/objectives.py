"""What a configuration is judged by: means over its seeds of one metric, or of several."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from search_spaces.search import Direction
from study.config.schema import Study
from study.records.run_store import Ledger
from study.scheduling.trials import Configuration
from trainables.metrics import MINIMISED


def objectives(study: Study) -> tuple[str, ...]:
    """The metrics of the search, the one that decides first."""
    return study.search.objectives or (study.analysis.metric,)


def directions(names: Iterable[str]) -> list[Direction]:
    """As Optuna has them."""
    return ["minimize" if name in MINIMISED else "maximize" for name in names]


def means(item: Configuration, ledger: Ledger, names: Sequence[str]) -> list[float] | None:
    """Each metric on the development set, averaged over all seeds; None where a seed failed or is missing."""
    found = [mean(item, ledger, name) for name in names]
    return [value for value in found if value is not None] if None not in found else None


def mean(item: Configuration, ledger: Ledger, name: str) -> float | None:
    """One metric, averaged over all seeds; None where a seed failed or is missing."""
    values = [_value(ledger, run.id, name) for run in item.runs]
    return fmean(value for value in values if value is not None) if None not in values else None


def of_finished(item: Configuration, ledger: Ledger, names: Sequence[str]) -> dict[str, float] | None:
    """Each metric, averaged over those seeds that finished; None where none did."""
    done = [run.id for run in item.runs if ledger.finished(run.id, "dev")]
    found = {name: [_value(ledger, run_id, name) for run_id in done] for name in names}
    if not done or any(None in values for values in found.values()):
        return None
    return {name: fmean(value for value in values if value is not None) for name, values in found.items()}


def gains(values: Sequence[float], names: Sequence[str]) -> tuple[float, ...]:
    """The same, so that more is better in each."""
    return tuple(-value if name in MINIMISED else value for value, name in zip(values, names, strict=True))


def judged_by(item: Configuration, names: Sequence[str]) -> Sequence[str]:
    """BM25's scores are no logits, and cannot be calibrated."""
    return names if item.runs[0].training is not None else names[:1]


def best(items: Iterable[Configuration], ledger: Ledger, names: Sequence[str]) -> dict[str, Configuration]:
    """By system, the complete configuration that is best on the development set, the first on a tie.

    Of several objectives the first decides, and the others in their order where it does not.
    """
    found: dict[str, tuple[tuple[float, ...], Configuration]] = {}
    for item in items:
        judges = judged_by(item, names)
        values = means(item, ledger, judges)
        if values is not None:
            worth = gains(values, judges)
            if item.name not in found or worth > found[item.name][0]:
                found[item.name] = worth, item
    return {name: item for name, (_, item) in found.items()}


def front(found: dict[str, tuple[float, ...]]) -> list[str]:
    """The keys of the Pareto front of gains: those that no other is at least as good as in all, and better in one."""
    return [
        key
        for key, own in found.items()
        if not any(other != own and all(b >= a for a, b in zip(own, other, strict=True)) for other in found.values())
    ]


def _value(ledger: Ledger, run_id: str, name: str) -> float | None:
    if not ledger.finished(run_id, "dev"):
        return None
    value = ledger.metric(run_id, "dev", name)
    return ledger.overall(run_id, name) if value is None else value
