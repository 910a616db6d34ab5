"""Comparisons as a data frame."""

from collections.abc import Mapping, Sequence

import pandas as pd

from analysis.stats.comparison import Comparison


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
