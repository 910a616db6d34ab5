"""Whether two systems are alike: two one-sided tests against a margin (Schuirmann 1987), and the verdict in words."""

from typing import Literal

from analysis.stats.estimate import Estimate

Verdict = Literal["better", "worse", "equivalent", "undecided"]


def tost(estimate: Estimate, margin: float) -> float:
    """p-value of the hypothesis that the true difference is `margin` or more, in either direction.

    Raises:
        ValueError: for a margin that is not above 0.
    """
    if not margin > 0:
        raise ValueError(f"the margin must be above 0 but is {margin}")
    return estimate.one_sided_p(margin - abs(estimate.mean))


def decide_verdict(difference: float | None, p: float | None, p_equivalence: float | None, alpha: float) -> Verdict:
    """What a comparison says, both p-values being corrected for its family.

    Args:
        difference: system minus baseline; None: not compared.
        p: of no difference.
        alike: of `tost`; None: no margin was stated.
        alpha: level.
    """
    if difference is not None and p is not None and p < alpha and difference:
        return "better" if difference > 0 else "worse"
    return "equivalent" if p_equivalence is not None and p_equivalence < alpha else "undecided"
