"""Marks of significant differences, after Penha and Hauff (2021)."""

from collections.abc import Sequence

from analysis.stats.comparison import Comparison
from records.plan import Plan

MARKS = ({"better": "▲", "worse": "▼"}, {"better": "△", "worse": "▽"})
"""Marks of the first and of the second group of comparisons, by verdict."""


def build_marks(plan: Plan, compared: Sequence[Comparison]) -> dict[str, str]:
    """Return the marks of each compared system, for the first of `Plan.mark_groups` and then for the second."""
    marks = dict.fromkeys((c.system for c in compared), "")
    for group, symbols in zip(plan.mark_groups, MARKS, strict=False):
        for c in compared:
            if (c.system, c.baseline) in group.pairs:
                marks[c.system] += symbols.get(c.verdict, "")
    return marks


def format_marks_legend(baselines: Sequence[str]) -> str:
    """Describe which mark belongs to which baseline."""
    return ", ".join(
        f"{''.join(symbols.values())} over {name}" for symbols, name in zip(MARKS, baselines, strict=False)
    )
