"""Error analysis: the metric among queries of some number of turns, of a domain, of some difficulty, system by system.

After Penha and Hauff (2020), Figures 5 and 6.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.data.configurations import Configuration
from analysis.data.plan import Phase, Plan
from analysis.data.query_attributes import QUERIES_FILE
from analysis.data.results import Results
from analysis.stats.paired_tests import differences_or_none, estimate_over_both, estimate_over_queries
from analysis.tables.dev_only import is_untested
from analysis.tables.query_groups import MAX_GROUPS, MIN_QUERIES, QueryAttribute, group_queries
from trainables.metrics import LOWER_IS_BETTER
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
_GROUPING_TEXTS = {
    "turns": f"Adjacent numbers of turns are one class, from the fewest up, until it has {MIN_QUERIES} queries; "
    "there are "
    f"{MAX_GROUPS} classes at most, the last takes in the rest.",
    "domain": f"The {MAX_GROUPS} most frequent domains, then the others together.",
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

    def to_text(self, sign: str = "") -> str:
        """Mean and interval in words; `sign` is that of a format."""
        bounds = "" if self.low is None else f" [{self.low:{sign}.4f}, {self.high:{sign}.4f}]"
        return f"{self.mean:{sign}.4f}{bounds}"


class StratumScore(NamedTuple):
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
    def difference_text(self) -> str:
        """The difference in words."""
        return self.difference.to_text("+") if self.difference else "-"


@dataclass(frozen=True)
class StrataTable:
    """The whole of it.

    Attributes:
        phase: what the scores are for: the test, or the search where nothing is tested.
        shown: the first baseline, and the best of the plan's other systems on the development set.
        attributes: those that the queries have.
        rows: by attribute, stratum and system, in the plan's order of systems.
    """

    phase: Phase
    shown: tuple[str, str]
    attributes: list[QueryAttribute]
    rows: list[StratumScore]

    def select(self, attribute: str, system: str) -> list[StratumScore]:
        """A system's strata by an attribute, in their order."""
        return [row for row in self.rows if (row.attribute, row.system) == (attribute, system)]

    def describe_strata(self, attribute: QueryAttribute) -> str:
        """How the strata of an attribute are made."""
        return _GROUPING_TEXTS.get(attribute.name, _TERCILES + (_OWN_SCORES if attribute.is_from_run else ""))

    def to_cells(self, attribute: QueryAttribute) -> tuple[list[str], list[list[str]]]:
        """Header and rows of an attribute as plain text."""
        baseline, best = (self.select(attribute.name, system) for system in self.shown)
        lines = [
            [base.stratum, str(base.queries), base.value.to_text(), row.value.to_text(), row.difference_text]
            for base, row in zip(baseline, best, strict=True)
        ]
        return [attribute.title, "queries", *self.shown, "difference"], lines

    def format_legend(self, plan: Plan) -> str:
        """What the columns of every attribute are."""
        seeds = len(plan.get_seeds(self.phase))
        return _LEGEND.format(
            baseline=self.shown[0],
            best=self.shown[1],
            dev=plan.search_split,
            seen="" if self.phase == "test" else ", by these very scores",
            target="new queries and new seeds (two-way random effects)" if seeds > 1 else "new queries (one seed)",
        )

    def to_frame(self) -> pd.DataFrame:
        """`COLUMNS`, a row a stratum and system."""
        nothing = Interval(np.nan, None, None)
        rows = [(*row[:4], *row.value, *(row.difference or nothing)) for row in self.rows]
        return pd.DataFrame(rows, columns=COLUMNS)


def build_strata_table(
    results: Results, configurations: list[Configuration], chosen: dict[str, Configuration | None]
) -> StrataTable | None:
    """The metric of every complete system by whatever the queries differ in; None where nothing is known of them.

    On the test split each system is its chosen configuration; where nothing is tested, its best one on the development
    set, with the scores there.

    Raises:
        UserError: the table of queries lacks one that the runs rank, or has another.
    """
    plan = results.plan
    if results.queries is None:
        return None
    phase: Phase = "search" if is_untested(plan, configurations) else "test"
    judged = chosen if phase == "test" else {name: _find_best(plan, configurations, name) for name in plan.all_systems}
    values = {name: c.evaluate_queries(plan, phase) for name, c in judged.items() if c is not None}
    known = {name: own for name, own in values.items() if own is not None}
    shown = _select_shown(plan, judged, list(known))
    if shown is None:
        return None
    split = plan.get_split(phase)
    queries = results.queries[results.queries["split"] == split]
    first = judged[shown[0]]
    assert first is not None  # it is complete
    _check_queries(
        queries, first.runs[first.expected_seeds(plan, phase)[0]].evaluate_queries(split, plan.metric).index, split
    )
    attributes, rows = group_queries(queries), []
    for attribute in attributes:
        for place, stratum in enumerate(attribute.strata):
            mask = attribute.stratum_indices == place
            for name in known if mask.any() else ():
                gap = None if name == shown[0] else differences_or_none(known[name], known[shown[0]])
                rows.append(
                    StratumScore(
                        attribute.name,
                        stratum,
                        name,
                        int(mask.sum()),
                        compute_interval(known[name][:, mask]),
                        None if gap is None else _compute_difference(gap[:, mask], attribute),
                    )
                )
    return StrataTable(phase, shown, attributes, rows) if attributes else None


def compute_interval(values: Floats) -> Interval:
    """Mean and 95 % interval of (seeds, queries) values: two-way over both, over queries where there is one seed."""
    seeds, queries = values.shape
    if queries < 2:
        return Interval(float(values.mean()), None, None)
    found = estimate_over_both(values) if seeds > 1 else estimate_over_queries(values)
    return Interval(float(values.mean()), *found.confidence_interval())


def _compute_difference(gap: Floats, attribute: QueryAttribute) -> Interval:
    """Queries that a run found difficult are partly those it had bad luck with: no test takes that into account."""
    found = compute_interval(gap)
    return Interval(found.mean, None, None) if attribute.is_from_run else found


def _select_shown(plan: Plan, judged: dict[str, Configuration | None], known: list[str]) -> tuple[str, str] | None:
    """The first baseline, and the best other system of the plan on the development set; None: one is incomplete."""
    baseline = plan.headline.comparisons[0][1]
    if baseline not in known:
        return None
    others = [name for name in plan.systems if name in known and name != baseline]
    level = {name: level for name in others if (level := _compute_level(plan, judged[name])) is not None}
    return (baseline, max(level, key=level.__getitem__)) if level else None


def _find_best(plan: Plan, configurations: list[Configuration], system: str) -> Configuration | None:
    own = [(c, _compute_level(plan, c)) for c in configurations if c.system == system and not c.pruned]
    return max(((c, level) for c, level in own if level is not None), key=lambda pair: pair[1], default=(None,))[0]


def _compute_level(plan: Plan, configuration: Configuration | None) -> float | None:
    """On the development set, more is better; None where a run is missing."""
    values = configuration.evaluate_queries(plan, "search") if configuration else None
    return None if values is None else float(values.mean()) * (-1 if plan.metric in LOWER_IS_BETTER else 1)


def _check_queries(queries: pd.DataFrame, ranked: "pd.Index[str]", split: str) -> None:
    """In the same order, then."""
    known = queries["query_id"].tolist()
    if known != ranked.tolist():
        lacking, extra = len(set(ranked) - set(known)), len(set(known) - set(ranked))
        raise UserError(
            f"{QUERIES_FILE}, {split}", f"lacks {lacking} queries of the runs, has {extra} others", "the same"
        )
