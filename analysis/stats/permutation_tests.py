"""Tests of paired differences that suppose no distribution: sign-flip (Fisher 1935) and Wilcoxon (1945).

Their p-values come in steps: n differences have 2^n signs, so none is below 2 / 2^n. Five seeds reach .0625 at best,
and eight .0078: where that cannot be below the level, the test is refused instead of made in vain.
"""

from collections.abc import Callable

import numpy as np

from trainables.utils.arrays import Floats
from trainables.utils.random import make_generator

RESAMPLES = 10_000
_DECIMALS = 8
"""Of a mean, as a share of the largest difference."""


def smallest_p(count: int, name: str = "wilcoxon") -> float:
    """The smallest two-sided p-value that `count` differences can have; of drawn signs no less than the draws allow."""
    least = min(1.0, 2.0 ** (1 - count))
    return max(least, 2 / (RESAMPLES + 1)) if name == "sign-flip" and 2.0**count > RESAMPLES else least


def sign_flip(values: Floats, seed: int = 0) -> float:
    """Two-sided p-value of the mean: exact where there are no more than RESAMPLES signs, drawn ones otherwise.

    Means that differ by rounding alone tie.

    Args:
        values: (n,) differences, of seeds or of queries.
        seed: names the draws.
    """
    from scipy import stats

    largest = np.abs(values).max() or 1.0
    found = stats.permutation_test(
        (values / largest,),
        lambda signed, axis: np.round(signed.mean(axis=axis), _DECIMALS),
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, 2**22 // len(values)),
        rng=make_generator(seed, "sign-flip", 0),
    )
    return float(found.pvalue)


def wilcoxon(values: Floats, seed: int = 0) -> float:
    """Two-sided p-value of the signed ranks; exact where there are few differences and no ties.

    Differences of zero are ranked and then left out (Pratt 1959). `seed` is not used: nothing is drawn.
    """
    from scipy import stats

    return float(stats.wilcoxon(values, zero_method="pratt").pvalue) if np.any(values) else 1.0


TESTS: dict[str, Callable[[Floats, int], float]] = {"sign-flip": sign_flip, "wilcoxon": wilcoxon}
"""Name -> (differences, seed) -> p-value."""


def explain_refusal(name: str, count: int, level: float) -> str | None:
    """Why a test would be in vain: None where it would not.

    Args:
        name: a key of TESTS.
        count: differences.
        level: that one comparison has to reach.
    """
    if smallest_p(count, name) <= level:
        return None
    needed = next((n for n in range(count, 99) if smallest_p(n, name) <= level), None)
    instead = f"at least {needed} for {level:.4g}" if needed else f"{level:.4g} is out of its reach"
    return f"{name} over {count} cannot have a p-value below {smallest_p(count, name):.4g}; {instead}"
