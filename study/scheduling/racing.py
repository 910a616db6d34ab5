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
FIRST = 3
"""Seeds of the first round. Of two, the spread is known so badly that twice as many equal ones would be dropped."""


def looks(seeds: int) -> int:
    """How often configurations of so many seeds are compared: after each round but the last."""
    return max(0, seeds - FIRST)


def behind(values: Floats, best: Floats, seeds: int, rivals: int, level: float = LEVEL) -> bool:
    """Whether a configuration is significantly worse than the best.

    Args:
        values: (seeds so far, queries) its metric.
        best: the same of the best configuration, for the same seeds and queries.
        seeds: of a whole configuration; fixes the number of looks.
        rivals: other configurations that might have been the best.
        level: share of configurations as good as the best that may be dropped, over all looks.
    """
    from analysis.stats.two_way import floored, two_way

    difference = values - best
    if difference.mean() >= 0:
        return False
    return floored(two_way(difference)).test().p / 2 < level / (looks(seeds) * max(1, rivals))


def left_behind(found: Mapping[str, Floats], candidates: Iterable[str], seeds: int, rivals: int) -> set[str]:
    """Which candidates are significantly behind the leader, the one with the best mean.

    Args:
        found: by configuration, (seeds so far, queries) its metric, for the same seeds and queries.
        candidates: configurations that may be dropped; others may only lead.
        seeds: of a whole configuration.
        rivals: other configurations that any one might have been compared with.
    """
    if not found:
        return set()
    leader = max(found, key=lambda key: float(found[key].mean()))
    return {
        key for key in candidates if key in found and key != leader and behind(found[key], found[leader], seeds, rivals)
    }
