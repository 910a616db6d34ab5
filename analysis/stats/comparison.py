"""Comparison of a family of systems from paired differences: tests, corrections, intervals, verdicts."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from analysis.stats.equivalence import Verdict, decide_verdict, tost
from analysis.stats.estimate import Estimate, TestResult
from analysis.stats.multiple_testing import adjust_by_each_correction, adjust_p_values
from analysis.stats.paired_tests import estimate_all, estimate_each_seed
from analysis.stats.permutation_tests import run_tests
from analysis.stats.pooled import SeedPool, average_ratios, pool_family, replace_ratio
from analysis.stats.power import minimum_detectable_effect
from analysis.stats.two_way import TwoWayAnova, classical_estimate, two_way_anova
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats, round_off

Target = Literal["both", "queries", "seeds"]
SeedVariance = Literal["own", "pooled"]
_HEADLINES: tuple[Target, ...] = ("both", "queries", "seeds")
_SCOPES = {"queries": " (these runs)", "seeds": " (these queries)"}
"""What a verdict is limited to, by the target of its test."""
_DECIDED = ("better", "worse", "equivalent")
_NO_ESTIMATES: dict[str, Estimate | None] = dict.fromkeys(_HEADLINES)


def limit_verdict(verdict: str, target: Target | None) -> str:
    """Return a verdict with what it is limited to, if its test does not generalise to new queries and new seeds.

    Example:
        >>> limit_verdict("better", "queries"), limit_verdict("better", "both"), limit_verdict("undecided", "queries")
        ('better (these runs)', 'better', 'undecided')
    """
    return verdict + (_SCOPES.get(target or "", "") if verdict in _DECIDED else "")


@dataclass(frozen=True)
class ComparisonSettings:
    """Settings that decide the comparisons of a family.

    Attributes:
        alpha: significance level of the family.
        correction: name of the correction that decides, one of CORRECTIONS.
        margin: differences below it do not matter. If None, no comparison is called equivalent.
        tests: distribution-free tests to run in addition, keys of `permutation_tests.TESTS`.
        less_is_better: True if smaller values are better. Needed for a metric that LOWER_IS_BETTER does not list.
        seed: seed of the permutations of these tests.
        seeds: "own" to take the variation between seeds from each comparison alone, "pooled" to pool it over the family
            where that is possible, see `pooled.pool_seeds`. Choose before you see the scores.
    """

    alpha: float = 0.05
    correction: str = "bonferroni"
    margin: float | None = None
    tests: tuple[str, ...] = ()
    less_is_better: bool = False
    seed: int = 0
    seeds: SeedVariance = "own"


class WinTieLoss(NamedTuple):
    """Numbers of queries that the system wins, ties and loses, by the means over seeds.

    Without queries, seeds are counted instead.
    """

    wins: int
    ties: int
    losses: int

    @classmethod
    def from_differences(cls, units: Floats) -> "WinTieLoss":
        """Count the positive, zero and negative differences."""
        return cls(int((units > 0).sum()), int((units == 0).sum()), int((units < 0).sum()))


class LookResult(NamedTuple):
    """Test of one comparison at one look of a sequential study.

    Attributes:
        seeds: number of seeds so far.
        share: share of alpha that the look may spend.
        difference: mean of the system minus mean of the baseline.
        p: p-value of the headline test at this look, uncorrected.
        p_over_looks: p divided by the share, at most 1; the smallest one so far is valid over all looks.
        interval: confidence interval at the level of the look, simultaneous for the family.
    """

    seeds: int
    share: float
    difference: float
    p: float
    p_over_looks: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Comparison:
    """One comparison. Numbers are None where a side is incomplete.

    Attributes:
        family: name of the family that it is corrected with.
        task: task of the family.
        metric: metric of the difference.
        comparisons: number of comparisons in the family.
        difference: mean of the system minus mean of the baseline.
        target: population that the headline test generalises to: both, or what the data has.
        targets: result of each test that the data allows, uncorrected.
        classical: p-value of the published test for new seeds and new queries, see `two_way.classical_estimate`. None
            unless the target is both.
        adjusted: corrected p-values of the headline test, by correction.
        adjusted_queries: corrected p-values of the test over queries, by correction. With Bonferroni it is the test of
            Penha and Hauff (2021, Table 2), which says nothing about new seeds.
        interval: confidence interval of the difference, simultaneous for the family.
        each_seed: p-value of the test over queries for each seed alone.
        distribution_free: p-value of each distribution-free test, by name; over seeds, or over queries if there is one
            seed.
        wins_ties_losses: numbers of queries. None also for a correlation.
        equivalence_p: corrected p-value of the equivalence test. None if there is no margin.
        detectable: minimum detectable effect: the difference that the headline test finds with about 80 % power at the
            corrected level. The variation between seeds in it is that of the family's mean ratio, see
            `pooled.average_ratios`, where the seeds can be compared; the degrees of freedom are those of the test.
        verdict: better, worse, equivalent or undecided, for the population of `target`; "all values are equal" if the
            system and the baseline have the same value everywhere; not compared if a side is incomplete.
        split: split of the scores, if it is not the test split.
        outlying_seeds: `system` and `seed` of the two sides' runs that are far from the system's other seeds, and
            whether they are worse (`looks_collapsed`); see `analysis.checks.collapsed_seeds`.
        looks: tests at the looks of a sequential study; empty in any other. Corrected p-values, interval and verdict
            are then over the looks, see `analysis.stats.interim_tests`; the other numbers are those of the last look.
        estimate: estimate of the headline test. It is not in the JSON.
        unpooled: result of the headline test with this comparison's seeds alone, if they are pooled.
        pooled: how the variation between seeds was pooled. None if it is the comparison's own.
    """

    family: str
    task: str
    metric: str
    system: str
    baseline: str
    comparisons: int
    difference: float | None
    target: Target | None
    targets: dict[str, TestResult | None]
    classical: float | None
    adjusted: dict[str, float | None]
    adjusted_queries: dict[str, float | None]
    interval: tuple[float, float] | None
    each_seed: list[float]
    distribution_free: dict[str, float]
    wins_ties_losses: WinTieLoss | None
    equivalence_p: float | None
    detectable: float | None
    verdict: Verdict
    split: str | None = None
    outlying_seeds: Sequence[dict[str, Any]] = ()
    looks: tuple[LookResult, ...] = ()
    estimate: Estimate | None = None
    unpooled: TestResult | None = None
    pooled: SeedPool | None = None

    @property
    def p(self) -> float | None:
        """p-value that the corrections start from: that of the headline test, in a sequential study over the looks."""
        test = self.targets[self.target] if self.target else None
        return min((look.p_over_looks for look in self.looks), default=test.p if test else None)

    @property
    def scoped_verdict(self) -> str:
        """Verdict with what it is limited to, see `limit_verdict`."""
        return limit_verdict(self.verdict, self.target)

    @property
    def is_decided(self) -> bool:
        """True if the system is better, worse or equivalent."""
        return self.verdict in _DECIDED

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON.

        It has `split` only if that is not the test split, `looks` only if there are any, `unpooled` and `pooled` only
        if seeds are pooled.
        """
        counts, looks = self.wins_ties_losses, [look._asdict() for look in self.looks]
        values = asdict(self) | {"wins_ties_losses": counts._asdict() if counts else None, "looks": looks}
        del values["estimate"]
        optional = ("split", "looks", "unpooled", "pooled")
        return {key: value for key, value in values.items() if key not in optional or value}


@dataclass(frozen=True)
class ComparisonFamily:
    """Comparisons that are corrected together.

    Attributes:
        metric: metric of all comparisons, unless `metrics` is given.
        pairs: system, baseline and differences (seeds, queries) of each comparison. All comparisons by one metric have
            the same queries. Differences are None where a side is incomplete; such a comparison still counts in the
            corrections.
        metrics: metric of each comparison. If empty, `metric` applies to all.
        is_correlation: True if the differences are of pseudo-values. Their mean is a difference, their signs have no
            meaning.
        split: split of the scores, if it is not the test split.
        poolable: for each comparison, whether its variation between seeds may be pooled with that of others. That needs
            scores of both systems that differ between seeds, see `paired_tests.vary_over_seeds`. If empty, all may.
        shared_beginnings: pairs of systems that share the beginning of their training, see `pooled.compute_pooled_df`.
    """

    name: str
    task: str
    metric: str
    pairs: Sequence[tuple[str, str, Floats | None]]
    metrics: Sequence[str] = ()
    is_correlation: bool = False
    split: str | None = None
    poolable: Sequence[bool] = ()
    shared_beginnings: Sequence[tuple[str, str]] = ()


def compare_family(family: ComparisonFamily, settings: ComparisonSettings) -> list[Comparison]:
    """Compare every pair of a family and return the comparisons in the family's order.

    Example:
        >>> import numpy as np
        >>> differences = np.array([[0.2, 0.1, 0.3, 0.2], [0.1, 0.2, 0.2, 0.3]])  # (seeds, queries)
        >>> family = ComparisonFamily("variants", "toy", "R10@1", [("LS", "BERT", differences)])
        >>> (comparison,) = compare_family(family, ComparisonSettings(alpha=0.05))
        >>> round(comparison.difference, 2), comparison.target, comparison.wins_ties_losses
        (0.2, 'both', WinTieLoss(wins=4, ties=0, losses=0))
    """
    pairs = _estimate_pairs(family, settings.seeds)
    queries = [pair.estimates["queries"] for pair in pairs]
    equivalence: list[float | None] = [None] * len(pairs)
    if settings.margin is not None:
        equivalence_tests = [tost(pair.head, settings.margin) if pair.head else None for pair in pairs]
        equivalence = adjust_p_values(equivalence_tests, "bonferroni")
    corrected = zip(
        adjust_by_each_correction([pair.head.test().p if pair.head else None for pair in pairs]),
        adjust_by_each_correction([estimate.test().p if estimate else None for estimate in queries]),
        equivalence,
        strict=True,
    )
    return [_judge(family, pair, *p_values, settings) for pair, p_values in zip(pairs, corrected, strict=True)]


class _Pair(NamedTuple):
    """The estimates of one comparison."""

    system: str
    baseline: str
    metric: str
    d: Floats | None
    anova: TwoWayAnova | None
    estimates: dict[str, Estimate | None]
    """By target; that for both is pooled if `pooled` is not None."""
    unpooled: Estimate | None
    """Estimate for both with the comparison's seeds alone."""
    pooled: SeedPool | None
    mean_ratio: float | None

    @property
    def target(self) -> Target | None:
        return next((name for name in _HEADLINES if self.estimates[name]), None)

    @property
    def head(self) -> Estimate | None:
        """Estimate of the headline test."""
        return self.estimates[self.target] if self.target else None


def _estimate_pairs(family: ComparisonFamily, seeds: SeedVariance) -> list[_Pair]:
    """Estimate the differences of a family. Their seeds are compared with each other where that is possible."""
    metrics = family.metrics or [family.metric] * len(family.pairs)
    anovas = [two_way_anova(d) if d is not None and min(d.shape) > 1 else None for *_, d in family.pairs]
    allowed = [not family.is_correlation] * len(anovas)
    if family.poolable and not family.is_correlation:
        allowed = list(family.poolable)
    comparable = [anova if may_pool else None for anova, may_pool in zip(anovas, allowed, strict=True)]
    names = [(system, baseline) for system, baseline, _ in family.pairs]
    pools = pool_family(comparable, names, metrics, family.shared_beginnings) if seeds == "pooled" else {}
    mean_ratios = average_ratios(comparable, metrics, seeds == "pooled")
    pairs = []
    for index, (system, baseline, d) in enumerate(family.pairs):
        alone = _NO_ESTIMATES if d is None else estimate_all(d)
        both, pool = pools.get(index, (alone["both"], None))
        estimates, ratio = alone | {"both": both}, mean_ratios.get(index)
        pairs.append(_Pair(system, baseline, metrics[index], d, anovas[index], estimates, alone["both"], pool, ratio))
    return pairs


def _judge(
    family: ComparisonFamily,
    pair: _Pair,
    adjusted: dict[str, float | None],
    adjusted_queries: dict[str, float | None],
    equivalence_p: float | None,
    settings: ComparisonSettings,
) -> Comparison:
    """Return a comparison with its verdict at the corrected p-values."""
    d, head, anova, level = pair.d, pair.head, pair.anova, settings.alpha / len(family.pairs)
    gain = -1 if pair.metric in LOWER_IS_BETTER or settings.less_is_better else 1
    difference = None if d is None else float(d.mean())
    interval = head.test(1 - level) if head else None
    counts = None
    if d is not None and not family.is_correlation:  # queries, averaged over seeds; without queries, seeds
        counts = WinTieLoss.from_differences(gain * round_off(d.mean(axis=0) if d.shape[1] > 1 else d[:, 0]))
    typical = head  # as if the seeds varied as those of the family do on average
    if head and anova and pair.mean_ratio is not None:
        typical = replace_ratio(anova, pair.mean_ratio, head.df)
    return Comparison(
        family=family.name,
        task=family.task,
        metric=pair.metric,
        system=pair.system,
        baseline=pair.baseline,
        comparisons=len(family.pairs),
        difference=difference,
        target=pair.target,
        targets={name: own.test(1 - settings.alpha) if own else None for name, own in pair.estimates.items()},
        classical=classical_estimate(anova).test().p if anova else None,
        adjusted=adjusted,
        adjusted_queries=adjusted_queries,
        interval=(interval.low, interval.high) if interval else None,
        each_seed=[own.test().p for own in estimate_each_seed(d)] if d is not None and anova else [],
        distribution_free=run_tests(settings.tests, d, settings.seed) if d is not None else {},
        wins_ties_losses=counts,
        equivalence_p=equivalence_p,
        detectable=minimum_detectable_effect(typical, level) if typical else None,
        verdict=decide_verdict(
            None if difference is None else gain * (head.mean if head else difference),
            adjusted[settings.correction],
            equivalence_p,
            settings.alpha,
            are_equal=d is not None and not d.any(),
        ),
        split=family.split,
        estimate=head,
        unpooled=pair.unpooled.test(1 - settings.alpha) if pair.pooled and pair.unpooled else None,
        pooled=pair.pooled,
    )
