"""Variance components of a study's test scores, and the seeds and queries for smaller differences."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analysis.data.configurations import Configuration
from analysis.data.plan import Plan
from analysis.stats.comparison import Comparison, compute_median_effect
from analysis.stats.power import POWER, tabulate_required_queries
from analysis.stats.variance_components import describe_deviations, estimate_variance_components
from trainables.metrics import LOWER_IS_BETTER, get_measure

LEGEND = (
    "Number of queries needed to detect a true difference of two systems with {power:.0f} % power, {comparisons} "
    "comparisons at {alpha:g} (Bonferroni), by number of seeds. Never: the variation between seeds is too large for "
    "any number of queries. For {metric} on {split}, {deviations}."
)


class SampleSizeTable(NamedTuple):
    """A table as plain text."""

    header: list[str]
    rows: list[list[str]]
    legend: str


def build_sample_size_table(
    plan: Plan, chosen: Mapping[str, Configuration | None], headlines: Sequence[Comparison]
) -> SampleSizeTable | None:
    """Compute the queries needed for the plan's margin, and for 1/2 and 1/4 of this study's MDE.

    Differences that the metric cannot have are left out. None with one seed, if fewer than two systems are complete, or
    if no difference is left.

    Args:
        plan: plan of the study.
        chosen: chosen configuration by system.
        headlines: the comparisons that the conclusion is about.
    """
    configurations = [chosen[name] for name in plan.systems]
    complete = [
        values for c in configurations if c is not None and (values := c.evaluate_queries(plan, "test")) is not None
    ]
    components = estimate_variance_components(
        [values for values in complete if len(values) == len(plan.get_seeds("test"))]
    )
    if components is None or not any(components.to_difference_variance()):
        return None
    effect = compute_median_effect(headlines) or math.inf
    offered = [*([plan.margin] if plan.margin else []), effect / 2, effect / 4]
    differences = [difference for difference in offered if difference < _largest_difference(plan.metric)]
    if not differences:
        return None
    seeds = [len(plan.get_seeds("test")) * times for times in (1, 2, 4)]
    count = len(plan.headline.comparisons) * len(plan.get_family_metrics(plan.headline))
    rows = [
        [f"{difference:.2g}", *(f"{queries:,}" if queries else "never" for queries in counts)]
        for difference, counts in tabulate_required_queries(
            components.to_difference_variance(), differences, seeds, plan.alpha / count
        )
    ]
    legend = plan.adapt_to_unit(LEGEND).format(
        power=100 * POWER,
        comparisons=count,
        alpha=plan.alpha,
        metric=plan.metric,
        split=plan.test_split,
        deviations=plan.adapt_to_unit(describe_deviations(components)),
    )
    return SampleSizeTable(["difference", *(f"{number} seeds" for number in seeds)], rows, legend)


def _largest_difference(metric: str) -> float:
    """Return the difference between the worst and the best value; infinite if lower is better."""
    return math.inf if metric in LOWER_IS_BETTER else get_measure(metric).max_value
