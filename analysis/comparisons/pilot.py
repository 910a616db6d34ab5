"""Reads from a finished study what the next one is planned with: variances, metrics and seconds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analysis.comparisons.interim_results import stop_at_last_interim_test
from analysis.data.configurations import Configuration, choose_configurations, collect_configurations, mean_and_std
from analysis.data.measured_cost import RunSeconds, average_run_seconds
from analysis.data.study_results import Results
from analysis.stats.power import required_queries
from analysis.stats.variance_components import VarianceComponents, estimate_variance_components
from records.plan import Plan

_RANKING_METRICS = ("R10@1", "MRR", "nDCG@10", "position")
"""Metrics of rankings that a study's scores are enough for, in addition to those that its plan names."""


class PilotMetric(NamedTuple):
    """One metric of a pilot.

    Attributes:
        name: name of the metric.
        gain: size of the difference that makes metrics comparable, see `StudyPilot`.
        components: variance components of its test scores.
    """

    name: str
    gain: float
    components: VarianceComponents


class StudyPilot(NamedTuple):
    """A finished study, to plan the next one with.

    Attributes:
        components: variance components of the test scores by the plan's metric; None if there is too little data.
        metrics: the metrics, the plan's first. A difference by one metric is compared with one by another as a share
            of the gain of `gain_of` by each. Empty if the plan has no such comparison.
        gain_of: the declared comparison with that gain: a system and the baseline that it must be better than.
        seeds: number of test seeds.
        queries: number of test queries.
        systems: number of systems that are trained.
        comparisons: number of comparisons that are corrected together.
        alpha: significance level of all of them.
        seconds: seconds of its runs; None if they were not recorded.
    """

    components: VarianceComponents | None
    metrics: list[PilotMetric]
    gain_of: tuple[str, str]
    seeds: int
    queries: int
    systems: int
    comparisons: int
    alpha: float
    seconds: RunSeconds | None


def read_study_pilot(results: Results) -> StudyPilot:
    """Return what a study says about the size of the next one.

    Raises:
        UserError: if the runs cannot be compared; see `collect_configurations` and `choose_configurations`.
    """
    configurations = collect_configurations(results)
    results, _ = stop_at_last_interim_test(results, choose_configurations(results, configurations))
    plan, chosen = results.plan, choose_configurations(results, configurations)
    names = list(dict.fromkeys(name for pair in plan.headline.comparisons for name in pair))
    values = [own for name in names if (c := chosen[name]) and (own := c.evaluate_queries(plan, "test")) is not None]
    queries = values[0].shape[1] if values else 0
    sanity = next((family.comparisons for family in plan.families if family.name == "sanity"), ())
    gain_of = sanity[-1] if sanity else None
    return StudyPilot(
        components=estimate_test_components(plan, chosen),
        metrics=_measure_metrics(plan, chosen, gain_of) if gain_of else [],
        gain_of=gain_of or ("", ""),
        seeds=len(plan.get_seeds("test")),
        queries=queries,
        systems=len(names),
        comparisons=len(plan.headline.comparisons) * len(plan.get_family_metrics(plan.headline)),
        alpha=plan.alpha,
        seconds=average_run_seconds(results, queries),
    )


def estimate_test_components(
    plan: Plan, chosen: Mapping[str, Configuration | None], metric: str | None = None
) -> VarianceComponents | None:
    """Estimate the components from the systems of the headline's family that are complete with all seeds.

    Args:
        plan: plan of the study.
        chosen: configuration of each system.
        metric: name of the metric. If None, the plan's.
    """
    named = dict.fromkeys(name for pair in plan.headline.comparisons for name in pair)
    values = [c.evaluate_queries(plan, "test", metric) for name in named if (c := chosen[name])]
    seeds = len(plan.get_seeds("test"))
    return estimate_variance_components([own for own in values if own is not None and len(own) == seeds])


def _measure_metrics(
    plan: Plan, chosen: Mapping[str, Configuration | None], gain_of: tuple[str, str]
) -> list[PilotMetric]:
    found = []
    for name in dict.fromkeys([plan.metric, *plan.metrics, *(() if plan.is_correlation else _RANKING_METRICS)]):
        means = [
            mean_and_std(c.evaluate_queries(plan, "test", name)) if (c := chosen[own]) else None for own in gain_of
        ]
        components = estimate_test_components(plan, chosen, name)
        if components and (first := means[0]) and (second := means[1]) and (gain := abs(first[0] - second[0])):
            found.append(PilotMetric(name, gain, components))
    return found if found and found[0].name == plan.metric else []


def compare_metrics(
    metrics: Sequence[PilotMetric], difference: float, seeds: Sequence[int], level: float
) -> list[tuple[PilotMetric, float, list[int | None]]]:
    """Return for each metric the difference that is the same share of its gain, and the queries that it needs.

    Args:
        metrics: the metrics, the plan's first.
        difference: true difference by the plan's metric.
        seeds: numbers of seeds.
        level: significance level of one comparison, after correction.
    """
    rows = []
    for own in metrics:
        same = difference * own.gain / metrics[0].gain
        variance = own.components.to_difference_variance()
        rows.append((own, same, [required_queries(variance, same, number, level) for number in seeds]))
    return rows
