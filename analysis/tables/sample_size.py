"""Variance components of a study's test scores, and the seeds and queries for smaller differences."""

import math
from collections.abc import Mapping

from analysis.data.configurations import Configuration
from analysis.stats.power import POWER, tabulate_required_queries
from analysis.stats.variance_components import describe_deviations, estimate_variance_components
from analysis.tables.section import Section
from records.plan import Plan
from trainables.metrics import LOWER_IS_BETTER, get_measure

_LEGEND = (
    "Number of queries needed to detect a true difference of two systems with {power:.0f} % power, {comparisons} "
    "comparisons at {alpha:g} (Bonferroni), by number of seeds. Never: the variation between seeds is too large for "
    "any number of queries. For {metric} on {split}, {deviations}."
)
_DIFFERENCES = (0.01, 0.02, 0.05)
"""True differences that are planned for, as shares of the largest value of the metric."""


def build_sample_size_section(plan: Plan, chosen: Mapping[str, Configuration | None]) -> Section | None:
    """Compute the queries needed for the plan's margin, and for differences of .01, .02 and .05.

    Differences of correlations times 100 are 1, 2 and 5. A margin that no difference can exceed is left out. None with
    one seed, or if fewer than two systems are complete.
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
    scale = get_measure(plan.metric).max_value
    largest = math.inf if plan.metric in LOWER_IS_BETTER else scale
    margin = [plan.margin] if plan.margin and plan.margin < largest else []
    differences = sorted({*(share * scale for share in _DIFFERENCES), *margin})
    seeds = [len(plan.get_seeds("test")) * times for times in (1, 2, 4)]
    count = len(plan.headline.comparisons) * len(plan.get_family_metrics(plan.headline))
    rows = [
        [f"{difference:.2g}", *(f"{queries:,}" if queries else "never" for queries in counts)]
        for difference, counts in tabulate_required_queries(
            components.to_difference_variance(), differences, seeds, plan.alpha / count
        )
    ]
    legend = plan.adapt_to_unit(_LEGEND).format(
        power=100 * POWER,
        comparisons=count,
        alpha=plan.alpha,
        metric=plan.metric,
        split=plan.test_split,
        deviations=plan.adapt_to_unit(describe_deviations(components)),
    )
    return Section("Another study", ["difference", *(f"{number} seeds" for number in seeds)], rows, legend)
