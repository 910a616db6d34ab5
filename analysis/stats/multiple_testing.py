"""Corrections of p-values and intervals for the number of comparisons.

Bonferroni, Holm (1979), and Benjamini and Hochberg (1995) need only the p-values. Max-T (Westfall and Young 1993,
single step) needs the raw differences. It accounts for the correlation between comparisons and is therefore less
conservative than Bonferroni when all comparisons share a baseline.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trainables.utils.arrays import Floats
from trainables.utils.random import make_generator

FROM_P = ("bonferroni", "holm", "bh")
"""Corrections that need only the p-values."""
CORRECTIONS = (*FROM_P, "maxt")
PERMUTATIONS = 10_000
_BLOCK = 2**24
"""Number of signs that are drawn at once."""


def adjust_p_values(p: Sequence[float | None], correction: str) -> list[float | None]:
    """Return the p-values of one family, corrected for their number.

    A comparison that could not be made (None) stays None but counts as if its p were 1: the correction is for what was
    declared.

    Args:
        p: p-value of each comparison, or None.
        correction: a key of FROM_P: bonferroni, holm or bh.

    Raises:
        ValueError: if the correction is not in FROM_P.

    Example:
        >>> adjust_p_values([0.01, 0.02, None], "bonferroni")
        [0.03, 0.06, None]
    """
    if correction not in FROM_P:
        raise ValueError(f"unknown correction {correction!r}; expected one of {', '.join(FROM_P)}")
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


@dataclass(frozen=True)
class MaxT:
    """The permutation distribution of the largest |t| of a family if no systems differ.

    Attributes:
        maxima: the largest |t| of each permutation, in ascending order.
        df: degrees of freedom of each t.
        exact: True if these are all possible permutations.
    """

    maxima: Floats
    df: int
    exact: bool

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that can result."""
        return self._exceedance_share(len(self.maxima))

    def adjust(self, p: Sequence[float | None]) -> list[float | None]:
        """Return corrected p-values of one family of tests, of any kind.

        Each p-value is converted to the t that would have produced it. No p-value gets smaller, as could otherwise
        happen with few permutations.
        """
        from scipy import stats

        known = np.array([1.0 if value is None else value for value in p])
        reached = np.searchsorted(self.maxima, stats.t.isf(known / 2, self.df) * (1 - 1e-9))
        return [
            None if value is None else max(value, self._exceedance_share(int(below)))
            for value, below in zip(p, reached, strict=True)
        ]

    def per_comparison_level(self, alpha: float) -> float:
        """Return the level of a single comparison that gives the family the level `alpha`.

        It is used for simultaneous intervals. It is 0 if there are too few permutations to reach `alpha`.
        """
        from scipy import stats

        if self.smallest_p > alpha:
            return 0.0
        count = len(self.maxima) + (not self.exact)  # as in `_exceedance_share`: interval and p-value must agree
        index = int(np.ceil(round((1 - alpha) * count, 9))) - 1
        return min(alpha, float(2 * stats.t.sf(self.maxima[max(index, 0)], self.df)))

    def _exceedance_share(self, below: int) -> float:
        """Return the share of permutations with a maximum that is not below.

        If all permutations were made, the data is one of them, and its mirror image another. Otherwise the data is
        added.
        """
        count, added = len(self.maxima), 0 if self.exact else 1
        return max(count - below + added, 1 + self.exact) / (count + added)


def max_t(
    units: Floats,
    shares: Sequence[float] | None = None,
    missing: int = 0,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> MaxT:
    """Permute the signs of a family's differences and return the distribution of its largest |t|.

    If nothing differs, every query could as well favour the other side. The correlation between comparisons shows in
    the queries, which are many, not in the few seeds. So if a comparison also generalises to new seeds, only the
    queries' share of its variance is permuted. The rest is drawn independently of the other comparisons, which is the
    worst case (Sidak 1967).

    Args:
        units: (comparisons, n) differences of each query, averaged over seeds; without queries, of each seed. The
            signs of all comparisons of a unit change together.
        shares: share of the variance of each comparison that is permuted. If None, all of it.
        missing: number of further comparisons of the family that could not be made. They count as unrelated.
        permutations: number of permutations to draw if there are more, or if not all of the variance is permuted.
        seed: seed of the draws.

    Example:
        >>> import numpy as np
        >>> units = np.array([[0.2, 0.1, 0.3, 0.2, 0.1], [0.1, -0.1, 0.2, 0.0, 0.1]])
        >>> family = max_t(units)
        >>> family.exact, len(family.maxima), family.smallest_p
        (True, 32, 0.0625)
    """
    count = units.shape[1]
    share = np.append(np.ones(len(units)) if shares is None else np.asarray(shares), np.zeros(missing))[:, None]
    exact = bool((share == 1).all()) and count < 63 and 2**count <= permutations
    squares = (units**2).sum(axis=1)[:, None]
    maxima = []
    for step, signs in enumerate(_draw_signs(count, permutations, exact, seed)):
        mean = units @ signs / count
        spread = np.maximum(squares / count - mean**2, 0) / (count - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.nan_to_num(mean / np.sqrt(spread), nan=0.0, posinf=np.inf, neginf=-np.inf)
        if not exact:
            t = np.vstack([t, np.zeros((missing, t.shape[1]))])
            unrelated = make_generator(seed, "max-t, unrelated", step).standard_normal(t.shape)
            t = np.where(share == 1, t, np.sqrt(share) * t + np.sqrt(1 - share) * unrelated)
        maxima.append(np.abs(t).max(axis=0))
    return MaxT(np.sort(np.concatenate(maxima)), count - 1, exact)


def max_t_of_largest(
    known: Sequence[tuple[Floats, float]], comparisons: int, permutations: int = PERMUTATIONS, seed: int = 0
) -> MaxT | None:
    """Return max-T of the comparisons with the most units; None if there are fewer than two units.

    In a family over sets of pairs, only the comparisons of the largest set are permuted. The others are treated as
    unrelated to them, which is the worst case.

    Args:
        known: the units and the permuted share of each comparison that could be made, see `max_t`.
        comparisons: number of comparisons of the family.
        permutations: number of permutations.
        seed: seed of the draws.
    """
    most = max((len(units) for units, _ in known), default=0)
    largest = [(units, share) for units, share in known if len(units) == most]
    if most < 2:
        return None
    units, shares = [values for values, _ in largest], [share for _, share in largest]
    return max_t(np.stack(units), shares, comparisons - len(largest), permutations, seed)


def _draw_signs(count: int, permutations: int, exact: bool, seed: int) -> Iterator[Floats]:
    """Yield blocks of columns of +1 and -1: all possible columns, or as many as requested."""
    if exact:
        every = np.arange(2**count)
        yield np.where(every >> np.arange(count)[:, None] & 1, 1.0, -1.0).astype(np.float64)
        return
    width = max(1, min(permutations, _BLOCK // count))
    for step, start in enumerate(range(0, permutations, width)):
        drawn = min(width, permutations - start)
        bits = make_generator(seed, "max-t", step).integers(0, 256, (count, -(-drawn // 8)), dtype=np.uint8)
        signs: Floats = np.unpackbits(bits, axis=1, count=drawn) * np.float64(2) - 1
        yield signs
