"""Systems by every metric of a plan, as Wu et al. (2021, Table 2) have them: a column a set, and the mean."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from analysis.data.configurations import Configuration, Score, mean_and_std
from analysis.data.plan import Plan
from analysis.data.scores import list_subsets
from analysis.stats.comparison import Comparison
from analysis.tables.marks import build_marks, format_marks_legend
from trainables.metrics import LOWER_IS_BETTER, get_set_name

_LEGEND = (
    "{unit} on {test}, mean ± standard deviation over {seeds} seed{s}. Marks: {marks}, each by the correction of the "
    "family that declares it ({families}); bold: the best of a column."
)


class MetricCell(NamedTuple):
    """A system's score by a metric, and its marks; no score: incomplete."""

    score: Score | None
    marks: str

    def to_text(self) -> str:
        if self.score is None:
            return "-"
        value, spread = self.score
        return f"{value:.2f}" + (f" ± {spread:.2f}" if spread is not None else "") + f" {self.marks}".rstrip()


class MetricTable(NamedTuple):
    """The table.

    Attributes:
        metrics: of the columns, the plan's own last.
        rows: by system, a cell a metric.
    """

    metrics: list[str]
    rows: dict[str, list[MetricCell]]
    baselines: list[str]

    def to_cells(self) -> tuple[list[str], list[list[str]], frozenset[tuple[int, int]]]:
        """Header, rows as plain text, and the places of the best of each column."""
        bold = set()
        for column, metric in enumerate(self.metrics):
            scores = {at: cells[column].score for at, cells in enumerate(self.rows.values())}
            values = {at: score[0] for at, score in scores.items() if score is not None}
            best = (min if metric in LOWER_IS_BETTER else max)(values.values(), default=None)
            bold |= {(at, 1 + column) for at, value in values.items() if value == best}
        header = ["system", *map(_format_title, self.metrics)]
        return (
            header,
            [[name, *(cell.to_text() for cell in cells)] for name, cells in self.rows.items()],
            frozenset(bold),
        )

    def format_legend(self, plan: Plan) -> str:
        """What the columns are."""
        seeds = len(plan.get_seeds("test"))
        return _LEGEND.format(
            unit="Spearman's correlation times 100" if plan.is_correlation else "Metrics",
            test=plan.test_split,
            seeds=seeds,
            s="s" * (seeds != 1),
            marks=format_marks_legend(self.baselines),
            families="; ".join(f"{own.name}: {own.correction}" for own in plan.families),
        )


def build_metric_table(
    plan: Plan, chosen: Mapping[str, Configuration | None], compared: Sequence[Comparison]
) -> MetricTable | None:
    """The test scores of the plan's systems by each of its metrics; None where it has but one, or nothing is tested."""
    metrics = [name for name in plan.metrics if name != plan.metric]
    values = {name: [None if (c := chosen.get(name)) is None else c.evaluate_queries(plan, "test", metric)
                     for metric in (*metrics, plan.metric)] for name in plan.systems}  # fmt: skip
    if not metrics or all(own is None for row in values.values() for own in row):
        return None
    metrics.append(plan.metric)
    baselines = list(dict.fromkeys(baseline for _, baseline in plan.headline.comparisons))[:2]
    first = {(c.metric, c.system, c.baseline): c for c in reversed(compared)}.values()  # the family that comes first
    marked = [build_marks([c for c in first if c.metric == metric], baselines) for metric in metrics]
    rows = {
        name: [MetricCell(mean_and_std(own), of.get(name, "")) for own, of in zip(row, marked, strict=True)]
        for name, row in values.items()
    }
    return MetricTable(metrics, rows, baselines)


def _format_title(metric: str) -> str:
    """A set alone is its name; their mean is the metric's."""
    return metric.removeprefix("STS/") if metric != "STS" else "STS (mean)"


def build_subset_scores(plan: Plan, configurations: Sequence[Configuration]) -> pd.DataFrame:
    """Every finished test run by the mean over sets, by set and by subset; empty where the unit is the query.

    Returns:
        Columns system, configuration, seed, metric, value, in order of configuration, seed and metric.
    """
    rows, split = [], plan.test_split
    for configuration in configurations if plan.is_correlation else ():
        for seed, run in sorted(configuration.runs.items(), key=lambda item: -1 if item[0] is None else item[0]):
            if run.is_finished and split in run.files:
                names = list_subsets(run.files[split], split)
                metrics = sorted({"STS", *(f"STS/{name}" for name in (*names, *map(get_set_name, names)))})
                scored = zip(metrics, run.evaluate_overall(split, metrics), strict=True)
                rows += [(configuration.system, configuration.id, seed, *pair) for pair in scored]
    frame = pd.DataFrame(rows, columns=["system", "configuration", "seed", "metric", "value"])
    return frame.astype({"seed": "Int64"})
