"""Distribution-free tests of paired differences: sign-flip (Fisher 1935) and Wilcoxon (1945).

Their p-values are discrete: n differences have 2^n signs, so no p-value is below 2 / 2^n. Five seeds reach .0625 at
best, and eight reach .0078.
"""

from collections.abc import Callable, Sequence

import numpy as np

from trainables.utils.arrays import Floats, round_off
from trainables.utils.random import make_generator

RESAMPLES = 10_000
_DECIMALS = 8
"""Number of decimals of a mean, as a share of the largest difference."""


def smallest_p(name: str, count: int) -> float:
    """Return the smallest two-sided p-value that a test of `count` differences can have.

    Where the signs are drawn, the number of draws limits it too.
    """
    return max(2.0 ** (1 - count), 2 / (RESAMPLES + 1) if name == "sign-flip" else 0.0)


def sign_flip(values: Floats, seed: int = 0) -> float:
    """Return the two-sided p-value of the mean under random signs.

    It is exact if there are at most RESAMPLES sign combinations; otherwise RESAMPLES are drawn. Means that differ only
    by rounding are ties.

    Args:
        values: (n,) differences, of seeds or of queries.
        seed: seed of the draws.

    Example:
        >>> import numpy as np
        >>> sign_flip(np.array([0.1, 0.2, 0.3, 0.1, 0.2]))
        0.0625
    """
    from scipy import stats

    largest = np.abs(values).max() or 1.0
    result = stats.permutation_test(
        (values / largest,),
        lambda signed, axis: np.round(signed.mean(axis=axis), _DECIMALS),
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, 2**22 // len(values)),
        rng=make_generator(seed, "sign-flip", 0),
    )
    return float(result.pvalue)


def wilcoxon(values: Floats, seed: int = 0) -> float:
    """Return the two-sided p-value of the signed ranks; exact with few differences and no ties.

    Differences of zero are ranked and then left out (Pratt 1959).

    Args:
        values: (n,) differences, of seeds or of queries.
        seed: not used, because nothing is drawn.

    Example:
        >>> import numpy as np
        >>> wilcoxon(np.array([0.1, 0.2, 0.3, 0.15, 0.25]))
        0.0625
    """
    from scipy import stats

    return float(stats.wilcoxon(values, zero_method="pratt").pvalue) if np.any(values) else 1.0


TESTS: dict[str, Callable[[Floats, int], float]] = {"sign-flip": sign_flip, "wilcoxon": wilcoxon}
"""Name -> (differences, seed) -> p-value."""


def run_tests(names: Sequence[str], d: Floats, seed: int) -> dict[str, float]:
    """Return the p-values of tests over seeds, or over queries if there is one seed.

    Args:
        names: keys of TESTS.
        d: (seeds, queries) differences.
        seed: seed of the draws.
    """
    values = round_off(d.mean(axis=1) if len(d) > 1 else d[0])
    return {name: TESTS[name](values, seed) for name in names}
