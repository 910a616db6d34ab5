"""Several comparisons at once: p-values and intervals corrected for their number.

Bonferroni, Holm (1979) and Benjamini and Hochberg (1995) are statsmodels'. Max-T (Westfall and Young 1993, single step)
is made here, because it needs the data: it knows how the comparisons hang together, so where all are made with one
baseline it asks for less than Bonferroni.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from trainables.utils.arrays import Floats
from trainables.utils.random import make_generator

FROM_P = {"bonferroni": "bonferroni", "holm": "holm", "bh": "fdr_bh"}
"""Name of a correction that needs the p-values alone -> its name in statsmodels."""
CORRECTIONS = (*FROM_P, "maxt")
PERMUTATIONS = 10_000
_BLOCK = 2**24
"""Signs drawn at once."""


def adjust_p_values(p: Sequence[float | None], correction: str) -> list[float | None]:
    """p-values of one family, corrected for their number.

    A comparison that could not be made (None) stays None but counts, as if its p were 1: what was declared is what is
    corrected for.

    Raises:
        ValueError: for a correction that is not of FROM_P.
    """
    if correction not in FROM_P:
        raise ValueError(f"unknown correction {correction!r}; expected one of {', '.join(FROM_P)}")
    if not p:
        return []
    from statsmodels.stats.multitest import multipletests

    raised = multipletests([1.0 if value is None else value for value in p], method=FROM_P[correction])[1]
    return [None if value is None else float(new) for value, new in zip(p, raised, strict=True)]


@dataclass(frozen=True)
class MaxT:
    """The largest |t| of a family where no comparison differs, as permutations of the data have it.

    Attributes:
        maxima: in ascending order, one a permutation.
        df: of each t.
        exact: whether these are all permutations there are.
    """

    maxima: Floats
    df: int
    exact: bool

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that can come out."""
        return self._exceedance_share(len(self.maxima))

    def adjust(self, p: Sequence[float | None]) -> list[float | None]:
        """p-values of one family, of whatever test: each is taken as the t that would have had it.

        None gets smaller, as it might where there are few permutations.
        """
        from scipy import stats

        known = np.array([1.0 if value is None else value for value in p])
        reached = np.searchsorted(self.maxima, stats.t.isf(known / 2, self.df) * (1 - 1e-9))
        return [
            None if value is None else max(value, self._exceedance_share(int(below)))
            for value, below in zip(p, reached, strict=True)
        ]

    def per_comparison_level(self, alpha: float) -> float:
        """The level of a single comparison that gives the family this level, for simultaneous intervals; 0 where so few
        permutations cannot reach it."""
        from scipy import stats

        if self.smallest_p > alpha:
            return 0.0
        count = len(self.maxima) + (not self.exact)  # as `_share` counts, lest interval and p-value disagree
        place = int(np.ceil(round((1 - alpha) * count, 9))) - 1
        return min(alpha, float(2 * stats.t.sf(self.maxima[max(place, 0)], self.df)))

    def _exceedance_share(self, below: int) -> float:
        """Of the permutations whose maximum is not below.

        Where all were made, the data is one of them, and so is its mirror image; else the data is counted in.
        """
        count, own = len(self.maxima), 0 if self.exact else 1
        return max(count - below + own, 1 + self.exact) / (count + own)


def max_t(
    units: Floats,
    shares: Sequence[float] | None = None,
    missing: int = 0,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> MaxT:
    """Permutes a family: where nothing differs, every query may as well have favoured the other side.

    How the comparisons of a family hang together shows in the queries, of which there are many, and not in the few
    seeds. So of a comparison that is also about new seeds only the queries' share of its variance is permuted; the rest
    is drawn as if it had nothing to do with that of the others, which is the worst case (Sidak 1967).

    Args:
        units: (comparisons, n) differences of each query, averaged over seeds, or of each seed where there are no
            queries; what is permuted is the sign of all comparisons of a unit together.
        shares: of the variance of each comparison, what is permuted; none: all.
        missing: further comparisons of the family that could not be made; they count as unrelated ones.
        permutations: drawn where there are more, or where not all is permuted.
        seed: names the draws.
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
            own = make_generator(seed, "max-t, unrelated", step).standard_normal(t.shape)
            t = np.where(share == 1, t, np.sqrt(share) * t + np.sqrt(1 - share) * own)
        maxima.append(np.abs(t).max(axis=0))
    return MaxT(np.sort(np.concatenate(maxima)), count - 1, exact)


def _draw_signs(count: int, permutations: int, exact: bool, seed: int) -> Iterator[Floats]:
    """Columns of +1 and -1, a block at a time: all there are, or as many as asked for."""
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
