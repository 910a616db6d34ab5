"""Error analysis: the metric among queries of some number of turns, of a domain, of some difficulty, system by system.

After Penha and Hauff (2020), Figures 5 and 6.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.data.configurations import Configuration
from analysis.data.plan import Phase, Plan
from analysis.data.query_attributes import FILE
from analysis.data.results import Results
from analysis.stats.paired_tests import over_both, over_queries, paired
from analysis.tables.attributes import FEWEST, MOST, Attribute, attributes
from analysis.tables.dev_only import nothing_tested
from trainables.metrics import MINIMISED
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

COLUMNS = [
    "attribute", "stratum", "system", "queries", "mean", "low", "high", "difference", "difference_low",
    "difference_high",
]  # fmt: skip
_LEGEND = (
    "Not declared, and not corrected for their number: exploratory. {best} is the best of the plan's other systems "
    "on {dev}{seen}. In brackets 95 % intervals for {target}: of each system's mean among the queries of the row, "
    "and of the paired difference {best} \N{MINUS SIGN} {baseline}. All systems are in strata.csv."
)
_MERGED = {
    "turns": f"Adjacent numbers of turns are one class, from the fewest up, until it has {FEWEST} queries; there are "
    f"{MOST} classes at most, the last takes in the rest.",
    "domain": f"The {MOST} most frequent domains, then the others together.",
}
_TERCILES = "Thirds of the queries by this difficulty, the easiest first; ties by the SHA-256 of the query's id."
_OWN_SCORES = (
    " It is made of a trained run's scores of these very queries: by that alone any other system looks worse among the "
    "easy and better among the difficult, so these differences have no interval."
)


class Interval(NamedTuple):
    """A mean and its 95 % interval; None: there is none."""

    mean: float
    low: float | None
    high: float | None

    def text(self, sign: str = "") -> str:
        """Mean and interval in words; `sign` is that of a format."""
        bounds = "" if self.low is None else f" [{self.low:{sign}.4f}, {self.high:{sign}.4f}]"
        return f"{self.mean:{sign}.4f}{bounds}"


class Stratum(NamedTuple):
    """A system's metric among the queries of a stratum.

    Attributes:
        attribute: by name.
        stratum: its name.
        queries: how many it has.
        value: of the system.
        difference: of the system less the first baseline; None for this itself, and where it is incomplete.
    """

    attribute: str
    stratum: str
    system: str
    queries: int
    value: Interval
    difference: Interval | None

    @property
    def gap(self) -> str:
        """The difference in words."""
        return self.difference.text("+") if self.difference else "-"


@dataclass(frozen=True)
class Strata:
    """The whole of it.

    Attributes:
        phase: what the scores are for: the test, or the search where nothing is tested.
        shown: the first baseline, and the best of the plan's other systems on the development set.
        attributes: those that the queries have.
        rows: by attribute, stratum and system, in the plan's order of systems.
    """

    phase: Phase
    shown: tuple[str, str]
    attributes: list[Attribute]
    rows: list[Stratum]

    def of(self, attribute: str, system: str) -> list[Stratum]:
        """A system's strata by an attribute, in their order."""
        return [row for row in self.rows if (row.attribute, row.system) == (attribute, system)]

    def making(self, attribute: Attribute) -> str:
        """How the strata of an attribute are made."""
        return _MERGED.get(attribute.name, _TERCILES + (_OWN_SCORES if attribute.of_a_run else ""))

    def cells(self, attribute: Attribute) -> tuple[list[str], list[list[str]]]:
        """Header and rows of an attribute as plain text."""
        baseline, best = (self.of(attribute.name, system) for system in self.shown)
        lines = [
            [base.stratum, str(base.queries), base.value.text(), row.value.text(), row.gap]
            for base, row in zip(baseline, best, strict=True)
        ]
        return [attribute.title, "queries", *self.shown, "difference"], lines

    def legend(self, plan: Plan) -> str:
        """What the columns of every attribute are."""
        seeds = len(plan.seeds_of(self.phase))
        return _LEGEND.format(
            baseline=self.shown[0],
            best=self.shown[1],
            dev=plan.search_split,
            seen="" if self.phase == "test" else ", by these very scores",
            target="new queries and new seeds (two-way random effects)" if seeds > 1 else "new queries (one seed)",
        )

    def table(self) -> pd.DataFrame:
        """`COLUMNS`, a row a stratum and system."""
        nothing = Interval(np.nan, None, None)
        rows = [(*row[:4], *row.value, *(row.difference or nothing)) for row in self.rows]
        return pd.DataFrame(rows, columns=COLUMNS)


def strata(results: Results, found: list[Configuration], chosen: dict[str, Configuration | None]) -> Strata | None:
    """The metric of every complete system by whatever the queries differ in; None where nothing is known of them.

    On the test split each system is its chosen configuration; where nothing is tested, its best one on the development
    set, with the scores there.

    Raises:
        UserError: the table of queries lacks one that the runs rank, or has another.
    """
    plan = results.plan
    if results.queries is None:
        return None
    phase: Phase = "search" if nothing_tested(plan, found) else "test"
    judged = chosen if phase == "test" else {name: _best(plan, found, name) for name in plan.all_systems}
    values = {name: c.values(plan, phase) for name, c in judged.items() if c is not None}
    known = {name: own for name, own in values.items() if own is not None}
    shown = _shown(plan, judged, list(known))
    if shown is None:
        return None
    split = plan.split_of(phase)
    queries = results.queries[results.queries["split"] == split]
    first = judged[shown[0]]
    assert first is not None  # it is complete
    _check(queries, first.runs[first.expected(plan, phase)[0]].per_query(split, plan.metric).index, split)
    by, rows = attributes(queries), []
    for attribute in by:
        for place, stratum in enumerate(attribute.strata):
            own = attribute.of == place
            for name in known if own.any() else ():
                gap = None if name == shown[0] else paired(known[name], known[shown[0]])
                rows.append(
                    Stratum(
                        attribute.name,
                        stratum,
                        name,
                        int(own.sum()),
                        interval(known[name][:, own]),
                        None if gap is None else _difference(gap[:, own], attribute),
                    )
                )
    return Strata(phase, shown, by, rows) if by else None


def interval(values: Floats) -> Interval:
    """Mean and 95 % interval of (seeds, queries) values: two-way over both, over queries where there is one seed."""
    seeds, queries = values.shape
    if queries < 2:
        return Interval(float(values.mean()), None, None)
    found = over_both(values) if seeds > 1 else over_queries(values)
    return Interval(float(values.mean()), *found.interval())


def _difference(gap: Floats, attribute: Attribute) -> Interval:
    """Queries that a run found difficult are partly those it had bad luck with: no test takes that into account."""
    found = interval(gap)
    return Interval(found.mean, None, None) if attribute.of_a_run else found


def _shown(plan: Plan, judged: dict[str, Configuration | None], known: list[str]) -> tuple[str, str] | None:
    """The first baseline, and the best other system of the plan on the development set; None: one is incomplete."""
    baseline = plan.headline.comparisons[0][1]
    if baseline not in known:
        return None
    others = [name for name in plan.systems if name in known and name != baseline]
    level = {name: level for name in others if (level := _level(plan, judged[name])) is not None}
    return (baseline, max(level, key=level.__getitem__)) if level else None


def _best(plan: Plan, found: list[Configuration], system: str) -> Configuration | None:
    own = [(c, _level(plan, c)) for c in found if c.system == system and not c.dropped]
    return max(((c, level) for c, level in own if level is not None), key=lambda pair: pair[1], default=(None,))[0]


def _level(plan: Plan, configuration: Configuration | None) -> float | None:
    """On the development set, more is better; None where a run is missing."""
    values = configuration.values(plan, "search") if configuration else None
    return None if values is None else float(values.mean()) * (-1 if plan.metric in MINIMISED else 1)


def _check(queries: pd.DataFrame, ranked: "pd.Index[str]", split: str) -> None:
    """In the same order, then."""
    told = queries["query_id"].tolist()
    if told != ranked.tolist():
        lacking, extra = len(set(ranked) - set(told)), len(set(told) - set(ranked))
        raise UserError(f"{FILE}, {split}", f"lacks {lacking} queries of the runs, has {extra} others", "the same")
