"""A family of comparisons: tests, corrections, intervals, sizes and verdicts, from paired differences alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from analysis.stats import permutation_tests as distribution_free
from analysis.stats.bootstrap import Bootstrap
from analysis.stats.equivalence import Verdict, decide_verdict, tost
from analysis.stats.estimate import Estimate, TestResult
from analysis.stats.multiple_testing import CORRECTIONS, FROM_P, PERMUTATIONS, MaxT, adjust_p_values, max_t
from analysis.stats.paired_tests import effect_size, estimate_all, estimate_each_seed
from analysis.stats.power import minimum_detectable_effect
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats

Target = Literal["both", "queries", "seeds"]
_HEADLINES: tuple[Target, ...] = ("both", "queries", "seeds")
_NO_ESTIMATES: dict[str, Estimate | None] = dict.fromkeys(_HEADLINES)


@dataclass(frozen=True)
class ComparisonSettings:
    """How a family is judged.

    Attributes:
        alpha: level of the family.
        correction: the one of CORRECTIONS that decides.
        margin: differences below it do not matter; None: nothing is called equivalent.
        tests: keys of `distribution_free.TESTS`.
        less_is_better: of a metric that has no name here.
        permutations: of max-T.
        seed: names the draws of the permutations.
    """

    alpha: float = 0.05
    correction: str = "bonferroni"
    margin: float | None = None
    tests: tuple[str, ...] = ()
    less_is_better: bool = False
    permutations: int = PERMUTATIONS
    seed: int = 0


class WinTieLoss(NamedTuple):
    """Queries (or seeds, where there are no queries) that the system wins, ties and loses; of the means over seeds."""

    wins: int
    ties: int
    losses: int

    @classmethod
    def from_differences(cls, units: Floats) -> "WinTieLoss":
        """Counts the differences."""
        return cls(int((units > 0).sum()), int((units == 0).sum()), int((units < 0).sum()))

    @property
    def superiority(self) -> float:
        """Probability that the system is better on another one, a tie counting half."""
        return (self.wins + self.ties / 2) / sum(self)


@dataclass(frozen=True)
class Comparison:
    """One comparison; numbers are None where a side is incomplete.

    Attributes:
        family: what it is corrected with, and of what task and metric.
        comparisons: of that family.
        difference: mean of system minus baseline.
        target: what the headline asks about: both, or what the data has.
        targets: the tests that the data allows, each uncorrected.
        adjusted: p-values of the headline, by correction.
        interval: of the difference, simultaneous for the family.
        each_seed: p-value of the test over queries for each seed alone.
        free: by name, p-value of a distribution-free test over seeds, or over queries where there is one seed, or why
            it was refused.
        effect: mean over standard deviation of the seed-averaged differences.
        record: wins, ties and losses; None also of a correlation.
        alike: corrected p-value of the test for equivalence; None: no margin.
        detectable: the difference that the headline finds with 80 % power at the corrected level.
        bootstrap: of a correlation, beside the headline: p uncorrected, the interval Bonferroni's for the family.
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
    adjusted: dict[str, float | None]
    interval: tuple[float, float] | None
    each_seed: list[float]
    free: dict[str, float | str]
    effect: float | None
    record: WinTieLoss | None
    alike: float | None
    detectable: float | None
    verdict: Verdict
    bootstrap: Bootstrap | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; without `bootstrap` where there is none."""
        found = asdict(self)
        found["record"] = self.record._asdict() if self.record else None
        del found["bootstrap"]
        return found | ({"bootstrap": self.bootstrap._asdict()} if self.bootstrap else {})


@dataclass(frozen=True)
class ComparisonFamily:
    """What is corrected together.

    Attributes:
        pairs: of each comparison its system, its baseline, and the differences (seeds, queries), over the same queries
            in all of a metric; None where a side is incomplete: that counts in the corrections all the same.
        metrics: of each comparison, where they have several; none: `metric`.
        correlation: whether the differences are of pseudo-values: their mean is a difference, their signs say nothing.
    """

    name: str
    task: str
    metric: str
    pairs: Sequence[tuple[str, str, Floats | None]]
    metrics: Sequence[str] = ()
    is_correlation: bool = False


def compare_family(family: ComparisonFamily, settings: ComparisonSettings) -> list[Comparison]:
    """Judges the comparisons of a family, in their order."""
    pairs = [d for *_, d in family.pairs]
    found = [estimate_all(d) if d is not None else _NO_ESTIMATES for d in pairs]
    targets = [next((name for name in _HEADLINES if one[name]), None) for one in found]
    heads = [one[target] if target else None for one, target in zip(found, targets, strict=True)]
    raw = [head.test().p if head else None for head in heads]
    permuted = _permute_family(pairs, heads, settings)
    adjusted = {name: adjust_p_values(raw, name) for name in FROM_P} | {
        "maxt": permuted.adjust(raw) if permuted else raw
    }
    single_level = settings.alpha / len(pairs)
    if settings.correction == "maxt" and permuted:
        single_level = permuted.per_comparison_level(settings.alpha)
    p_equivalence, metrics = (
        _equivalence_p_values(heads, settings.margin),
        family.metrics or [family.metric] * len(pairs),
    )
    comparisons = []
    for place, (system, baseline, d) in enumerate(family.pairs):
        gain = -1 if metrics[place] in LOWER_IS_BETTER or settings.less_is_better else 1
        head, own = heads[place], {name: adjusted[name][place] for name in CORRECTIONS}
        units = None if d is None else _unit_differences(d)
        comparisons.append(
            Comparison(
                family=family.name,
                task=family.task,
                metric=metrics[place],
                system=system,
                baseline=baseline,
                comparisons=len(pairs),
                difference=None if d is None else float(d.mean()),
                target=targets[place],
                targets={name: one.test(1 - settings.alpha) if one else None for name, one in found[place].items()},
                adjusted=own,
                interval=_simultaneous_interval(head, single_level),
                each_seed=[one.test().p for one in estimate_each_seed(d)] if d is not None and min(d.shape) > 1 else [],
                free=_distribution_free_p_values(d, single_level, settings) if d is not None else {},
                effect=None if units is None else effect_size(units[None]),
                record=None if units is None or family.is_correlation else WinTieLoss.from_differences(gain * units),
                alike=p_equivalence[place],
                detectable=minimum_detectable_effect(head, single_level) if head else None,
                verdict=decide_verdict(
                    gain * head.mean if head else None, own[settings.correction], p_equivalence[place], settings.alpha
                ),
            )
        )
    return comparisons


def _simultaneous_interval(head: Estimate | None, level: float) -> tuple[float, float] | None:
    test = head.test(1 - level) if head and level > 0 else None
    return (test.low, test.high) if test else None


def _unit_differences(d: Floats) -> Floats:
    """(n,) differences of queries averaged over seeds, or of seeds where there are no queries."""
    averaged: Floats = np.round(d.mean(axis=0) if d.shape[1] > 1 else d[:, 0], 12)
    return averaged


def _permute_family(
    pairs: Sequence[Floats | None], heads: Sequence[Estimate | None], settings: ComparisonSettings
) -> MaxT | None:
    """Of a family over sets of pairs, the largest set's comparisons are permuted; the others are taken for unrelated to
    them, the worst that can be."""
    known = [
        (_unit_differences(d), _permutable_share(d, head))
        for d, head in zip(pairs, heads, strict=True)
        if d is not None and head
    ]
    most = max((len(units) for units, _ in known), default=0)
    made = [(units, share) for units, share in known if len(units) == most]
    if most < 2:
        return None
    units, shares = [own for own, _ in made], [share for _, share in made]
    return max_t(np.stack(units), shares, len(pairs) - len(made), settings.permutations, settings.seed)


def _permutable_share(d: Floats, head: Estimate) -> float:
    """Of the variance of a comparison, what its queries show; all of it where it is about one kind of sample."""
    if min(d.shape) < 2:
        return 1.0
    return head.share if len(d) > d.shape[1] else 1 - head.share


def _equivalence_p_values(heads: Sequence[Estimate | None], margin: float | None) -> list[float | None]:
    if margin is None:
        return [None] * len(heads)
    return adjust_p_values([tost(head, margin) if head else None for head in heads], "bonferroni")


def _distribution_free_p_values(d: Floats, single_level: float, settings: ComparisonSettings) -> dict[str, float | str]:
    values = d.mean(axis=1) if len(d) > 1 else d[0]
    refused = {name: distribution_free.explain_refusal(name, len(values), single_level) for name in settings.tests}
    return {
        name: why or distribution_free.TESTS[name](np.round(values, 12), settings.seed) for name, why in refused.items()
    }
