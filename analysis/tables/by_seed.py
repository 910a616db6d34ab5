"""Every test run against the runs of the same seed of the baseline and of the shuffled order.

Penha and Hauff (2020, Table 4) mark the runs against the shuffled order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from analysis.checks.collapsed import OutlyingSeed, find_outlying_seeds
from analysis.data.configurations import Configuration
from analysis.data.plan import Plan
from analysis.data.results import Results
from analysis.stats.paired_tests import differences, estimate_each_seed
from analysis.tables.marks import format_seed_legend, get_seed_mark
from trainables.metrics import LOWER_IS_BETTER

_SHUFFLED = "random"
"""Difficulty score of a system whose order is shuffled."""
_LEGEND = (
    "{metric} on {test} of the runs with each seed. Marks: {marks}{shuffled}, by a paired t-test over the queries with "
    "that seed alone. These tests are uncorrected, one a seed, as in the paper. For conclusions use the table of the "
    "comparisons, which is corrected and includes the variation between seeds. SD: sample standard deviation over "
    "seeds. Bold: the best of a row."
)

_TABLE_4 = " (the marks of Penha and Hauff 2020, Table 4)"

_OUTLYING = "†"
"""Mark of a run that is far from its system's other seeds."""


class SeedCell(NamedTuple):
    """Mean of a run over queries, and its marks."""

    value: float
    marks: str

    def to_text(self) -> str:
        """Format the value and the marks."""
        return f"{self.value:.4f} {self.marks}".rstrip()


class SeedTable(NamedTuple):
    """The table of test runs by seed.

    Attributes:
        baseline: baseline of the marks.
        systems: the plan's systems that have a test run with a seed.
        seeds: seeds declared for the test.
        rows: one row a seed, with one cell a system. A cell is None if the run is missing.
        shuffled: systems with a shuffled order, with which the plan compares others.
        outlying: runs that are far from their system's other seeds.
    """

    baseline: str
    systems: list[str]
    seeds: tuple[int, ...]
    rows: list[list[SeedCell | None]]
    shuffled: list[str]
    outlying: list[OutlyingSeed]

    def to_cells(self, metric: str) -> tuple[list[str], list[list[str]], frozenset[tuple[int, int]]]:
        """Return header, rows as plain text, and the places (row, column) of the best cells of each row."""
        values = np.array([[np.nan if cell is None else cell.value for cell in row] for row in self.rows])
        means = values.mean(axis=0)  # NaN where a seed is missing
        lines = [
            [str(seed), *("-" if cell is None else cell.to_text() for cell in row)]
            for seed, row in zip(self.seeds, self.rows, strict=True)
        ]
        lines.append(["mean", *map(_format_number, means)])
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(len(means), np.nan)
        lines.append(["SD", *map(_format_number, spread)])
        best = np.fmin.reduce if metric in LOWER_IS_BETTER else np.fmax.reduce
        shown = [*values, means]
        bold = {(at, 1 + int(n)) for at, row in enumerate(shown) for n in np.flatnonzero(row == best(row))}
        return ["seed", *self.systems], lines, frozenset(bold)

    def format_legend(self, plan: Plan) -> str:
        """Return the legend of the table."""
        order = f"the shuffled order ({', '.join(self.shuffled)})"
        legend = plan.adapt_to_unit(_LEGEND).format(
            metric=plan.metric,
            test=plan.test_split,
            marks=format_seed_legend(self.baseline),
            shuffled=f"; {format_seed_legend(order, kind=1)}{_TABLE_4}" if self.shuffled else "",
        )
        return legend + (f" {_OUTLYING} far from the system's other seeds, see the notes." if self.outlying else "")


def build_seed_table(results: Results, chosen: dict[str, Configuration | None]) -> SeedTable | None:
    """Build the table from the test runs of each system's chosen configuration; None without any."""
    plan = results.plan
    seeds, baseline = plan.get_seeds("test"), plan.headline.comparisons[0][1]
    orders = _find_shuffled_orders(plan, chosen)
    by_system = {name: _evaluate_runs(plan, chosen.get(name), seeds) for name in (*plan.systems, baseline)}
    systems = [name for name in plan.systems if any(values is not None for values in by_system[name])]
    if not systems:
        return None
    rows = []
    for index in range(len(seeds)):
        own = {name: values[index] for name, values in by_system.items()}
        rows.append([_build_cell(plan, own[name], (own[baseline], own.get(orders.get(name, "")))) for name in systems])
    outlying = _find_outlying(plan, {name: by_system[name] for name in systems}, seeds)
    for run in outlying:
        row, column = seeds.index(run.seed), systems.index(run.system)
        if cell := rows[row][column]:
            rows[row][column] = cell._replace(marks=cell.marks + _OUTLYING)
    return SeedTable(baseline, systems, seeds, rows, list(dict.fromkeys(orders.values())), outlying)


def _find_outlying(
    plan: Plan, by_system: dict[str, list[np.ndarray | None]], seeds: tuple[int, ...]
) -> list[OutlyingSeed]:
    """Return the runs that are far from their system's other seeds; a missing run is a row of NaN."""
    queries = next(len(values) for runs in by_system.values() for values in runs if values is not None)
    missing = np.full(queries, np.nan)
    values = {name: np.stack([missing if own is None else own for own in runs]) for name, runs in by_system.items()}
    return find_outlying_seeds(values, seeds, plan.metric)


def _find_shuffled_orders(plan: Plan, chosen: dict[str, Configuration | None]) -> dict[str, str]:
    """Return the system with a shuffled order that the plan compares a system with, by system."""
    orders = dict[str, str]()
    for system, other in plan.headline.comparisons:
        configuration = chosen.get(other)
        runs = configuration.runs.values() if configuration else ()
        if other in plan.systems and any(run.config.get("score") == _SHUFFLED for run in runs):
            orders.setdefault(system, other)
    return orders


def _evaluate_runs(plan: Plan, configuration: Configuration | None, seeds: tuple[int, ...]) -> list[np.ndarray | None]:
    """Return (queries,) values of each seed's run.

    A seed is None if its run is missing, failed, not tested, or has a NaN score.
    """
    runs = [configuration.runs.get(seed) if configuration else None for seed in seeds]
    tested = [run if run is not None and run.is_finished and plan.test_split in run.files else None for run in runs]
    values = [None if run is None else run.evaluate_queries(plan.test_split, plan.metric).to_numpy() for run in tested]
    return [None if own is None or np.isnan(own).any() else own for own in values]


def _build_cell(plan: Plan, values: np.ndarray | None, others: Sequence[np.ndarray | None]) -> SeedCell | None:
    """Return the mean of a run, with a mark for each run of the same seed that it is compared with."""
    if values is None:
        return None
    marks = ""
    for kind, other in enumerate(others):
        if other is not None and len(values) > 1:
            (estimate,) = estimate_each_seed(differences(values, other))
            gain = estimate.mean * (-1 if plan.metric in LOWER_IS_BETTER else 1)
            marks += get_seed_mark(estimate.test().p, gain, kind)
    return SeedCell(float(values.mean()), marks)


def _format_number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4f}"
