"""Comparisons of a group-sequential study, which tests after each group of seeds and stops once all is decided.

If every look at the data tested at the level alpha, the study would reject more often than alpha. So each look gets a
share of alpha: the study spends alpha t^1.5 up to the share t of all seeds, a power function (Kim and DeMets 1987). By
Bonferroni's inequality this is safe for any dependence between the looks. Boundaries that use it (Lan and DeMets 1983)
are for z-tests; as levels of t-tests on few seeds they reject more often than alpha, and gain little.

A comparison stays decided. The p-value over the looks is the smallest of (p of a look / share of the look): the
smallest alpha at which some look so far rejects. The interval over the looks is what the intervals of all looks have in
common. Both hold whenever the study stops.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, LookResult, compare_family
from analysis.stats.equivalence import decide_verdict
from analysis.stats.multiple_testing import adjust_by_each_correction
from trainables.metrics import LOWER_IS_BETTER

_POWER = 1.5


def get_alpha_shares(looks: Sequence[int]) -> tuple[float, ...]:
    """Return the share of alpha that each look may spend.

    Args:
        looks: number of seeds at each look, ascending; the last one is the maximum.

    Example:
        >>> [round(share, 3) for share in get_alpha_shares((4, 8, 12))]
        [0.192, 0.352, 0.456]
    """
    spent = [0.0, *((seeds / looks[-1]) ** _POWER for seeds in looks)]
    return tuple(later - earlier for earlier, later in pairwise(spent))


def compare_at_interim_test(
    family: ComparisonFamily, look: int, looks: Sequence[int], settings: ComparisonSettings
) -> list[Comparison]:
    """Compare every pair of a family at one look, at the level of that look.

    Args:
        family: the family, with the differences of the seeds up to the look.
        look: index of the look, from 0.
        looks: number of seeds at each look of the plan.
        settings: level over all looks, correction, margin.
    """
    return compare_family(family, replace(settings, alpha=settings.alpha * get_alpha_shares(looks)[look]))


def combine_interim_tests(
    by_look: Sequence[Sequence[Comparison]], looks: Sequence[int], settings: ComparisonSettings
) -> list[Comparison]:
    """Combine the comparisons of a family at all looks so far; they keep their order.

    Numbers that are not about a test, such as the difference, are those of the last look so far.

    Args:
        by_look: the family's comparisons at each look so far, as `compare_at_interim_test` returns them.
        looks: number of seeds at each look of the plan, also at those to come.
        settings: level over all looks, correction, margin.

    Example:
        >>> import numpy as np
        >>> d = np.array([[0.2, 0.1, 0.3, 0.2], [0.1, 0.2, 0.2, 0.3], [0.2, 0.2, 0.1, 0.2], [0.1, 0.2, 0.3, 0.2]])
        >>> families = [ComparisonFamily("f", "toy", "R10@1", [("LS", "BERT", d[:seeds])]) for seeds in (2, 4)]
        >>> settings = ComparisonSettings(alpha=0.05)
        >>> by_look = [compare_at_interim_test(family, look, (2, 4), settings) for look, family in enumerate(families)]
        >>> (comparison,) = combine_interim_tests(by_look, (2, 4), settings)
        >>> comparison.verdict, [(look.seeds, round(look.p, 4)) for look in comparison.looks]
        ('better', [(2, 0.0092), (4, 0.0001)])
    """
    shares = get_alpha_shares(looks)[: len(by_look)]
    histories = [_list_looks(own, looks, shares) for own in zip(*by_look, strict=True)]
    p_values = [min((look.p_over_looks for look in history), default=None) for history in histories]
    over_queries = [
        _min_over_looks([test.p if (test := c.targets["queries"]) else None for c in own], shares)
        for own in zip(*by_look, strict=True)
    ]
    corrected = zip(adjust_by_each_correction(p_values), adjust_by_each_correction(over_queries), strict=True)
    return [
        _combine_interim_tests(own, history, *adjusted, shares, settings)
        for own, history, adjusted in zip(zip(*by_look, strict=True), histories, corrected, strict=True)
    ]


def _list_looks(own: Sequence[Comparison], looks: Sequence[int], shares: Sequence[float]) -> tuple[LookResult, ...]:
    """Return the tests of one comparison at each look; looks at which it could not be made are left out."""
    results = []
    for c, seeds, share in zip(own, looks, shares, strict=False):
        test = c.targets[c.target] if c.target else None
        if test is not None and c.difference is not None:
            results.append(LookResult(seeds, share, c.difference, test.p, min(1.0, test.p / share), c.interval))
    return tuple(results)


def _min_over_looks(p_values: Sequence[float | None], shares: Sequence[float]) -> float | None:
    known = [min(1.0, p / share) for p, share in zip(p_values, shares, strict=True) if p is not None]
    return min(known, default=None)


def _combine_interim_tests(
    own: Sequence[Comparison],
    history: tuple[LookResult, ...],
    adjusted: dict[str, float | None],
    adjusted_queries: dict[str, float | None],
    shares: Sequence[float],
    settings: ComparisonSettings,
) -> Comparison:
    last, p_equivalence = own[-1], _min_over_looks([c.equivalence_p for c in own], shares)
    sign = -1 if last.metric in LOWER_IS_BETTER or settings.less_is_better else 1
    clearest = min(history, key=lambda look: look.p_over_looks, default=None)
    gain = None if clearest is None or last.difference is None else sign * clearest.difference
    return replace(
        last,
        adjusted=adjusted,
        adjusted_queries=adjusted_queries,
        interval=_intersect([look.interval for look in history if look.interval], clearest),
        equivalence_p=p_equivalence,
        verdict=decide_verdict(
            gain,
            adjusted[settings.correction],
            p_equivalence,
            settings.alpha,
            last.verdict == "all values are equal",
        ),
        looks=history,
    )


def _intersect(intervals: Sequence[tuple[float, float]], clearest: LookResult | None) -> tuple[float, float] | None:
    """Return what intervals have in common; if they have nothing in common, that of the look with the smallest p."""
    if not intervals or clearest is None:
        return None
    low, high = max(low for low, _ in intervals), min(high for _, high in intervals)
    return (low, high) if low <= high else clearest.interval
