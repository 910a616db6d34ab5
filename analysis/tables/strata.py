"""Error analysis: the metric of each system by turns, domain or difficulty of the queries.

After Penha and Hauff (2020), Figures 5 and 6.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.data.configurations import Configuration
from analysis.data.study_results import Results
from analysis.stats.paired_tests import differences_or_none, estimate_interval
from analysis.tables.query_strata import MAX_GROUPS, MIN_QUERIES, QueryAttribute, group_queries
from analysis.tables.section import Section
from records.plan import Plan
from records.queries import QUERIES_FILE
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

COLUMNS = [
    "attribute", "stratum", "system", "queries", "mean", "low", "high", "difference", "difference_low",
    "difference_high",
]  # fmt: skip
_LEGEND = (
    "Exploratory: not declared, and not corrected for the number of strata. {best} is the best of the plan's other "
    "systems on {dev}. In brackets: 95 % intervals for {target}, of each system's mean over the queries of the "
    "row, and of the paired difference {best} \N{MINUS SIGN} {baseline}. All systems are in strata.csv."
)
_GROUPING_TEXTS = {
    "turns": f"A group takes adjacent numbers of turns, from the fewest up, until it has {MIN_QUERIES} queries. There "
    f"are at most {MAX_GROUPS} groups; the last takes the rest.",
    "domain": f"The {MAX_GROUPS} most frequent domains, then the others together.",
}
_TERCILES = "Thirds of the queries by this difficulty, the easiest first; ties by the SHA-256 of the query's id."
_OWN_SCORES = (
    " This difficulty comes from a trained run's scores of the same queries. For that reason alone, any other system "
    "looks worse on the easy and better on the difficult ones, so these differences have no interval."
)


class Interval(NamedTuple):
    """A mean and its 95 % interval; the bounds are None if there is none."""

    mean: float
    low: float | None
    high: float | None

    def to_text(self, sign: str = "") -> str:
        """Format mean and interval.

        Args:
            sign: sign option of the number format, such as "+".
        """
        bounds = "" if self.low is None else f" [{self.low:{sign}.4f}, {self.high:{sign}.4f}]"
        return f"{self.mean:{sign}.4f}{bounds}"


class StratumScore(NamedTuple):
    """A system's metric among the queries of a stratum.

    Attributes:
        value: mean of the system.
        difference: system minus first baseline. None for the baseline itself, and if it is incomplete.
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
    """The error analysis.

    Attributes:
        shown: the first baseline, and the best of the plan's other systems on the development set.
        attributes: attributes of the queries.
        rows: scores by attribute, stratum and system, in the plan's order of systems.
    """

    shown: tuple[str, str]
    attributes: list[QueryAttribute]
    rows: list[StratumScore]

    def select(self, attribute: str, system: str) -> list[StratumScore]:
        """Return the scores of a system by an attribute, in order of strata."""
        return [row for row in self.rows if (row.attribute, row.system) == (attribute, system)]

    def to_sections(self, plan: Plan) -> list[Section]:
        """Return one table for each attribute, with the first baseline and the best other system."""
        seeds, sections = len(plan.get_seeds("test")), list[Section]()
        reading = _LEGEND.format(
            baseline=self.shown[0],
            best=self.shown[1],
            dev=plan.search_split,
            target="new queries and new seeds (two-way random effects)" if seeds > 1 else "new queries (one seed)",
        )
        for attribute in self.attributes:
            baseline, best = (self.select(attribute.name, system) for system in self.shown)
            rows = [
                [base.stratum, str(base.queries), base.value.to_text(), row.value.to_text(), row.difference_text]
                for base, row in zip(baseline, best, strict=True)
            ]
            grouping = _TERCILES + (_OWN_SCORES if attribute.is_from_run else "")
            grouping = _GROUPING_TEXTS.get(attribute.name, grouping)
            sections.append(
                Section(
                    f"By {attribute.title}, on {plan.test_split}",
                    [attribute.title, "queries", *self.shown, "difference"],
                    rows,
                    f"{grouping} {reading}" if attribute is self.attributes[-1] else grouping,
                )
            )
        return sections

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with `COLUMNS`, one row a stratum and system."""
        nothing = Interval(np.nan, None, None)
        rows = [(*row[:4], *row.value, *(row.difference or nothing)) for row in self.rows]
        return pd.DataFrame(rows, columns=COLUMNS)


def build_strata_table(results: Results, chosen: dict[str, Configuration | None]) -> StrataTable | None:
    """Compute the test metric of every complete system by each attribute of the queries.

    None if the queries have no attributes, or a shown system is incomplete.

    Raises:
        UserError: if the table of queries does not have exactly the queries that the runs rank.
    """
    plan, split = results.plan, results.plan.test_split
    if results.queries is None:
        return None
    values = {name: c.evaluate_queries(plan, "test") for name, c in chosen.items() if c is not None}
    known = {name: scores for name, scores in values.items() if scores is not None}
    shown = _select_shown(plan, chosen, list(known))
    if shown is None:
        return None
    queries = results.queries[results.queries["split"] == split]
    first = chosen[shown[0]]
    assert first is not None  # it is complete
    run = first.runs[first.expected_seeds(plan, "test")[0]]
    _check_queries(queries, run.evaluate_queries(split, plan.metric).index, split)
    attributes, rows = group_queries(queries), []
    for attribute in attributes:
        for index, stratum in enumerate(attribute.strata):
            mask = attribute.stratum_indices == index
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
    return StrataTable(shown, attributes, rows) if attributes else None


def compute_interval(values: Floats) -> Interval:
    """Compute mean and 95 % interval of (seeds, queries) values; there is no interval of one query.

    Example:
        >>> import numpy as np
        >>> compute_interval(np.array([[0.5, 0.5, 1.0, 0.0]])).to_text()
        '0.5000 [-0.1496, 1.1496]'
    """
    bounds = estimate_interval(values) if values.shape[1] > 1 else None
    return Interval(float(values.mean()), *(bounds or (None, None)))


def _compute_difference(gap: Floats, attribute: QueryAttribute) -> Interval:
    """Compute the difference, without an interval if the difficulty comes from a trained run.

    Queries that a run found difficult are partly those on which it happened to be wrong. No test accounts for that.
    """
    interval = compute_interval(gap)
    return Interval(interval.mean, None, None) if attribute.is_from_run else interval


def _select_shown(plan: Plan, judged: dict[str, Configuration | None], known: list[str]) -> tuple[str, str] | None:
    """Return the first baseline and the best other system on the development set.

    None if the baseline is incomplete, or every other system is.
    """
    baseline = plan.headline.comparisons[0][1]
    if baseline not in known:
        return None
    others = [name for name in plan.systems if name in known and name != baseline]
    level = {name: level for name in others if (level := _compute_level(plan, judged[name])) is not None}
    return (baseline, max(level, key=level.__getitem__)) if level else None


def _compute_level(plan: Plan, configuration: Configuration | None) -> float | None:
    """Compute the score on the development set, with the sign such that more is better.

    None if a run is missing.
    """
    values = configuration.evaluate_queries(plan, "search") if configuration else None
    return None if values is None else float(values.mean()) * (-1 if plan.metric in LOWER_IS_BETTER else 1)


def _check_queries(queries: pd.DataFrame, ranked: "pd.Index[str]", split: str) -> None:
    """Check that the table has the same queries as the runs, in the same order."""
    known = queries["query_id"].tolist()
    if known != ranked.tolist():
        missing, extra = len(set(ranked) - set(known)), len(set(known) - set(ranked))
        raise UserError(
            f"{QUERIES_FILE}, {split}", f"lacks {missing} queries of the runs, has {extra} others", "the same queries"
        )
