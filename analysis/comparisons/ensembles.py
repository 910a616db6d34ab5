"""Ensembles: the scores of a system's seeds averaged, evaluated as one system.

Whoever has trained several seeds can use all of them. An ensemble is one run: its comparisons are over queries, for the
models at hand, and say nothing about other seeds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.comparisons.declared import make_settings
from analysis.data.configurations import Configuration
from analysis.data.plan import Plan
from analysis.data.results import Results
from analysis.stats.comparison import Comparison, ComparisonFamily, compare_family
from analysis.stats.paired_tests import differences_or_none
from trainables.metrics import get_measure
from trainables.utils.arrays import Floats

_LEGEND = (
    "{metric} on {test}. An ensemble ranks by the mean of its seeds' scores. Gain: over the mean of the seeds, each "
    "evaluated alone. Differences from the ensemble of the baseline, with {level:g} % intervals and p for all "
    "{count} at once ({correction}), by tests over queries: for these models, not for other seeds. The plan does not "
    "declare them: they are exploratory."
)


class EnsembleRow(NamedTuple):
    """The ensemble of a system.

    Attributes:
        system: name of the system.
        seeds: number of its models.
        mean: mean over the models, each evaluated by itself.
        value: metric of the averaged scores.
        comparison: comparison with the ensemble of its baseline. None if it has none.
    """

    system: str
    seeds: int
    mean: float
    value: float
    comparison: Comparison | None


class EnsembleTable(NamedTuple):
    """The ensembles of a study.

    Attributes:
        rows: one row a system, in the plan's order.
        correction: correction that decides.
        legend: description of the columns.
    """

    rows: list[EnsembleRow]
    correction: str
    legend: str


def build_ensemble_table(results: Results, chosen: dict[str, Configuration | None]) -> EnsembleTable | None:
    """Build the table of the systems that are completely tested with several seeds.

    Args:
        results: a study.
        chosen: configuration that represents each system.

    Returns:
        None if there is no such system, or if the metric is not one of rankings.
    """
    plan, seeds = results.plan, results.plan.get_seeds("test")
    if len(seeds) < 2 or get_measure(plan.metric).sts_correlation is not None:
        return None
    values, means = dict[str, Floats](), dict[str, float]()
    for name in plan.all_systems:
        own = chosen.get(name)
        singles = own.evaluate_queries(plan, "test") if own else None
        if own is not None and singles is not None and len(singles) > 1:
            values[name], means[name] = _evaluate_ensemble(plan, own, seeds), float(singles.mean())
    if not values:
        return None
    compared = _compare(plan, values)
    rows = [
        EnsembleRow(name, len(seeds), means[name], float(values[name].mean()), compared.get(name)) for name in values
    ]
    legend = _LEGEND.format(
        metric=plan.metric,
        test=plan.test_split,
        level=100 * (1 - plan.alpha),
        count=len(compared),
        correction=plan.headline.correction,
    )
    return EnsembleTable(rows, plan.headline.correction, legend)


def _evaluate_ensemble(plan: Plan, configuration: Configuration, seeds: Sequence[int]) -> Floats:
    """Return the metric of each query for the mean of the scores, (1, queries)."""
    runs, split = [configuration.runs[seed] for seed in seeds], plan.test_split
    where = f"{split} scores of {configuration.label}"
    series = runs[0].evaluator.evaluate_ensemble([run.files[split] for run in runs], split, plan.metric, where)
    return np.asarray(series, np.float64)[None]


def _compare(plan: Plan, values: dict[str, Floats]) -> dict[str, Comparison]:
    """Return the first comparison of each system in the headline's family, between the ensembles of both sides."""
    first = dict(reversed(plan.headline.comparisons))
    known = [(name, first[name]) for name in values if first.get(name) in values]
    sides = [(system, other, differences_or_none(values[system], values[other])) for system, other in known]
    family = ComparisonFamily("ensembles", plan.task, plan.metric, sides)
    return {c.system: c for c in compare_family(family, make_settings(plan, plan.headline))} if sides else {}
