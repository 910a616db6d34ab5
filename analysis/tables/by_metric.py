"""The systems by several metrics: those of a plan, as Wu et al. (2021, Table 2), and the usual ones of retrieval."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analysis.data.configurations import Configuration, Score, format_score, mean_and_std
from analysis.data.plan import Plan
from analysis.stats.comparison import Comparison
from analysis.tables.marks import build_marks, format_marks_legend
from trainables.metrics import LOWER_IS_BETTER, get_measure

_LEGEND = (
    "{unit} on {test}, mean ± standard deviation over {seeds} seed{s}. Marks: {marks}, each by the correction of the "
    "family that declares it ({families}). Bold: the best of a column."
)

RETRIEVAL_METRICS = ("nDCG@10", "MRR@10", "MAP", "P@10", "R@10", "Judged@10")
_RETRIEVAL_LEGEND = (
    "Metrics by the names and definitions of ir_measures on {test}, mean ± standard deviation over {seeds}. Judged@10: "
    "the share of the first 10 candidates that are judged; if it differs between systems, unjudged documents may hide "
    "a difference. Descriptive: no comparison is made here. Bold: the best of a column."
)


class MetricCell(NamedTuple):
    """A system's score by a metric, and its marks; the score is None if it is incomplete."""

    score: Score | None
    marks: str

    def to_text(self, metric: str) -> str:
        """Format the score and the marks; correlations are times 100 and have two decimals."""
        return f"{format_score(self.score, 2 if get_measure(metric).sts_correlation else 4)} {self.marks}".rstrip()


class MetricTable(NamedTuple):
    """The table of systems by metric.

    Attributes:
        metrics: metrics of the columns, the plan's own last.
        rows: one cell a metric, by system.
    """

    metrics: list[str]
    rows: dict[str, list[MetricCell]]

    def to_cells(self) -> tuple[list[str], list[list[str]], frozenset[tuple[int, int]]]:
        """Return header, rows as plain text, and the places (row, column) of the best cells of each column."""
        bold = set()
        for column, metric in enumerate(self.metrics):
            scores = {index: cells[column].score for index, cells in enumerate(self.rows.values())}
            values = {index: score[0] for index, score in scores.items() if score is not None}
            best = (min if metric in LOWER_IS_BETTER else max)(values.values(), default=None)
            bold |= {(index, 1 + column) for index, value in values.items() if value == best}
        header = ["system", *map(_format_title, self.metrics)]
        return (
            header,
            [
                [name, *(cell.to_text(metric) for cell, metric in zip(cells, self.metrics, strict=True))]
                for name, cells in self.rows.items()
            ],
            frozenset(bold),
        )

    def format_legend(self, plan: Plan) -> str:
        """Return the legend of the table."""
        seeds = len(plan.get_seeds("test"))
        return _LEGEND.format(
            unit="Spearman's correlation times 100" if plan.is_correlation else "Metrics",
            test=plan.test_split,
            seeds=seeds,
            s="s" * (seeds != 1),
            marks=format_marks_legend(plan.mark_baselines),
            families="; ".join(f"{own.name}: {own.correction}" for own in plan.test_families),
        )


def build_metric_table(
    plan: Plan, chosen: Mapping[str, Configuration | None], compared: Sequence[Comparison]
) -> MetricTable | None:
    """Build the table of test scores; None if the plan has only one metric, or nothing is tested."""
    metrics = [name for name in plan.metrics if name != plan.metric]
    values = {name: [None if (c := chosen.get(name)) is None else c.evaluate_queries(plan, "test", metric)
                     for metric in (*metrics, plan.metric)] for name in plan.systems}  # fmt: skip
    if not metrics or all(scores is None for row in values.values() for scores in row):
        return None
    metrics.append(plan.metric)
    tested = [c for c in compared if c.split is None]
    first = {(c.metric, c.system, c.baseline): c for c in reversed(tested)}.values()  # of the first family
    marked = [build_marks(plan, [c for c in first if c.metric == metric]) for metric in metrics]
    rows = {
        name: [
            MetricCell(mean_and_std(scores), column_marks.get(name, ""))
            for scores, column_marks in zip(row, marked, strict=True)
        ]
        for name, row in values.items()
    }
    return MetricTable(metrics, rows)


def _format_title(metric: str) -> str:
    """Return the name of a set, or the metric's name for the mean over sets."""
    return metric.removeprefix("STS/") if metric != "STS" else "STS (mean)"


class RetrievalTable(NamedTuple):
    """Scores of the systems by `RETRIEVAL_METRICS`; None if a system is incomplete."""

    rows: dict[str, list[Score | None]]
    legend: str

    def to_cells(self) -> tuple[list[str], list[list[str]], frozenset[tuple[int, int]]]:
        """Return header, rows as plain text, and the places (row, column) of the best cells of each column."""
        bold = set()
        for column, metric in enumerate(RETRIEVAL_METRICS):
            if get_measure(metric).labels == "judged":
                continue  # more is not better
            values = [score[0] if (score := scores[column]) else None for scores in self.rows.values()]
            best = max((value for value in values if value is not None), default=None)
            bold |= {(row, 1 + column) for row, value in enumerate(values) if value is not None and value == best}
        cells = [[name, *map(format_score, scores)] for name, scores in self.rows.items()]
        return ["system", *RETRIEVAL_METRICS], cells, frozenset(bold)


def build_retrieval_table(plan: Plan, chosen: Mapping[str, Configuration | None]) -> RetrievalTable | None:
    """Build the table of test scores; None if candidates were not retrieved, or nothing is tested.

    Args:
        plan: the plan of a study.
        chosen: configuration that represents each system.
    """
    if plan.first_stage is None:
        return None
    rows = {
        name: [
            mean_and_std(own.evaluate_queries(plan, "test", metric)) if own else None for metric in RETRIEVAL_METRICS
        ]
        for name, own in ((name, chosen.get(name)) for name in plan.all_systems)
    }
    if all(score is None for scores in rows.values() for score in scores):
        return None
    seeds = len(plan.get_seeds("test"))
    legend = _RETRIEVAL_LEGEND.format(test=plan.test_split, seeds=f"{seeds} seed{'s' * (seeds != 1)}")
    return RetrievalTable(rows, legend)
