"""Two one-sided tests of equivalence within a margin (Schuirmann 1987), and the verdict in words."""

from typing import Literal

from analysis.stats.estimate import Estimate

Verdict = Literal["better", "worse", "equivalent", "undecided", "all values are equal", "not compared"]


def tost(estimate: Estimate, margin: float) -> float:
    """Return the p-value of the hypothesis that the true difference is at least `margin` in size.

    Args:
        estimate: mean difference with its standard error.
        margin: difference above 0 that would matter, in units of the metric.

    Raises:
        ValueError: if the margin is not above 0.

    Example:
        >>> from analysis.stats.estimate import Estimate
        >>> round(tost(Estimate(mean=0.001, error=0.002, df=100), margin=0.005), 4)
        0.0241
    """
    if not margin > 0:
        raise ValueError(f"the margin must be above 0 but is {margin}")
    return estimate.one_sided_p(margin - abs(estimate.mean))


def decide_verdict(
    difference: float | None, p: float | None, p_equivalence: float | None, alpha: float, are_equal: bool = False
) -> Verdict:
    """Return the verdict of a comparison from p-values that are corrected for its family.

    Args:
        difference: system minus baseline, with the sign such that more is better. None if they were not compared.
        p: corrected p-value of the hypothesis of no difference.
        p_equivalence: corrected p-value of `tost`. None if no margin was declared.
        alpha: significance level.
        are_equal: True if the system has the value of the baseline everywhere, so that there is nothing to test.

    Example:
        >>> decide_verdict(0.02, p=0.01, p_equivalence=None, alpha=0.05)
        'better'
    """
    if difference is None:
        return "not compared"
    if are_equal:
        return "all values are equal"
    if p is not None and p < alpha and difference:
        return "better" if difference > 0 else "worse"
    return "equivalent" if p_equivalence is not None and p_equivalence < alpha else "undecided"
