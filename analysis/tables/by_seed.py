"""The test runs of each system, one row a seed, as Penha and Hauff (2020, Table 4)."""

from typing import NamedTuple

import numpy as np

from analysis.checks.collapsed import OutlyingSeed, find_outlying_seeds
from analysis.data.configurations import Configuration
from analysis.data.plan import Plan
from analysis.data.results import Results
from trainables.metrics import LOWER_IS_BETTER
from trainables.utils.arrays import Floats

_LEGEND = (
    "{metric} on {test} of the runs with each seed. For conclusions use the table of the comparisons, which includes "
    "the variation between seeds. SD: sample standard deviation over seeds. Bold: the best of a row."
)
_OUTLYING = "†"
"""Mark of a run that is far from its system's other seeds."""


class SeedTable(NamedTuple):
    """The table of test runs by seed.

    Attributes:
        systems: the plan's systems that have a test run with a seed.
        seeds: seeds declared for the test.
        values: (seeds, systems) mean over queries of each run; NaN if it is missing.
        outlying: runs that are far from their system's other seeds.
    """

    systems: list[str]
    seeds: tuple[int, ...]
    values: Floats
    outlying: list[OutlyingSeed]

    def to_cells(self, metric: str) -> tuple[list[str], list[list[str]], frozenset[tuple[int, int]]]:
        """Return header, rows as plain text, and the places (row, column) of the best cells of each row."""
        values, means = self.values, self.values.mean(axis=0)  # NaN where a seed is missing
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(len(means), np.nan)
        names = [*map(str, self.seeds), "mean", "SD"]
        rows = [[name, *map(_format_number, row)] for name, row in zip(names, [*values, means, spread], strict=True)]
        for run in self.outlying:
            rows[self.seeds.index(run.seed)][1 + self.systems.index(run.system)] += f" {_OUTLYING}"
        best = np.fmin.reduce if metric in LOWER_IS_BETTER else np.fmax.reduce
        bold = {(at, 1 + int(n)) for at, row in enumerate([*values, means]) for n in np.flatnonzero(row == best(row))}
        return ["seed", *self.systems], rows, frozenset(bold)

    def format_legend(self, plan: Plan) -> str:
        """Return the legend of the table."""
        legend = _LEGEND.format(metric=plan.metric, test=plan.test_split)
        return legend + (f" {_OUTLYING} far from the system's other seeds, see the notes." if self.outlying else "")


def build_seed_table(results: Results, chosen: dict[str, Configuration | None]) -> SeedTable | None:
    """Build the table from the test runs of each system's chosen configuration; None without any."""
    plan, seeds = results.plan, results.plan.get_seeds("test")
    runs = {name: _evaluate_runs(plan, chosen.get(name), seeds) for name in plan.systems}
    known = {name: own for name, own in runs.items() if any(values is not None for values in own)}
    if not known:
        return None
    missing = np.full(next(len(values) for own in known.values() for values in own if values is not None), np.nan)
    by_system = {name: np.stack([missing if row is None else row for row in own]) for name, own in known.items()}
    means = np.stack([own.mean(axis=1) for own in by_system.values()], axis=1)
    return SeedTable(list(known), seeds, means, find_outlying_seeds(by_system, seeds, plan.metric))


def _evaluate_runs(plan: Plan, configuration: Configuration | None, seeds: tuple[int, ...]) -> list[np.ndarray | None]:
    """Return (queries,) values of each seed's run.

    A seed is None if its run is missing, failed, not tested, or has a NaN score.
    """
    runs = [configuration.runs.get(seed) if configuration else None for seed in seeds]
    tested = [run if run is not None and run.is_finished and plan.test_split in run.files else None for run in runs]
    values = [None if run is None else run.evaluate_queries(plan.test_split, plan.metric).to_numpy() for run in tested]
    return [None if own is None or np.isnan(own).any() else own for own in values]


def _format_number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4f}"
