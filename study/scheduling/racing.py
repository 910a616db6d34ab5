"""Racing: a configuration that is significantly worse than the best one gets no further seeds.

Seeds are started in rounds. After each round, every configuration is compared with the best one over the (seed, query)
pairs that both have. The test is one-sided and treats both seeds and queries as samples
(`analysis.stats.two_way.satterthwaite_estimate`). Its level is divided by the number of interim tests and by the number
of competitors that might have been the best (Bonferroni), for repeated tests and for a best configuration that was only
lucky. The test is somewhat liberal if both seeds and the interaction of query and configuration vary much:
`benchmarks/race.py` measures the share of equally good configurations that is pruned.

The method follows Maron and Moore (1994), "Hoeffding races", and Birattari et al. (2002), "A racing algorithm for
configuring metaheuristics", with a test for two crossed samples in place of theirs.
"""

from collections.abc import Iterable, Mapping

from trainables.utils.arrays import Floats

LEVEL = 0.05
"""Nominal share of equally good configurations that racing prunes, over all interim tests."""
FIRST_ROUND_SEEDS = 3
"""Seeds of the first round.

With two seeds, the estimated variance is so imprecise that racing would prune twice as many equally good
configurations.
"""


def count_interim_tests(seeds: int) -> int:
    """Return the number of interim tests of a race: one after each round except the last.

    Example:
        >>> count_interim_tests(5), count_interim_tests(3)
        (2, 0)
    """
    return max(0, seeds - FIRST_ROUND_SEEDS)


def is_worse(values: Floats, best: Floats, seeds: int, n_competitors: int) -> bool:
    """Return whether a configuration is significantly worse than the best one.

    Args:
        values: (seeds so far, queries) the metric of the configuration; higher is better.
        best: (seeds so far, queries) the metric of the best configuration, for the same seeds and queries.
        seeds: seeds of a complete configuration; determines the number of interim tests.
        n_competitors: number of other configurations that might have been the best.

    Example:
        >>> import numpy as np
        >>> best = np.random.default_rng(0).normal(size=(3, 50))
        >>> noise = np.random.default_rng(1).normal(scale=0.1, size=(3, 50))
        >>> is_worse(best - 1 + noise, best, seeds=5, n_competitors=7)
        True
        >>> is_worse(best + noise, best, seeds=5, n_competitors=7)
        False
    """
    from analysis.stats.two_way import satterthwaite_estimate, two_way_anova

    difference = values - best
    if difference.mean() >= 0:
        return False
    return satterthwaite_estimate(two_way_anova(difference)).test().p / 2 < LEVEL / (
        count_interim_tests(seeds) * max(1, n_competitors)
    )


def find_pruned(values: Mapping[str, Floats], candidates: Iterable[str], seeds: int, n_competitors: int) -> set[str]:
    """Return the candidates that are significantly worse than the configuration with the best mean.

    Args:
        values: by configuration, (seeds so far, queries) its metric, for the same seeds and queries; higher is better.
        candidates: configurations that may be pruned. The others can only be the best one.
        seeds: seeds of a complete configuration.
        n_competitors: number of other configurations with which a configuration might have been compared.

    Example:
        >>> import numpy as np
        >>> good = np.random.default_rng(0).normal(size=(3, 50))
        >>> noise = np.random.default_rng(1).normal(scale=0.1, size=(3, 50))
        >>> find_pruned({"good": good, "bad": good - 1 + noise}, ["good", "bad"], seeds=5, n_competitors=1)
        {'bad'}
    """
    if not values:
        return set()
    best = max(values, key=lambda key: float(values[key].mean()))
    return {
        key
        for key in candidates
        if key in values and key != best and is_worse(values[key], values[best], seeds, n_competitors)
    }
