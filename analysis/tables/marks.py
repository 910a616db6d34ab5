"""Marks of significant differences, after Penha and Hauff: main table (2021) and single runs (2020)."""

from collections.abc import Sequence

from analysis.data.plan import Plan
from analysis.stats.comparison import Comparison

MARKS = ({"better": "▲", "worse": "▼"}, {"better": "△", "worse": "▽"})
"""Marks of the first and of the second group of comparisons, by verdict."""
SEED_LEVELS = (0.01, 0.05)
"""Levels of the tests with one seed, the strictest first."""
SEED_MARKS = ({True: ("⇑", "↑"), False: ("⇓", "↓")}, {True: ("△△", "△"), False: ("▽▽", "▽")})
"""Marks of a gain (True) or a loss of one seed, for the baseline and for the shuffled order, one for each level."""


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


def get_seed_mark(p: float, gain: float, kind: int = 0) -> str:
    """Return the mark of the strictest level that a test with one seed passes; empty if it passes none.

    Args:
        p: p-value of the test.
        gain: difference, above 0 if the system is better.
        kind: what the run is compared with: 0 the baseline, 1 the shuffled order.
    """
    marks = SEED_MARKS[kind][gain > 0]
    return next((marks[index] for index, level in enumerate(SEED_LEVELS) if p < level), "")


def format_seed_legend(baseline: str, kind: int = 0) -> str:
    """Describe which mark belongs to which level.

    Args:
        baseline: what the runs are compared with, in words.
        kind: kind of the marks, see `get_seed_mark`.
    """
    better, worse = SEED_MARKS[kind][True], SEED_MARKS[kind][False]
    parts = [
        f"{better[i]} better and {worse[i]} worse than {baseline} at {100 * (1 - level):g} %"
        for i, level in enumerate(SEED_LEVELS)
    ]
    return ", ".join(reversed(parts))
