"""Formats the comparisons of a table of scores for the terminal."""

from collections.abc import Sequence

import numpy as np

from analysis.checks.collapsed_seeds import describe_outlying_run
from analysis.checks.ranks import HEADER, describe_ranks
from analysis.comparisons.pooling import describe_pooling
from analysis.comparisons.result import ComparisonResult
from analysis.data.score_table import ScoreTable
from analysis.rendering.cells import QUERIES_BONFERRONI, format_comparisons, format_p_value, format_terminal_table
from analysis.stats.comparison import Comparison
from analysis.stats.paired_tests import differences_or_none
from analysis.stats.permutation_tests import smallest_p
from analysis.stats.power import POWER
from analysis.stats.variance_components import describe_deviations

_QUESTIONS = {
    "both": "p asks whether the systems differ on new queries and new seeds (two-way random effects)",
    "queries": "p asks whether these runs differ on new queries; it says nothing about new seeds",
    "seeds": "p asks whether other seeds would differ on these queries; it says nothing about new queries",
}
_USUAL_TEST = (
    f"{QUERIES_BONFERRONI} is the usual test: it asks whether these runs differ on new queries; it says nothing about "
    "new seeds"
)


def format_result(result: ComparisonResult) -> str:
    """Format the comparisons for a terminal, with the notes that are needed to read them."""
    settings, comparisons = result.settings, result.comparisons
    number = f"{len(comparisons)} comparison{'s' * (len(comparisons) != 1)}"
    title = (
        f"{number} at {settings.alpha:g}, {settings.correction}; intervals hold for all at once (Bonferroni); "
        f"MDE at {POWER:.0%} power"
    )
    scope = f" over {len(result.scores.seeds)} seeds, uncorrected" if len(result.scores.seeds) > 1 else ", uncorrected"
    test_lines = [
        f"{c.system} over {c.baseline}, {name}{scope}: {_format_free_test(c, name, settings.alpha / len(comparisons))}"
        for c in comparisons
        for name in c.distribution_free
    ]
    missing_lines = [f"not compared: {fault}" for fault in result.missing]
    copy_lines = [
        f"{c.system} over {c.baseline}: the scores of all seeds are copies, which count as one seed"
        for c in comparisons
        if c.target == "queries" and all(_has_several_seeds(result.scores, name) for name in (c.system, c.baseline))
    ]
    copy_lines += [
        f"{c.system} over {c.baseline}: all differences agree exactly, so their spread is not known; half of the "
        "difference counts as standard deviation"
        for c in comparisons
        if c.target in ("queries", "seeds") and c.difference and _agree_exactly(result.scores, c)
    ]
    pooling = describe_pooling(comparisons, settings.seeds)
    components = [describe_deviations(result.variance)] if result.variance else []
    table = format_comparisons(comparisons, settings.correction)
    return "\n".join(
        [
            title,
            format_terminal_table(*table, width=200),
            *_format_ranks(result),
            *_describe_questions(comparisons),
            *([pooling] if pooling else []),
            *copy_lines,
            *map(describe_outlying_run, result.outlying),
            *components,
            *test_lines,
            *missing_lines,
        ]
    )


def _format_free_test(c: Comparison, name: str, level: float) -> str:
    """Return the p-value of a distribution-free test, and that it cannot reach the level of a comparison if so."""
    test = c.targets["seeds"] or c.targets["queries"]
    reach = smallest_p(name, round(test.df) + 1) if test else 0.0
    return format_p_value(c.distribution_free[name]) + (f", cannot reach {level:.4g}" if reach > level else "")


def _format_ranks(result: ComparisonResult) -> list[str]:
    if not result.ranks:
        return []
    rows = [own.to_cells() for own in result.ranks]
    return [
        "groups",
        format_terminal_table(HEADER, rows),
        f"{describe_ranks(len(rows), result.settings.alpha)}\n",
    ]


def _describe_questions(comparisons: Sequence[Comparison]) -> list[str]:
    """Say what the p-values ask; if they ask about different populations, for which comparisons."""
    by_target: dict[str, list[str]] = {}
    for c in comparisons:
        if c.target:
            by_target.setdefault(c.target, []).append(f"{c.system} over {c.baseline}")
    usual = [_USUAL_TEST] if "both" in by_target else []
    if len(by_target) == 1:
        return [_QUESTIONS[target] for target in by_target] + usual
    return [f"{', '.join(names)}: {_QUESTIONS[target]}" for target, names in by_target.items()] + usual


def _agree_exactly(scores: ScoreTable, c: Comparison) -> bool:
    d = differences_or_none(scores.get_complete_scores(c.system), scores.get_complete_scores(c.baseline))
    return d is not None and not np.ptp(d)


def _has_several_seeds(scores: ScoreTable, name: str) -> bool:
    values = scores.get_complete_scores(name)
    return values is not None and len(values) > 1
