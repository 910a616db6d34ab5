"""Ensembles: the scores of a system's seeds averaged, evaluated as one system.

All seeds that were trained can be used together. An ensemble is one run: its comparisons are over queries, for the
models at hand, and say nothing about other seeds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.comparisons.declared import make_settings
from analysis.data.configurations import Configuration
from analysis.data.study_results import Results
from analysis.stats.comparison import Comparison, ComparisonFamily, compare_family
from analysis.stats.paired_tests import differences_or_none
from records.plan import Plan
from trainables.utils.arrays import Floats


class EnsembleRow(NamedTuple):
    """The ensemble of a system.

    Attributes:
        system: name of the system.
        mean: mean over the models, each evaluated by itself.
        value: metric of the averaged scores.
        comparison: comparison with the ensemble of its baseline. None if it has none.
    """

    system: str
    mean: float
    value: float
    comparison: Comparison | None


def build_ensembles(results: Results, chosen: dict[str, Configuration | None]) -> list[EnsembleRow]:
    """Return the ensembles of the systems that are completely tested with several seeds, in the plan's order.

    None of a metric that is not one of rankings.
    """
    plan, seeds = results.plan, results.plan.get_seeds("test")
    if len(seeds) < 2 or plan.is_correlation:
        return []
    values, means = dict[str, Floats](), dict[str, float]()
    for name in plan.all_systems:
        own = chosen.get(name)
        singles = own.evaluate_queries(plan, "test") if own else None
        if own is not None and singles is not None and len(singles) > 1:
            values[name], means[name] = _evaluate_ensemble(plan, own, seeds), float(singles.mean())
    compared = _compare(plan, values)
    return [EnsembleRow(name, means[name], float(values[name].mean()), compared.get(name)) for name in values]


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
