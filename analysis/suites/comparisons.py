"""Comparisons over the studies of a suite: each of them corrected for all, and averages over the columns."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt

from analysis.comparisons.declared import select_headline_comparisons
from analysis.stats.comparison import Comparison, Target
from analysis.stats.equivalence import Verdict, decide_verdict, tost
from analysis.stats.estimate import Estimate, TestResult
from analysis.stats.multiple_testing import adjust_p_values
from analysis.stats.paired_tests import differences_or_none, estimate_all
from analysis.suites.suite_results import SuiteResults
from analysis.tables.main import ReportData, build_report_data
from records.scores import read_scores
from records.suite_plan import PlannedStudy, SuitePlan
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats

_TARGETS: tuple[Target, ...] = ("both", "queries", "seeds")
_NO_RESULTS, _INCOMPLETE = "a study has no results", "incomplete"
"""Refusals of an average that end with more runs."""


@dataclass(frozen=True)
class SuiteComparison:
    """A comparison of one study, corrected for the comparisons of all studies of the suite.

    Attributes:
        comparison: the comparison, corrected within the study.
        comparisons: number of comparisons of the suite.
        interval: confidence interval of the difference, simultaneous for the suite. None in a sequential study, where
            the interval is over its looks, and if the systems were not compared.
        p: corrected p-value of the headline test. None if the systems were not compared.
        equivalence_p: p-value of the equivalence test, by Bonferroni over the suite. None if there is no margin.
        verdict: verdict at these p-values.
        is_late: True if the study joined the suite when others had test scores: the comparison is exploratory.
    """

    study: str
    comparison: Comparison
    comparisons: int
    interval: tuple[float, float] | None
    p: float | None
    equivalence_p: float | None
    verdict: Verdict
    is_late: bool


@dataclass(frozen=True)
class AverageComparison:
    """The average of a difference over the columns of a suite.

    Attributes:
        difference: average difference. None if it is not tested.
        gain: difference relative to the average of the baseline, positive if the system is better. None without a
            difference.
        target: population that the test generalises to, on these tasks.
        test: the test, uncorrected.
        interval: confidence interval of the difference, simultaneous for all averages in the metric.
        comparisons: number of averages in the metric that were declared.
        equivalence_p: p-value of the equivalence test, by Bonferroni over the averages. None if there is no margin.
        verdict: verdict at these p-values.
        refusal: why there is no test; empty if there is one.
        is_late: True if a study joined the suite when others had test scores: the comparison is exploratory.
    """

    labels: tuple[str, ...]
    metric: str
    system: str
    baseline: str
    columns: int
    difference: float | None
    gain: float | None
    target: Target | None
    test: TestResult | None = None
    interval: tuple[float, float] | None = None
    comparisons: int = 0
    p: float | None = None
    equivalence_p: float | None = None
    verdict: Verdict = "not compared"
    refusal: str = ""
    is_late: bool = False

    @property
    def is_possible(self) -> bool:
        """True if there is a test, or will be one when all runs have ended."""
        return not self.refusal or self.refusal in (_NO_RESULTS, _INCOMPLETE)


@dataclass(frozen=True)
class SuiteData:
    """Everything that the joint report shows."""

    results: SuiteResults
    reports: dict[str, ReportData]
    comparisons: list[SuiteComparison]
    averages: list[AverageComparison]

    @property
    def plan(self) -> SuitePlan:
        """Plan of the suite."""
        return self.results.plan


def build_suite_data(results: SuiteResults) -> SuiteData:
    """Analyse every study of a suite, and compare over all of them.

    Raises:
        UserError: if the runs of a study cannot be compared.
    """
    reports = {key: build_report_data(study) for key, study in results.studies.items()}
    comparisons = correct_over_studies(results.plan, reports)
    return SuiteData(results, reports, comparisons, average_over_columns(results.plan, reports))


def average_estimates(estimates: Sequence[Estimate]) -> Estimate:
    """Return the estimate of the mean of independent differences.

    Variances add up. Each estimate has two parts, the less certain one first; Satterthwaite (1946) gives the degrees of
    freedom of their sum. The first part of one task, the one with the most influence, stays apart: `Estimate.df_at`
    supposes that it is too small. So the level holds if few seeds vary far more on one task than on the others. The
    average of a single estimate is that estimate.

    Args:
        estimates: differences on tasks with queries and runs of their own.

    Example:
        >>> average = average_estimates([Estimate(0.02, 0.01, 40.0), Estimate(0.04, 0.01, 40.0)])
        >>> round(average.mean, 4), round(average.error, 4), average.share, average.df, average.df_more
        (0.03, 0.0071, 0.5, 40.0, 40.0)
    """
    if len(estimates) == 1:
        return estimates[0]
    few = [(each.share * each.error**2, each.df) for each in estimates]
    more = [((1 - each.share) * each.error**2, each.df_more) for each in estimates]
    first, *others = sorted(few, key=lambda part: (part[0] ** 2 / part[1], part[1]), reverse=True)
    rest = sum(variance for variance, _ in (*others, *more))
    spread = sum(variance**2 / df for variance, df in (*others, *more))
    total = first[0] + rest
    return Estimate(
        mean=sum(each.mean for each in estimates) / len(estimates),
        error=sqrt(total) / len(estimates),
        df=first[1],
        share=first[0] / total if total else 1.0,
        df_more=rest**2 / spread if spread else inf,
    )


def count_comparisons(plan: SuitePlan, reports: dict[str, ReportData], metric: str) -> int:
    """Return the number of comparisons in a metric; of a study without results, those that the suite declared."""
    return sum(
        len(select_headline_comparisons(reports[study.key].results.plan, reports[study.key].comparisons))
        if study.key in reports
        else len(study.comparisons)
        for study in plan.studies
        if study.metric == metric
    )


def correct_over_studies(plan: SuitePlan, reports: dict[str, ReportData]) -> list[SuiteComparison]:
    """Return the headline comparisons of all studies; those in one metric are corrected together.

    A comparison that was declared and is not complete counts in the correction.
    """
    return [each for metric in plan.metrics for each in _correct_metric(plan, reports, metric)]


def _correct_metric(plan: SuitePlan, reports: dict[str, ReportData], metric: str) -> Iterator[SuiteComparison]:
    known = [
        (key, comparison)
        for key, report in reports.items()
        if plan.get_study(key).metric == metric
        for comparison in select_headline_comparisons(report.results.plan, report.comparisons)
    ]
    p_values = [c.p for _, c in known]
    missing = [None] * (count_comparisons(plan, reports, metric) - len(known))
    adjusted = adjust_p_values([*p_values, *missing], plan.correction)
    for (key, c), p in zip(known, adjusted, strict=False):
        # corrected within the study already; where that gives 1, it is also 1 over the suite
        equivalence_p = None if c.equivalence_p is None else min(1.0, c.equivalence_p / c.comparisons * len(adjusted))
        gain = _get_gain(c.difference, metric)
        verdict = decide_verdict(gain, p, equivalence_p, plan.alpha, c.verdict == "all values are equal")
        estimate = None if c.looks else c.estimate
        interval = estimate.confidence_interval(1 - plan.alpha / len(adjusted)) if estimate else None
        is_late = plan.get_study(key).is_late
        yield SuiteComparison(key, c, len(adjusted), interval, p, equivalence_p, verdict, is_late)


def average_over_columns(plan: SuitePlan, reports: dict[str, ReportData]) -> list[AverageComparison]:
    """Return the average over the columns of every comparison that all studies of a row have declared.

    Those in one metric are corrected together.
    """
    rows = [group for group in plan.list_rows() if len(group) > 1]
    declared = [
        (group, pair)
        for group in rows
        for pair in group[0].comparisons
        if all(pair in study.comparisons for study in group)
    ]
    corrected = list[AverageComparison]()
    for metric in plan.metrics:
        own = [(group, pair) for group, pair in declared if group[0].metric == metric]
        averages = [_average_row(plan, group, reports, pair, len(own)) for group, pair in own]
        corrected += correct_averages(averages, plan.alpha, plan.correction)
    return corrected


def make_average(
    declared: AverageComparison, estimate: Estimate, margin: float | None, alpha: float, count: int
) -> AverageComparison:
    """Return a declared average with its test, which `correct_averages` corrects.

    Args:
        declared: the average, without a test.
        estimate: the mean difference.
        margin: difference that matters; None if no margin was declared.
        alpha: significance level.
        count: number of averages that are corrected together.
    """
    return replace(
        declared,
        difference=estimate.mean,
        test=estimate.test(1 - alpha),
        interval=estimate.confidence_interval(1 - alpha / count),
        equivalence_p=min(1.0, tost(estimate, margin) * count) if margin else None,
        verdict="undecided",
    )


def correct_averages(averages: Sequence[AverageComparison], alpha: float, correction: str) -> list[AverageComparison]:
    """Return averages in one metric with the verdicts that hold for all of them; one without a test counts, too."""
    adjusted = adjust_p_values([each.test.p if each.test else None for each in averages], correction)
    corrected = list[AverageComparison]()
    for each, p in zip(averages, adjusted, strict=True):
        gain = _get_gain(each.difference, each.metric)
        verdict = decide_verdict(gain, p, each.equivalence_p, alpha, each.verdict == "all values are equal")
        corrected.append(replace(each, comparisons=len(averages), p=p, verdict=verdict))
    return corrected


def find_common_metric(reports: Iterable[ReportData]) -> str | None:
    """Return the metric of the studies; None if they have different ones, because their averages would mean nothing."""
    metrics = {report.results.plan.metric for report in reports}
    return metrics.pop() if len(metrics) == 1 else None


def has_one_protocol(reports: Iterable[ReportData]) -> bool:
    """Return whether all studies evaluate in one way: sampled candidates, retrieved ones of one depth, or pairs."""
    plans = [report.results.plan for report in reports]
    return len({(plan.is_reranking, plan.first_stage and plan.first_stage.depth) for plan in plans}) < 2


def _get_gain(difference: float | None, metric: str | None) -> float | None:
    """Return a difference with the sign such that more is better."""
    return -difference if difference is not None and metric in LOWER_IS_BETTER else difference


def _average_row(
    plan: SuitePlan, group: list[PlannedStudy], reports: dict[str, ReportData], pair: tuple[str, str], count: int
) -> AverageComparison:
    system, baseline = pair
    labels = plan.get_row_labels(group[0])
    is_late = any(study.is_late for study in group)
    metric = group[0].metric
    nothing = AverageComparison(labels, metric, system, baseline, len(group), None, None, None, is_late=is_late)
    present = [reports[study.key] for study in group if study.key in reports]
    if len(present) < len(group):
        return replace(nothing, refusal=_NO_RESULTS)
    if find_common_metric(present) is None:
        return replace(nothing, refusal="the studies have different metrics")
    if not has_one_protocol(present):
        return replace(nothing, refusal="the studies have different kinds or depths of candidates")
    values = [[_evaluate(report, name) for report in present] for name in pair]
    differences = [differences_or_none(own, other) for own, other in zip(*values, strict=True)]
    if any(d is None for d in differences):
        return replace(nothing, refusal=_INCOMPLETE)
    if any(report.looks for report in present):
        return replace(nothing, refusal="a sequential study stops where its own comparisons are decided")
    if _share_queries(present):
        return replace(nothing, refusal="two studies have the same queries, so their differences are not independent")
    estimates = [
        estimate_all(d) | _get_pooled_estimate(report, pair)
        for report, d in zip(present, differences, strict=True)
        if d is not None
    ]
    target = next((name for name in _TARGETS if all(each[name] for each in estimates)), None)
    if target is None:
        return replace(nothing, refusal="no test that all studies allow")
    average = average_estimates([estimate for each in estimates if (estimate := each[target])])
    base = sum(float(value.mean()) for value in values[1] if value is not None) / len(group)
    made = make_average(nothing, average, present[0].results.plan.margin, plan.alpha, count)
    sign = -1 if metric in LOWER_IS_BETTER else 1
    return replace(
        made,
        gain=sign * average.mean / abs(base) if base else None,
        target=target,
        verdict=made.verdict if any(d is not None and d.any() for d in differences) else "all values are equal",
    )


def _get_pooled_estimate(report: ReportData, pair: tuple[str, str]) -> dict[str, Estimate | None]:
    """Return the estimate for new queries and new seeds of a study that pools seeds; empty if it is not pooled."""
    headlines = select_headline_comparisons(report.results.plan, report.comparisons)
    pooled = next((c for c in headlines if (c.system, c.baseline) == pair and c.pooled), None)
    return {"both": pooled.estimate} if pooled else {}


def _evaluate(report: ReportData, system: str) -> Floats | None:
    configuration = report.chosen.get(system)
    return configuration.evaluate_queries(report.results.plan, "test") if configuration else None


def _share_queries(reports: Sequence[ReportData]) -> bool:
    """Return whether two studies have mostly the same test queries, by their ids and those of their relevant documents.

    Ids alone are often numbers, which tell nothing.
    """
    seen = list[set[tuple[str, str]]]()
    for report in reports:
        split = report.results.plan.test_split
        run = next(run for c in report.chosen.values() if c for run in c.runs.values() if split in run.files)
        frame = read_scores(run.files[split], split)
        relevant = frame[frame["relevant"] > 0]
        pairs = set(zip(relevant["query_id"].astype(str), relevant["document_id"].astype(str), strict=True))
        if any(2 * len(pairs & other) > min(len(pairs), len(other)) for other in seen):
            return True
        seen.append(pairs)
    return False
