"""The systems by several metrics: those of a plan, as Wu et al. (2021, Table 2), and the usual ones of retrieval."""

from collections.abc import Mapping, Sequence

from analysis.data.configurations import Configuration, Score, format_score, mean_and_std
from analysis.tables.section import MAX_COLUMNS, Section
from records.plan import Plan
from trainables.metrics import LOWER_IS_BETTER, get_measure

_LEGEND = (
    "{unit} on {test}, mean ± standard deviation over {seeds}. The comparisons above say which differences are shown. "
    "Bold: the best of a column."
)

RETRIEVAL_METRICS = ("nDCG@10", "MRR@10", "MAP", "P@10", "R@10", "Judged@10")
_RETRIEVAL_LEGEND = (
    "Metrics by the names and definitions of ir_measures on {test}, mean ± standard deviation over {seeds}. Judged@10: "
    "the share of the first 10 candidates that are judged; if it differs between systems, unjudged documents may hide "
    "a difference. Descriptive: no comparison is made here. Bold: the best of a column."
)


def build_metric_section(plan: Plan, chosen: Mapping[str, Configuration | None]) -> Section | None:
    """Build the table of test scores by the plan's metrics, its own last.

    Correlations are times 100 and have two decimals. None if the plan has only one metric, or nothing is tested.
    """
    metrics = [*(name for name in plan.metrics if name != plan.metric), plan.metric]
    scores = _evaluate(plan, chosen, plan.systems, metrics)
    if len(metrics) < 2 or scores is None:
        return None
    decimals = [2 if get_measure(metric).sts_correlation else 4 for metric in metrics]
    rows = [[name, *map(format_score, own, decimals)] for name, own in scores.items()]
    titles = [metric.removeprefix("STS/") if metric != "STS" else "STS (mean)" for metric in metrics]
    legend = _LEGEND.format(
        unit="Spearman's correlation times 100" if plan.is_correlation else "Metrics",
        test=plan.test_split,
        seeds=_count_seeds(plan),
    )
    return Section(
        f"By {'set' if plan.is_correlation else 'metric'}, on {plan.test_split}",
        ["system", *titles],
        rows,
        legend,
        is_wide=len(metrics) >= MAX_COLUMNS,
        bold=find_best(metrics, [*scores.values()]),
        label="by-metric",
    )


def build_retrieval_section(plan: Plan, chosen: Mapping[str, Configuration | None]) -> Section | None:
    """Build the table of test scores by `RETRIEVAL_METRICS`; None if nothing was retrieved, or nothing is tested."""
    scores = _evaluate(plan, chosen, plan.all_systems, RETRIEVAL_METRICS) if plan.first_stage else None
    if scores is None:
        return None
    return Section(
        f"Metrics of retrieval, on {plan.test_split}",
        ["system", *RETRIEVAL_METRICS],
        [[name, *map(format_score, own)] for name, own in scores.items()],
        _RETRIEVAL_LEGEND.format(test=plan.test_split, seeds=_count_seeds(plan)),
        bold=find_best(RETRIEVAL_METRICS, [*scores.values()]),
        label="retrieval",
    )


def _evaluate(
    plan: Plan, chosen: Mapping[str, Configuration | None], systems: Sequence[str], metrics: Sequence[str]
) -> dict[str, list[Score | None]] | None:
    """Return the test score of each system by each metric, None where it is incomplete; None if all are."""
    scores = {
        name: [mean_and_std(c.evaluate_queries(plan, "test", metric)) if (c := chosen.get(name)) else None
               for metric in metrics]
        for name in systems
    }  # fmt: skip
    return scores if any(score for own in scores.values() for score in own) else None


def find_best(metrics: Sequence[str], scores: Sequence[Sequence[Score | None]]) -> frozenset[tuple[int, int]]:
    """Return the places (row, column) of the best cells; more judged documents are not better."""
    bold = set()
    for column, metric in enumerate(metrics):
        values = {row: score[0] for row, own in enumerate(scores) if (score := own[column])}
        best = (min if metric in LOWER_IS_BETTER else max)(values.values(), default=None)
        if get_measure(metric).labels != "judged":
            bold |= {(row, 1 + column) for row, value in values.items() if value == best}
    return frozenset(bold)


def _count_seeds(plan: Plan) -> str:
    seeds = len(plan.get_seeds("test"))
    return f"{seeds} seed{'s' * (seeds != 1)}"
