"""The test runs of each system, one row a seed, as Penha and Hauff (2020, Table 4)."""

from collections.abc import Mapping

import numpy as np

from analysis.checks.collapsed_seeds import find_outlying_seeds
from analysis.data.configurations import Configuration
from analysis.stats.outlying_runs import OutlyingRun
from analysis.tables.section import MAX_COLUMNS, Section
from records.plan import Plan
from trainables.metrics import LOWER_IS_BETTER

_LEGEND = (
    "{metric} on {test} of the runs with each seed. For conclusions use the table of the comparisons, which includes "
    "the variation between seeds. SD: sample standard deviation over seeds. Bold: the best of a row."
)
_OUTLYING = "†"
"""Mark of a run that is far from its system's other seeds."""


def build_seed_section(
    plan: Plan, chosen: Mapping[str, Configuration | None]
) -> tuple[Section | None, list[OutlyingRun]]:
    """Build the test runs of each system's chosen configuration, and find those far from their system's other seeds.

    The section is None if there is no test run with a seed.
    """
    seeds = plan.get_seeds("test")
    runs = {name: _evaluate_runs(plan, chosen.get(name), seeds) for name in plan.systems}
    known = {name: own for name, own in runs.items() if any(values is not None for values in own)}
    if not known:
        return None, []
    missing = np.full(next(len(values) for own in known.values() for values in own if values is not None), np.nan)
    by_system = {name: np.stack([missing if row is None else row for row in own]) for name, own in known.items()}
    outlying = find_outlying_seeds(by_system, seeds, plan.metric)
    values = np.stack([own.mean(axis=1) for own in by_system.values()], axis=1)  # (seeds, systems)
    means = values.mean(axis=0)  # NaN where a seed is missing
    spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(len(means), np.nan)
    names = [*map(str, seeds), "mean", "SD"]
    rows = [[name, *map(_format_number, row)] for name, row in zip(names, [*values, means, spread], strict=True)]
    for run in outlying:
        rows[seeds.index(run.seed)][1 + list(known).index(run.system)] += f" {_OUTLYING}"
    best = np.fmin.reduce if plan.metric in LOWER_IS_BETTER else np.fmax.reduce
    bold = {(at, 1 + int(n)) for at, row in enumerate([*values, means]) for n in np.flatnonzero(row == best(row))}
    legend = _LEGEND.format(metric=plan.metric, test=plan.test_split)
    legend += f" {_OUTLYING} far from the system's other seeds, see the notes." if outlying else ""
    header = ["seed", *known]
    return (
        Section("Seed by seed", header, rows, legend, len(header) > MAX_COLUMNS, frozenset(bold), "seed-by-seed"),
        outlying,
    )


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
