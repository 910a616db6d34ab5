"""The marks of the main table: significant gains and losses over its two baselines, as Penha and Hauff (2021) have;
and those of single runs, as Penha and Hauff (2020) have."""

from collections.abc import Sequence

from analysis.stats.comparison import Comparison

MARKS = ({"better": "▲", "worse": "▼"}, {"better": "△", "worse": "▽"})
"""Of the first and the second baseline, by verdict."""
SEED_LEVELS = (0.01, 0.05)
"""Levels of the tests with one seed, the strictest first."""
SEED_MARKS = {True: ("⇑", "↑"), False: ("⇓", "↓")}
"""By whether it is a gain, one a level: two strokes are 99 %, one is 95 %."""


def build_marks(compared: Sequence[Comparison], baselines: Sequence[str]) -> dict[str, str]:
    """Of each compared system, those over the first baseline, then those over the second."""
    found = dict.fromkeys((c.system for c in compared), "")
    for baseline, symbols in zip(baselines, MARKS, strict=False):
        for c in compared:
            if c.baseline == baseline:
                found[c.system] += symbols.get(c.verdict, "")
    return found


def format_marks_legend(baselines: Sequence[str]) -> str:
    """Which mark is over which baseline."""
    return ", ".join(
        f"{''.join(symbols.values())} over {name}" for symbols, name in zip(MARKS, baselines, strict=False)
    )


def get_seed_mark(p: float, gain: float) -> str:
    """Of one test with one seed: the mark of the strictest level that it passes; none of a test that passes none."""
    return next((SEED_MARKS[gain > 0][at] for at, level in enumerate(SEED_LEVELS) if p < level), "")


def format_seed_legend(baseline: str) -> str:
    """Which mark is of which level."""
    told = [
        f"{SEED_MARKS[True][at]} better and {SEED_MARKS[False][at]} worse than {baseline} at {100 * (1 - level):g} %"
        for at, level in enumerate(SEED_LEVELS)
    ]
    return ", ".join(reversed(told))
