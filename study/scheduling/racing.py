"""Racing: a configuration that is significantly behind the best gets no more seeds.

Seeds are started in rounds. After each, every configuration is compared with the best one over the (seed, query) pairs
that both have, by a test that takes seeds and queries both as samples (analysis.stats.two_way.floored), one-sided.
The level is divided by the number of looks and by the number of configurations that might have led (Bonferroni), so
that looking often, and comparing with a leader picked for its luck, drop no more than LEVEL of those that are as good.
After Maron and Moore (1994), "Hoeffding races", and Birattari et al. (2002), "A racing algorithm for configuring
metaheuristics", with a test for two crossed samples in place of theirs.
"""

from collections.abc import Iterable, Mapping

from trainables.utils.arrays import Floats

LEVEL = 0.05
FIRST_ROUND_SEEDS = 3
"""Seeds of the first round. Of two, the spread is known so badly that twice as many equal ones would be dropped."""


def count_interim_tests(seeds: int) -> int:
    """How often configurations of so many seeds are compared: after each round but the last."""
    return max(0, seeds - FIRST_ROUND_SEEDS)


def is_worse(values: Floats, best: Floats, seeds: int, n_competitors: int, level: float = LEVEL) -> bool:
    """Whether a configuration is significantly worse than the best.

    Args:
        values: (seeds so far, queries) its metric.
        best: the same of the best configuration, for the same seeds and queries.
        seeds: of a whole configuration; fixes the number of looks.
        rivals: other configurations that might have been the best.
        level: share of configurations as good as the best that may be dropped, over all looks.
    """
    from analysis.stats.two_way import satterthwaite_estimate, two_way_anova

    difference = values - best
    if difference.mean() >= 0:
        return False
    return satterthwaite_estimate(two_way_anova(difference)).test().p / 2 < level / (
        count_interim_tests(seeds) * max(1, n_competitors)
    )


def find_pruned(values: Mapping[str, Floats], candidates: Iterable[str], seeds: int, n_competitors: int) -> set[str]:
    """Which candidates are significantly behind the leader, the one with the best mean.

    Args:
        found: by configuration, (seeds so far, queries) its metric, for the same seeds and queries.
        candidates: configurations that may be dropped; others may only lead.
        seeds: of a whole configuration.
        rivals: other configurations that any one might have been compared with.
    """
    if not values:
        return set()
    leader = max(values, key=lambda key: float(values[key].mean()))
    return {
        key
        for key in candidates
        if key in values and key != leader and is_worse(values[key], values[leader], seeds, n_competitors)
    }
