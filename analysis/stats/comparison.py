"""A family of comparisons: tests, corrections, intervals, sizes and verdicts, from paired differences alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from analysis.stats import permutation_tests as distribution_free
from analysis.stats.bootstrap import Bootstrap
from analysis.stats.equivalence import Verdict, tost, verdict
from analysis.stats.estimate import Estimate, Test
from analysis.stats.multiple_testing import CORRECTIONS, FROM_P, PERMUTATIONS, MaxT, adjust, max_t
from analysis.stats.paired_tests import each_seed, effect_size, estimates
from analysis.stats.power import detectable
from trainables.metrics import MINIMISED
from trainables.utils.arrays import Floats

Target = Literal["both", "queries", "seeds"]
_HEADLINES: tuple[Target, ...] = ("both", "queries", "seeds")
_NOTHING: dict[str, Estimate | None] = dict.fromkeys(_HEADLINES)


@dataclass(frozen=True)
class Settings:
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


class Record(NamedTuple):
    """Queries (or seeds, where there are no queries) that the system wins, ties and loses; of the means over seeds."""

    wins: int
    ties: int
    losses: int

    @classmethod
    def of(cls, units: Floats) -> "Record":
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
    targets: dict[str, Test | None]
    adjusted: dict[str, float | None]
    interval: tuple[float, float] | None
    each_seed: list[float]
    free: dict[str, float | str]
    effect: float | None
    record: Record | None
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
class Family:
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
    correlation: bool = False


def judge(family: Family, settings: Settings) -> list[Comparison]:
    """Judges the comparisons of a family, in their order."""
    pairs = [d for *_, d in family.pairs]
    found = [estimates(d) if d is not None else _NOTHING for d in pairs]
    targets = [next((name for name in _HEADLINES if one[name]), None) for one in found]
    heads = [one[target] if target else None for one, target in zip(found, targets, strict=True)]
    raw = [head.test().p if head else None for head in heads]
    permuted = _permuted(pairs, heads, settings)
    adjusted = {name: adjust(raw, name) for name in FROM_P} | {"maxt": permuted.adjust(raw) if permuted else raw}
    single = settings.alpha / len(pairs)
    if settings.correction == "maxt" and permuted:
        single = permuted.level(settings.alpha)
    alike, metrics = _alike(heads, settings.margin), family.metrics or [family.metric] * len(pairs)
    made = []
    for place, (system, baseline, d) in enumerate(family.pairs):
        gain = -1 if metrics[place] in MINIMISED or settings.less_is_better else 1
        head, own = heads[place], {name: adjusted[name][place] for name in CORRECTIONS}
        units = None if d is None else _units(d)
        made.append(
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
                interval=_interval(head, single),
                each_seed=[one.test().p for one in each_seed(d)] if d is not None and min(d.shape) > 1 else [],
                free=_free(d, single, settings) if d is not None else {},
                effect=None if units is None else effect_size(units[None]),
                record=None if units is None or family.correlation else Record.of(gain * units),
                alike=alike[place],
                detectable=detectable(head, single) if head else None,
                verdict=verdict(
                    gain * head.mean if head else None, own[settings.correction], alike[place], settings.alpha
                ),
            )
        )
    return made


def _interval(head: Estimate | None, level: float) -> tuple[float, float] | None:
    test = head.test(1 - level) if head and level > 0 else None
    return (test.low, test.high) if test else None


def _units(d: Floats) -> Floats:
    """(n,) differences of queries averaged over seeds, or of seeds where there are no queries."""
    averaged: Floats = np.round(d.mean(axis=0) if d.shape[1] > 1 else d[:, 0], 12)
    return averaged


def _permuted(pairs: Sequence[Floats | None], heads: Sequence[Estimate | None], settings: Settings) -> MaxT | None:
    """Of a family over sets of pairs, the largest set's comparisons are permuted; the others are taken for unrelated to
    them, the worst that can be."""
    known = [(_units(d), _permutable(d, head)) for d, head in zip(pairs, heads, strict=True) if d is not None and head]
    most = max((len(units) for units, _ in known), default=0)
    made = [(units, share) for units, share in known if len(units) == most]
    if most < 2:
        return None
    units, shares = [own for own, _ in made], [share for _, share in made]
    return max_t(np.stack(units), shares, len(pairs) - len(made), settings.permutations, settings.seed)


def _permutable(d: Floats, head: Estimate) -> float:
    """Of the variance of a comparison, what its queries show; all of it where it is about one kind of sample."""
    if min(d.shape) < 2:
        return 1.0
    return head.share if len(d) > d.shape[1] else 1 - head.share


def _alike(heads: Sequence[Estimate | None], margin: float | None) -> list[float | None]:
    if margin is None:
        return [None] * len(heads)
    return adjust([tost(head, margin) if head else None for head in heads], "bonferroni")


def _free(d: Floats, single: float, settings: Settings) -> dict[str, float | str]:
    values = d.mean(axis=1) if len(d) > 1 else d[0]
    refused = {name: distribution_free.check(name, len(values), single) for name in settings.tests}
    return {
        name: why or distribution_free.TESTS[name](np.round(values, 12), settings.seed) for name, why in refused.items()
    }
