"""Comparisons of a table of scores, with what is needed to read them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from analysis.checks.collapsed import OutlyingSeed
from analysis.checks.ranks import RankedSystem
from analysis.data.score_table import ScoreTable
from analysis.stats.comparison import Comparison, ComparisonSettings, WinTieLoss, WithoutWorstSeeds
from analysis.stats.estimate import TestResult
from analysis.stats.variance_components import VarianceComponents


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """The comparisons of a table of scores.

    Attributes:
        scores: the scores.
        settings: level, correction, margin and further tests.
        comparisons: comparisons in order of baselines, then of systems, as in the table.
        ranks: rank intervals and groups of the complete systems; empty if there are fewer than three.
        outlying: runs that look collapsed, or whose system's other seeds do.
        missing: description of missing scores. Systems that lack scores are not compared but count in the corrections.
        variance: variance components of the complete systems that have all seeds, beyond what they share. None if
            there are too few.
    """

    scores: ScoreTable
    settings: ComparisonSettings
    comparisons: list[Comparison]
    ranks: list[RankedSystem]
    outlying: list[OutlyingSeed]
    missing: list[str]
    variance: VarianceComponents | None

    def __repr__(self) -> str:
        """Return the size of the table and a line for each of the first comparisons."""
        table, settings, number = self.scores, self.settings, len(self.comparisons)
        sizes = ((len(table.values), "system"), (len(table.seeds), "seed"), (len(table.queries), "query"))
        lines = [
            f"{', '.join(_count(size, noun) for size, noun in sizes)}; {_count(number, 'comparison')} at "
            f"{settings.alpha:g}, {settings.correction}"
        ]
        lines += [_describe_comparison(c, settings.correction) for c in self.comparisons[:_MAX_LINES]]
        if number > _MAX_LINES:
            lines.append(f"and {number - _MAX_LINES} more")
        return "\n".join(lines)

    def frame(self) -> pd.DataFrame:
        """Return one row a comparison, with the content of `Comparison.as_dict`.

        A key in an object is a column with a point, such as `adjusted.holm` or `targets.both.p`. As in the data frame
        of a report, `p` is that of the headline test, `p_corrected` has the correction of the settings,
        and `low` and `high` are the interval. The columns `each_seed`, `outlying_seeds` and
        `without_worst_seeds.removed` have lists. Numbers that there are not are missing values.

        Example:
            >>> import pandas as pd
            >>> from analysis.compare import compare
            >>> values = {"BERT": [0.5, 0.6, 0.4, 0.7], "LS": [0.6, 0.8, 0.5, 0.8]}
            >>> rows = [(system, query, value) for system in values for query, value in enumerate(values[system])]
            >>> frame = compare(pd.DataFrame(rows, columns=["system", "query", "value"]), ["BERT"]).frame()
            >>> frame[["system", "verdict", "wins_ties_losses.wins"]].values.tolist()
            [['LS', 'better', 4]]
        """
        rows = []
        for c in self.comparisons:
            values = c.as_dict()
            low, high = values.pop("interval") or (None, None)
            headline = {"p": c.p, "p_corrected": c.adjusted[self.settings.correction], "low": low, "high": high}
            rows.append(dict(_iter_columns(values)) | headline)
        return pd.DataFrame(rows).astype(dict.fromkeys(("p", "p_corrected", "low", "high"), "float64"))


_MAX_LINES = 10
"""Most comparisons that the short description lists."""
_FIELDS = {
    "wins_ties_losses": WinTieLoss._fields,
    "without_worst_seeds": WithoutWorstSeeds._fields,
    **{f"targets.{name}": tuple(field.name for field in fields(TestResult)) for name in ("both", "queries", "seeds")},
}
"""Columns of the values that may be None."""


def _iter_columns(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        name = prefix + key
        if value is None and name in _FIELDS:
            value = dict.fromkeys(_FIELDS[name])
        if isinstance(value, Mapping):
            yield from _iter_columns(value, f"{name}.")
        else:
            yield name, value


def _describe_comparison(comparison: Comparison, correction: str) -> str:
    c, p = comparison, comparison.adjusted[correction]
    if c.difference is None:
        return f"{c.system} over {c.baseline}: {c.verdict}"
    interval = f" [{c.interval[0]:+.4f}, {c.interval[1]:+.4f}]" if c.interval else ""
    corrected = f", corrected p {p:.4f}" if p is not None else ""
    return f"{c.system} over {c.baseline}: {c.difference:+.4f}{interval}{corrected}, {c.scoped_verdict}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun.removesuffix('y') + 'ies' if noun == 'query' else noun + 's'}"
