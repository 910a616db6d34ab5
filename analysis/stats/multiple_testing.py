"""Corrections of p-values for the number of comparisons: Bonferroni, Holm (1979), Benjamini and Hochberg (1995)."""

from collections.abc import Sequence

import numpy as np

CORRECTIONS = ("bonferroni", "holm", "bh")


def adjust_p_values(p: Sequence[float | None], correction: str) -> list[float | None]:
    """Return the p-values of one family, corrected for their number.

    A comparison that could not be made (None) stays None but counts as if its p were 1: the correction is for what was
    declared.

    Args:
        p: p-value of each comparison, or None.
        correction: one of CORRECTIONS.

    Raises:
        ValueError: if there is no such correction.

    Example:
        >>> adjust_p_values([0.01, 0.02, None], "bonferroni")
        [0.03, 0.06, None]
    """
    if correction not in CORRECTIONS:
        raise ValueError(f"unknown correction {correction!r}; expected one of {', '.join(CORRECTIONS)}")
    if not p:
        return []
    values = np.array([1.0 if value is None else value for value in p])
    order, rank = np.argsort(values), np.arange(1, len(p) + 1)
    raised = values[order]
    if correction == "bonferroni":
        raised = raised * len(p)
    elif correction == "holm":
        raised = np.maximum.accumulate(raised * rank[::-1])
    else:
        raised = np.minimum.accumulate((raised / (rank / len(p)))[::-1])[::-1]
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(raised, 1)
    return [None if value is None else float(new) for value, new in zip(p, adjusted, strict=True)]


def adjust_by_each_correction(p: Sequence[float | None]) -> list[dict[str, float | None]]:
    """Return the p-values of each comparison of a family, by correction."""
    columns = [adjust_p_values(p, name) for name in CORRECTIONS]
    return [dict(zip(CORRECTIONS, own, strict=True)) for own in zip(*columns, strict=True)]
