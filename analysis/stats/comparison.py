"""Comparison of a family of systems from paired differences: tests, corrections, intervals, verdicts."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal, NamedTuple

from analysis.stats.equivalence import Verdict, decide_verdict, tost
from analysis.stats.estimate import Estimate, TestResult
from analysis.stats.multiple_testing import CORRECTIONS, FROM_P, PERMUTATIONS, adjust_p_values, max_t_of_largest
from analysis.stats.paired_tests import effect_size, estimate_all, estimate_each_seed
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
_NO_ESTIMATES: dict[str, Estimate | None] = dict.fromkeys(_HEADLINES)


@dataclass(frozen=True)
class ComparisonSettings:
    """Settings that decide the comparisons of a family.

    Attributes:
        alpha: significance level of the family.
        correction: name of the correction that decides, one of CORRECTIONS.
        margin: differences below it do not matter. If None, no comparison is called equivalent.
        tests: distribution-free tests to run in addition, keys of `permutation_tests.TESTS`.
        less_is_better: True if smaller values are better. Needed for a metric that LOWER_IS_BETTER does not list.
        permutations: number of permutations for max-T.
        seed: seed of the permutations.
        seeds: "own" to take the variation between seeds from each comparison alone, "pooled" to pool it over the family
            where that is possible, see `pooled.pool_seeds`. Choose before you see the scores.
    """

    alpha: float = 0.05
    correction: str = "bonferroni"
    margin: float | None = None
    tests: tuple[str, ...] = ()
    less_is_better: bool = False
    permutations: int = PERMUTATIONS
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

    @property
    def superiority(self) -> float:
        """Probability that the system is better on another query; a tie counts half."""
        return (self.wins + self.ties / 2) / sum(self)


class WithoutWorstSeeds(NamedTuple):
    """Verdict of a comparison without the worst seed of each side.

    Attributes:
        verdict: verdict of the family without these seeds, or "too few seeds".
        p: corrected p-value. None if there are too few seeds.
        removed: seeds that were removed.
        seeds_left: number of the other seeds.
    """

    verdict: Verdict | Literal["too few seeds"]
    p: float | None
    removed: list[Any]
    seeds_left: int


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
        system: system that is compared.
        baseline: system that it is compared with.
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
        free: p-value of each distribution-free test, by name; over seeds, or over queries if there is one seed.
        effect: mean divided by standard deviation of the seed-averaged differences.
        record: wins, ties and losses. None also for a correlation.
        alike: corrected p-value of the equivalence test. None if there is no margin.
        detectable: minimum detectable effect: the difference that the headline test finds with about 80 % power at the
            corrected level. The variation between seeds in it is that of the family's mean ratio, see
            `pooled.average_ratios`, where the seeds can be compared; the degrees of freedom are those of the test.
        verdict: better, worse, equivalent or undecided, for the population of `target`; "all values are equal" if the
            system and the baseline have the same value everywhere; not compared if a side is incomplete.
        split: split of the scores, if it is not the test split.
        without_worst_seeds: see `analysis.checks.worst_seeds`. None if there are no seeds that differ, or the systems
            were not compared.
        outlying_seeds: `system` and `seed` of the two sides' runs that are far from the system's other seeds, and
            whether they are worse (`looks_collapsed`); see `analysis.checks.collapsed`.
        looks: tests at the looks of a sequential study; empty in any other. Corrected p-values, interval and verdict
            are then over the looks, see `analysis.stats.looks`; the other numbers are those of the last look.
        estimate: estimate of the headline test. It is not in the JSON.
        own: result of the headline test with this comparison's own seeds alone, if they are pooled.
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
    free: dict[str, float]
    effect: float | None
    record: WinTieLoss | None
    alike: float | None
    detectable: float | None
    verdict: Verdict
    split: str | None = None
    without_worst_seeds: WithoutWorstSeeds | None = None
    outlying_seeds: Sequence[dict[str, Any]] = ()
    looks: tuple[LookResult, ...] = ()
    estimate: Estimate | None = None
    own: TestResult | None = None
    pooled: SeedPool | None = None

    @property
    def p(self) -> float | None:
        """p-value that the corrections start from: that of the headline test, in a sequential study over the looks."""
        test = self.targets[self.target] if self.target else None
        return min((look.p_over_looks for look in self.looks), default=test.p if test else None)

    @property
    def scoped_verdict(self) -> str:
        """Verdict with what it is limited to, if its test does not generalise to new queries and new seeds."""
        return self.verdict + (_SCOPES.get(self.target or "", "") if self.is_decided else "")

    @property
    def is_decided(self) -> bool:
        """True if the system is better, worse or equivalent."""
        return self.verdict in ("better", "worse", "equivalent")

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON.

        It has `split` only if that is not the test split, `looks` only if there are any, `own` and `pooled` only if
        seeds are pooled.
        """
        parts = {"record": self.record, "without_worst_seeds": self.without_worst_seeds}
        values = asdict(self) | {name: part._asdict() if part else None for name, part in parts.items()}
        values["looks"] = [look._asdict() for look in self.looks]
        del values["estimate"]
        optional = ("split", "looks", "own", "pooled")
        return {key: value for key, value in values.items() if key not in optional or value}


@dataclass(frozen=True)
class ComparisonFamily:
    """Comparisons that are corrected together.

    Attributes:
        name: name of the family.
        task: task of the study.
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
    """

    name: str
    task: str
    metric: str
    pairs: Sequence[tuple[str, str, Floats | None]]
    metrics: Sequence[str] = ()
    is_correlation: bool = False
    split: str | None = None
    poolable: Sequence[bool] = ()


def compute_median_effect(comparisons: Iterable[Comparison]) -> float | None:
    """Return the median of the minimum detectable effects; None if there is none."""
    effects = [c.detectable for c in comparisons if c.detectable is not None]
    return median(effects) if effects else None


def compare_family(family: ComparisonFamily, settings: ComparisonSettings) -> list[Comparison]:
    """Compare every pair of a family and return the comparisons in the family's order.

    Args:
        family: comparisons that are corrected together.
        settings: level, correction, margin and further tests.

    Example:
        >>> import numpy as np
        >>> differences = np.array([[0.2, 0.1, 0.3, 0.2], [0.1, 0.2, 0.2, 0.3]])  # (seeds, queries)
        >>> family = ComparisonFamily("variants", "toy", "R10@1", [("LS", "BERT", differences)])
        >>> (comparison,) = compare_family(family, ComparisonSettings(alpha=0.05))
        >>> round(comparison.difference, 2), comparison.target, comparison.record
        (0.2, 'both', WinTieLoss(wins=4, ties=0, losses=0))
    """
    pairs = [d for *_, d in family.pairs]
    own_estimates = [estimate_all(d) if d is not None else _NO_ESTIMATES for d in pairs]
    anovas = [two_way_anova(d) if d is not None and min(d.shape) > 1 else None for d in pairs]
    metrics = family.metrics or [family.metric] * len(family.pairs)
    names = [(system, baseline) for system, baseline, _ in family.pairs]
    comparable = _list_comparable(family, anovas)
    pooled = pool_family(comparable, names, metrics) if settings.seeds == "pooled" else {}
    mean_ratios = average_ratios(comparable, metrics, settings.seeds == "pooled")
    estimates = [
        own | {"both": pooled[index][0]} if index in pooled else own for index, own in enumerate(own_estimates)
    ]
    targets = [next((name for name in _HEADLINES if by_target[name]), None) for by_target in estimates]
    heads = [by_target[target] if target else None for by_target, target in zip(estimates, targets, strict=True)]
    p_values = [head.test().p if head else None for head in heads]
    units = [
        (_unit_differences(d), _permutable_share(d, head))
        for d, head in zip(pairs, heads, strict=True)
        if d is not None and head
    ]
    max_t_test = max_t_of_largest(units, len(pairs), settings.permutations, settings.seed)
    adjusted = {name: adjust_p_values(p_values, name) for name in FROM_P} | {
        "maxt": max_t_test.adjust(p_values) if max_t_test else p_values
    }
    tests = [
        {name: estimate.test(1 - settings.alpha) if estimate else None for name, estimate in by_target.items()}
        for by_target in estimates
    ]
    over_queries = [test.p if (test := by_target["queries"]) else None for by_target in tests]
    adjusted_queries = {name: adjust_p_values(over_queries, name) for name in FROM_P}
    single_level = settings.alpha / len(pairs)
    if settings.correction == "maxt" and max_t_test:
        single_level = max_t_test.per_comparison_level(settings.alpha)
    p_equivalence = _equivalence_p_values(heads, settings.margin)
    comparisons = []
    for index, (system, baseline, d) in enumerate(family.pairs):
        gain = -1 if metrics[index] in LOWER_IS_BETTER or settings.less_is_better else 1
        head, adjusted_p = heads[index], {name: adjusted[name][index] for name in CORRECTIONS}
        averaged = None if d is None else _unit_differences(d)
        comparisons.append(
            Comparison(
                family=family.name,
                task=family.task,
                metric=metrics[index],
                system=system,
                baseline=baseline,
                comparisons=len(pairs),
                difference=None if d is None else float(d.mean()),
                target=targets[index],
                targets=tests[index],
                classical=classical_estimate(anova).test().p if (anova := anovas[index]) else None,
                adjusted=adjusted_p,
                adjusted_queries={name: values[index] for name, values in adjusted_queries.items()},
                interval=_simultaneous_interval(head, single_level),
                each_seed=[e.test().p for e in estimate_each_seed(d)] if d is not None and min(d.shape) > 1 else [],
                free=run_tests(settings.tests, d, settings.seed) if d is not None else {},
                effect=None if averaged is None else effect_size(averaged[None]),
                record=None
                if averaged is None or family.is_correlation
                else WinTieLoss.from_differences(gain * averaged),
                alike=p_equivalence[index],
                detectable=_find_detectable_effect(head, anovas[index], mean_ratios.get(index), single_level),
                verdict=decide_verdict(
                    None if d is None else gain * (head.mean if head else float(d.mean())),
                    adjusted_p[settings.correction],
                    p_equivalence[index],
                    settings.alpha,
                    are_equal=d is not None and not d.any(),
                ),
                split=family.split,
                estimate=head,
                own=own.test(1 - settings.alpha) if index in pooled and (own := own_estimates[index]["both"]) else None,
                pooled=pooled[index][1] if index in pooled else None,
            )
        )
    return comparisons


def _list_comparable(family: ComparisonFamily, anovas: Sequence[TwoWayAnova | None]) -> list[TwoWayAnova | None]:
    """Return the mean squares of the comparisons whose seeds may be compared with those of others, else None."""
    if family.is_correlation:
        return [None] * len(anovas)
    allowed = family.poolable or [True] * len(anovas)
    return [anova if may_pool else None for anova, may_pool in zip(anovas, allowed, strict=True)]


def _find_detectable_effect(
    head: Estimate | None, anova: TwoWayAnova | None, mean_ratio: float | None, level: float
) -> float | None:
    """Return the minimum detectable effect of a test whose seeds vary as those of the family on average."""
    if head and anova and mean_ratio is not None:
        head = replace_ratio(anova, mean_ratio, head.df)
    return minimum_detectable_effect(head, level) if head else None


def _simultaneous_interval(head: Estimate | None, level: float) -> tuple[float, float] | None:
    test = head.test(1 - level) if head and level > 0 else None
    return (test.low, test.high) if test else None


def _unit_differences(d: Floats) -> Floats:
    """Return (n,) differences of queries, averaged over seeds; without queries, differences of seeds."""
    return round_off(d.mean(axis=0) if d.shape[1] > 1 else d[:, 0])


def _permutable_share(d: Floats, head: Estimate) -> float:
    """Return the share of a comparison's variance that comes from its queries; 1 with one kind of sample."""
    if min(d.shape) < 2:
        return 1.0
    return head.share if len(d) > d.shape[1] else 1 - head.share


def _equivalence_p_values(heads: Sequence[Estimate | None], margin: float | None) -> list[float | None]:
    if margin is None:
        return [None] * len(heads)
    return adjust_p_values([tost(head, margin) if head else None for head in heads], "bonferroni")
