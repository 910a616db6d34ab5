"""The marks of the main table: significant gains and losses over its two baselines, as Penha and Hauff (2021) have."""

from collections.abc import Sequence

from analysis.families import Comparison

MARKS = ({"better": "▲", "worse": "▼"}, {"better": "△", "worse": "▽"})
"""Of the first and the second baseline, by verdict."""


def marks(compared: Sequence[Comparison], baselines: Sequence[str]) -> dict[str, str]:
    """Of each compared system, those over the first baseline, then those over the second."""
    found = dict.fromkeys((c.system for c in compared), "")
    for baseline, symbols in zip(baselines, MARKS, strict=False):
        for c in compared:
            if c.baseline == baseline:
                found[c.system] += symbols.get(c.verdict, "")
    return found


def legend(baselines: Sequence[str]) -> str:
    """Which mark is over which baseline."""
    return ", ".join(
        f"{''.join(symbols.values())} over {name}" for symbols, name in zip(MARKS, baselines, strict=False)
    )
