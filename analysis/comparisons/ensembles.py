"""Ensembles: the scores of a system's seeds averaged, evaluated as one system."""

from collections.abc import Sequence
from typing import NamedTuple

from analysis.data.configurations import Configuration
from analysis.data.study_results import Results
from records.plan import Plan


class EnsembleRow(NamedTuple):
    """The ensemble of a system.

    Attributes:
        mean: mean over the models, each evaluated by itself.
        value: metric of the averaged scores.
    """

    system: str
    mean: float
    value: float


def build_ensembles(results: Results, chosen: dict[str, Configuration | None]) -> list[EnsembleRow]:
    """Return the ensembles of the systems that are completely tested with several seeds, in the plan's order.

    None of a metric that is not one of rankings, and none if each run retrieved its own documents.
    """
    plan, seeds = results.plan, results.plan.get_seeds("test")
    if len(seeds) < 2 or plan.is_correlation:
        return []
    rows = list[EnsembleRow]()
    for name in plan.all_systems:
        own = chosen.get(name)
        singles = own.evaluate_queries(plan, "test") if own else None
        if own is not None and singles is not None and len(singles) > 1:
            value = _evaluate_ensemble(plan, own, seeds)
            if value is None:
                return []
            rows.append(EnsembleRow(name, float(singles.mean()), value))
    return rows


def _evaluate_ensemble(plan: Plan, configuration: Configuration, seeds: Sequence[int]) -> float | None:
    """Return the mean of the metric for the mean of the scores; None if each run retrieved its own documents."""
    runs, split = [configuration.runs[seed] for seed in seeds], plan.test_split
    where = f"{split} scores of {configuration.label}"
    series = runs[0].evaluator.evaluate_ensemble([run.files[split] for run in runs], split, plan.metric, where)
    return None if series is None else float(series.mean())
