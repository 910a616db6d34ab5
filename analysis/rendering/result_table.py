"""The comparisons of a table of scores, and the table in which a terminal, a notebook and a paper show them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.checks.collapsed_seeds import describe_outlying_run
from analysis.checks.equal_rankers import EqualRankers
from analysis.checks.ranks import HEADER, RankedSystem, describe_ranks
from analysis.comparisons.pooling import describe_pooling
from analysis.data.configurations import mean_and_std
from analysis.data.score_table import ScoreTable
from analysis.rendering.answer import Finding, Sample, build_answer
from analysis.rendering.cells import format_p_value, format_terminal_table
from analysis.rendering.document import Document, render_markdown, render_text
from analysis.stats.comparison import Comparison, ComparisonSettings
from analysis.stats.outlying_runs import OutlyingRun
from analysis.stats.paired_tests import differences_or_none, estimate_interval
from analysis.stats.permutation_tests import smallest_p
from analysis.stats.variance_components import VarianceComponents
from analysis.tables.frames import build_comparisons_frame


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """The comparisons of a table of scores. A terminal and a notebook show them as one sentence, one table and a line.

    Attributes:
        settings: level, correction, margin and further tests.
        comparisons: comparisons in order of baselines, then of systems, as in the table.
        ranks: rank intervals and groups of the complete systems; empty if there are fewer than three.
        outlying: runs that look collapsed, or that have other seeds of the system which do.
        equal_rankers: what the usual test makes of two seeds of one system. None with fewer than four seeds.
        missing: description of missing scores. Systems that lack scores are not compared but count in the corrections.
        variance: variance components of the complete systems that have all seeds, beyond what they share. None if
            there are too few.
        metric: name of the value in tables.
    """

    scores: ScoreTable
    settings: ComparisonSettings
    comparisons: list[Comparison]
    ranks: list[RankedSystem]
    outlying: list[OutlyingRun]
    equal_rankers: EqualRankers | None
    missing: list[str]
    variance: VarianceComponents | None
    metric: str = "value"

    def __repr__(self) -> str:
        return format_result(self)

    def _repr_markdown_(self) -> str:
        return render_markdown(build_result_document(self))

    def frame(self) -> pd.DataFrame:
        """Return the comparisons as a data frame, see `build_comparisons_frame`.

        Example:
            >>> import pandas as pd
            >>> from analysis.compare import compare
            >>> values = {"BERT": [0.5, 0.6, 0.4, 0.7], "LS": [0.6, 0.8, 0.5, 0.8]}
            >>> rows = [(system, query, value) for system in values for query, value in enumerate(values[system])]
            >>> frame = compare(pd.DataFrame(rows, columns=["system", "query", "value"]), ["BERT"]).frame()
            >>> frame[["system", "verdict", "wins_ties_losses.wins"]].values.tolist()
            [['LS', 'better', 4]]
        """
        corrections = {c.family: self.settings.correction for c in self.comparisons}
        return build_comparisons_frame(self.comparisons, corrections)

    def systems(self) -> pd.DataFrame:
        """Return one row a system: mean, standard deviation over seeds, and 95 % interval of the mean.

        Returns:
            Columns system, mean, sd, mean_low and mean_high; NaN where there is none.
        """
        rows = []
        for name in self.scores.values:
            values = self.scores.get_complete_scores(name)
            score, interval = mean_and_std(values), None if values is None else estimate_interval(values)
            rows.append((name, *(score or (None, None)), *(interval or (None, None))))
        frame = pd.DataFrame(rows, columns=["system", "mean", "sd", "mean_low", "mean_high"])
        return frame.astype(dict.fromkeys(frame.columns[1:], "float64"))


def format_result(result: ComparisonResult, with_groups: bool = False) -> str:
    """Format the comparisons for a terminal: a sentence, a table, a line, and what must be known to believe them.

    Args:
        result: the comparisons.
        with_groups: True to add rank intervals and groups of systems.
    """
    text = render_text(build_result_document(result))
    if not with_groups or not result.ranks:
        return text
    rows = [own.to_cells() for own in result.ranks]
    return f"{text}\n{format_terminal_table(HEADER, rows)}\n{describe_ranks(len(rows), result.settings.alpha)}"


def build_result_document(result: ComparisonResult) -> Document:
    """Return what any format says about the comparisons of a table of scores."""
    scores, settings = result.scores, result.settings
    sample = Sample(
        metric=result.metric,
        seeds=len(scores.seeds),
        queries=len(scores.queries),
        comparisons=len(result.comparisons),
        alpha=settings.alpha,
        correction=settings.correction,
        margin=settings.margin,
        lower_is_better=settings.less_is_better,
        variance=result.variance,
    )
    means = {name: mean_and_std(scores.get_complete_scores(name)) for name in scores.values}
    answer = build_answer([Finding.from_comparison(c) for c in result.comparisons], means, sample)
    return Document(title="", answer=answer, warnings=_list_notes(result))


def _list_notes(result: ComparisonResult) -> list[str]:
    scores, comparisons, level = result.scores, result.comparisons, result.settings.alpha / len(result.comparisons)
    over = f" over {len(scores.seeds)} seeds, uncorrected" if len(scores.seeds) > 1 else ", uncorrected"
    copies = [
        f"{c.system} over {c.baseline}: the scores of all seeds are copies, which count as one seed"
        for c in comparisons
        if c.target == "queries" and all(_has_several_seeds(scores, name) for name in (c.system, c.baseline))
    ]
    exact = [
        f"{c.system} over {c.baseline}: all differences agree exactly, so their spread is not known; half of the "
        "difference counts as standard deviation"
        for c in comparisons
        if c.target in ("queries", "seeds") and c.difference and _agree_exactly(scores, c)
    ]
    tests = [
        f"{c.system} over {c.baseline}, {name}{over}: {_format_free_test(c, name, level)}"
        for c in comparisons
        for name in c.distribution_free
    ]
    return [
        *map(describe_outlying_run, result.outlying),
        *(f"not compared: {fault}" for fault in result.missing),
        *copies,
        *exact,
        *filter(None, [describe_pooling(comparisons, result.settings.seeds)]),
        *tests,
        *([result.equal_rankers.describe()] if result.equal_rankers else []),
    ]


def _format_free_test(c: Comparison, name: str, level: float) -> str:
    """Return the p-value of a distribution-free test, and that it cannot reach the level of a comparison if so."""
    test = c.targets["seeds"] or c.targets["queries"]
    reach = smallest_p(name, round(test.df) + 1) if test else 0.0
    return format_p_value(c.distribution_free[name]) + (f", cannot reach {level:.4g}" if reach > level else "")


def _agree_exactly(scores: ScoreTable, c: Comparison) -> bool:
    d = differences_or_none(scores.get_complete_scores(c.system), scores.get_complete_scores(c.baseline))
    return d is not None and not np.ptp(d)


def _has_several_seeds(scores: ScoreTable, name: str) -> bool:
    values = scores.get_complete_scores(name)
    return values is not None and len(values) > 1
