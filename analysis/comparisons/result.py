"""Comparisons as a data frame, and those of a table of scores with what is needed to read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.checks.ranks import RankedSystem
from analysis.data.score_table import ScoreTable
from analysis.stats.comparison import Comparison, ComparisonSettings
from analysis.stats.outlying_runs import OutlyingRun
from analysis.stats.variance_components import VarianceComponents


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """The comparisons of a table of scores.

    Attributes:
        scores: the scores.
        settings: level, correction, margin and further tests.
        comparisons: comparisons in order of baselines, then of systems, as in the table.
        ranks: rank intervals and groups of the complete systems; empty if there are fewer than three.
        outlying: runs that look collapsed, or runs of systems with other seeds that do.
        missing: description of missing scores. Systems that lack scores are not compared but count in the corrections.
        variance: variance components of the complete systems that have all seeds, beyond what they share. None if
            there are too few.
    """

    scores: ScoreTable
    settings: ComparisonSettings
    comparisons: list[Comparison]
    ranks: list[RankedSystem]
    outlying: list[OutlyingRun]
    missing: list[str]
    variance: VarianceComponents | None

    def __repr__(self) -> str:
        """Return a line for each comparison. Its verdict says what it is limited to."""
        columns = ["system", "baseline", "difference", "low", "high", "p_corrected", "verdict"]
        shown = self.frame()[columns].assign(verdict=[c.scoped_verdict for c in self.comparisons])
        return str(shown.to_string(index=False, float_format="{:.4f}".format))

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


def build_comparisons_frame(comparisons: Sequence[Comparison], corrections: Mapping[str, str]) -> pd.DataFrame:
    """Return one row a comparison, with the content of `Comparison.as_dict`.

    A key in an object is a column with a point, such as `adjusted.holm` or `targets.both.p`. In addition, `p` is that
    of the headline test, `p_corrected` has the correction of the family, and `low` and `high` are the interval; they
    are NaN if the systems were not compared.

    Args:
        comparisons: the comparisons.
        corrections: correction that decides, by name of the family.
    """
    rows = []
    for c in comparisons:
        low, high = c.interval or (None, None)
        headline = {"p": c.p, "p_corrected": c.adjusted[corrections[c.family]], "low": low, "high": high}
        rows.append(c.as_dict() | headline)
    frame = pd.json_normalize(rows)
    return frame.astype(dict.fromkeys(("p", "p_corrected", "low", "high"), "float64")) if rows else frame
