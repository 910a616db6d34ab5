"""Variation between seeds, pooled over the comparisons of a family.

With three seeds, the mean square of the seeds has two degrees of freedom, and a test pays for it. The comparisons of a
family by one metric, on the same queries with the same seeds, have it in common how much seeds vary in relation to the
rest. So the ratio F = MS_seed / MS_residual is averaged over them. A comparison never counts as less variable than its
own seeds say: where its own ratio is larger, that is used.

All functions take the mean squares of `two_way.TwoWayAnova`, so simulations need no scores.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.stats.estimate import Estimate
from analysis.stats.two_way import MIN_SEED_SHARE, ROUNDING, TwoWayAnova, combine_mean_squares
from trainables.utils.arrays import Floats

Pair = tuple[str, str]
MAX_SEEDS = 6
"""Largest number of seeds that is pooled. With more, a comparison's own seeds say enough."""
_ONE_IN_COMMON, _ONE_BEGINNING = 2 / 3, 0.9
"""Correlations that two comparisons with one system in common are taken to have: in general, and if the other two
systems share the beginning of their training.
"""
_VARIES_MORE = 0.99
"""Quantile of the F distribution above which a comparison's seeds vary more than those of the others."""


@dataclass(frozen=True)
class SeedPool:
    """Variation between seeds of one comparison, pooled with that of others.

    Attributes:
        comparisons: number of comparisons that were pooled.
        df: degrees of freedom of their mean ratio.
        mean_ratio: mean of their ratios MS_seed / MS_residual.
        ratio: ratio of this comparison. The test uses it where it is above the mean.
        varies_more: True if the ratio is above the .99 quantile of what the others make likely.
    """

    comparisons: int
    df: float
    mean_ratio: float
    ratio: float
    varies_more: bool


def is_poolable(anova: TwoWayAnova, max_seeds: float = MAX_SEEDS) -> bool:
    """Return whether a comparison's mean squares can be pooled with others.

    There must be two to `max_seeds` seeds, at least as many queries, and some residual variation.
    """
    size = anova.mean**2 + anova.ms_seed + anova.ms_query
    return 2 <= anova.seeds <= min(max_seeds, anova.queries) and anova.ms_residual > ROUNDING**2 * size


def compute_ratio(anova: TwoWayAnova) -> float:
    """Return MS_seed / MS_residual, which is 1 in expectation if seeds do not matter; at least .01."""
    return max(anova.ms_seed / anova.ms_residual, MIN_SEED_SHARE)


def compute_pooled_df(
    pairs: Sequence[Pair], seeds: int, queries: int, shared_beginnings: Collection[Pair] = ()
) -> float:
    """Return the degrees of freedom of a mean ratio: (S - 1) m^2 / sum of r^2, at most Q - 1.

    Comparisons with a common baseline are correlated, so m of them say less than m independent ones. r is 1
    for the same two systems in any order, 2/3 for one system in common, and 0 for none. With one system in common, it
    is .9 if the other two share the beginning of their training.

    Args:
        pairs: system and baseline of each comparison.
        seeds: number of seeds.
        queries: number of queries.
        shared_beginnings: pairs of systems that share the beginning of their training, in any order.

    Example:
        >>> [round(compute_pooled_df([(f"new {n}", "BERT") for n in range(m)], 3, 1000), 4) for m in (1, 2, 5, 10)]
        [2.0, 2.7692, 3.6, 4.0]
        >>> round(compute_pooled_df([("LS", "BERT"), ("T-LS", "BERT")], 3, 1000, [("LS", "T-LS")]), 4)
        2.2099
    """
    related = {frozenset(pair) for pair in shared_beginnings}
    correlations = np.array([[_correlate(one, other, related) for other in pairs] for one in pairs])
    return min((seeds - 1) * len(pairs) ** 2 / float((correlations**2).sum()), queries - 1)


def pool_seeds(
    anovas: Sequence[TwoWayAnova], pairs: Sequence[Pair], shared_beginnings: Collection[Pair] = ()
) -> list[tuple[Estimate, SeedPool]]:
    """Estimate each mean for new seeds and new queries, with the variation between seeds pooled over all.

    As `two_way.two_way_estimate`, with MS_residual times the larger of the comparison's ratio and the mean ratio in the
    place of MS_seed, and the degrees of freedom of `compute_pooled_df` in the place of S - 1. A single comparison keeps
    its own estimate.

    It supposes that seeds matter alike in the comparisons. If the seeds of one system vary 25 times as much as the
    others', its comparison rejects .088 of true hypotheses at .05 (three seeds, five comparisons, simulated). Effects
    that all variants share and the baseline lacks make that up to .098.

    Args:
        anovas: mean squares of each comparison, poolable by `is_poolable`, with the same numbers of seeds and queries.
        pairs: system and baseline of each comparison.
        shared_beginnings: see `compute_pooled_df`.

    Returns:
        Estimate and pool of each comparison, in their order.

    Example:
        >>> anovas = [TwoWayAnova(3, 50, 0.1, ms_seed, 1.5, 0.5) for ms_seed in (0.5, 1.5)]
        >>> (first, pool), (second, _) = pool_seeds(anovas, [("LS", "BERT"), ("T-LS", "BERT")])
        >>> pool.mean_ratio, round(pool.df, 4), round(first.error**2 * 150, 4), round(second.error**2 * 150, 4)
        (2.0, 2.7692, 2.0, 2.5)
    """
    seeds, queries = anovas[0].seeds, anovas[0].queries
    ratios = np.array([compute_ratio(anova) for anova in anovas])
    mean, df = float(ratios.mean()), compute_pooled_df(pairs, seeds, queries, shared_beginnings)

    def varies_more(index: int) -> bool:
        others = [*pairs[:index], *pairs[index + 1 :]]
        return _varies_more(index, ratios, seeds, compute_pooled_df(others, seeds, queries, shared_beginnings))

    return [
        (
            replace_ratio(anova, max(float(ratio), mean), df),
            SeedPool(len(anovas), df, mean, float(ratio), len(anovas) > 1 and varies_more(index)),
        )
        for index, (anova, ratio) in enumerate(zip(anovas, ratios, strict=True))
    ]


def group_comparable(
    anovas: Sequence[TwoWayAnova | None], metrics: Sequence[str], max_seeds: float = MAX_SEEDS
) -> list[dict[int, TwoWayAnova]]:
    """Group the comparisons that can be pooled: by one metric, with as many seeds and queries.

    Args:
        anovas: mean squares of each comparison of a family. None where it cannot be pooled: it is incomplete, a
            correlation, or one system is the same for all seeds.
        metrics: metric of each comparison.
        max_seeds: largest number of seeds.

    Returns:
        Groups of two or more: mean squares by place.
    """
    groups: dict[tuple[str, int, int], dict[int, TwoWayAnova]] = {}
    for place, (anova, metric) in enumerate(zip(anovas, metrics, strict=True)):
        if anova is not None and is_poolable(anova, max_seeds):
            groups.setdefault((metric, anova.seeds, anova.queries), {})[place] = anova
    return [group for group in groups.values() if len(group) > 1]


def pool_family(
    anovas: Sequence[TwoWayAnova | None],
    pairs: Sequence[Pair],
    metrics: Sequence[str],
    shared_beginnings: Collection[Pair] = (),
) -> dict[int, tuple[Estimate, SeedPool]]:
    """Return estimate and pool of every comparison of a family that can be pooled, by its place."""
    found: dict[int, tuple[Estimate, SeedPool]] = {}
    for group in group_comparable(anovas, metrics):
        own = [pairs[place] for place in group]
        found |= zip(group, pool_seeds([*group.values()], own, shared_beginnings), strict=True)
    return found


def average_ratios(
    anovas: Sequence[TwoWayAnova | None], metrics: Sequence[str], is_pooled: bool = False
) -> dict[int, float]:
    """Return the mean ratio that is behind the minimum detectable effect of a comparison, by its place in the family.

    A mean over comparisons is less at the mercy of a few seeds than a comparison's own ratio. It says what a comparison
    can find, and decides no test, so the number of seeds is not limited.

    Args:
        anovas: mean squares of each comparison, see `group_comparable`.
        metrics: metric of each comparison.
        is_pooled: True if the test pools seeds. Its ratios are never below the mean, so they are larger on average.

    Returns:
        Comparisons with seeds that cannot be compared with those of another one are absent.
    """
    means: dict[int, float] = {}
    for group in group_comparable(anovas, metrics, math.inf):
        ratios = np.array([compute_ratio(anova) for anova in group.values()])
        if is_pooled and all(map(is_poolable, group.values())):
            ratios = np.maximum(ratios, ratios.mean())
        means |= dict.fromkeys(group, float(ratios.mean()))
    return means


def replace_ratio(anova: TwoWayAnova, ratio: float, df: float) -> Estimate:
    """Return the two-way estimate with another ratio MS_seed / MS_residual, which has `df` degrees of freedom.

    Example:
        >>> anova = TwoWayAnova(3, 50, 0.1, ms_seed=0.2, ms_query=1.5, ms_residual=0.5)
        >>> replace_ratio(anova, ratio=2.0, df=3.4).df
        3.4
    """
    more = max(anova.ms_query - anova.ms_residual, 0.0)
    levels = anova.seeds, anova.queries
    return combine_mean_squares(anova.mean, anova.ms_residual * ratio, more, levels)._replace(df=df)


def _correlate(one: Pair, other: Pair, related: Collection[frozenset[str]]) -> float:
    common, differing = {*one} & {*other}, frozenset({*one} ^ {*other})
    if len(common) == 1 and differing in related:
        return _ONE_BEGINNING
    return (0.0, _ONE_IN_COMMON, 1.0)[len(common)]


def _varies_more(index: int, ratios: Floats, seeds: int, df: float) -> bool:
    """Return whether a ratio is larger than the others make likely; their mean has `df` degrees of freedom."""
    from scipy import stats

    others = np.delete(ratios, index)
    return bool(ratios[index] / others.mean() > stats.f.ppf(_VARIES_MORE, seeds - 1, df))
