"""Every number of the report, before it is formatted: the main table, the comparisons and the other tables."""

from dataclasses import dataclass

import numpy as np

from analysis.checks.collapsed_seeds import find_outlying_seeds, name_outlying_seeds
from analysis.checks.equal_rankers import EqualRankers, examine_equal_rankers
from analysis.comparisons.declared import compare_systems
from analysis.comparisons.ensembles import EnsembleRow, build_ensembles
from analysis.comparisons.interim_results import InterimTests, choose_tested
from analysis.comparisons.pilot import estimate_test_components
from analysis.data.configurations import (
    Configuration,
    Score,
    count_seeds_of_pruned,
    evaluate_run,
    mean_and_std,
)
from analysis.data.study_results import Results
from analysis.stats.comparison import Comparison
from analysis.stats.outlying_runs import OutlyingRun
from analysis.stats.paired_tests import estimate_interval
from analysis.stats.variance_components import VarianceComponents
from analysis.tables.by_metric import build_metric_section, build_retrieval_section
from analysis.tables.collections import build_collection_section
from analysis.tables.confirmation import ConfirmedConfiguration, build_confirmation
from analysis.tables.section import Section
from analysis.tables.strata import StrataTable, build_strata_table
from records.plan import Phase, Plan


@dataclass(frozen=True)
class SystemRow:
    """One system in the main table.

    Attributes:
        configuration: id of its chosen configuration.
        settings: the other hyperparameters in which the system's configurations differ, in words.
        dev: mean and sample standard deviation over seeds on the search split. None if incomplete.
        test: mean and sample standard deviation over seeds on the test split. None if incomplete.
        interval: 95 % interval of the mean on the test split, for new queries and new seeds, see `estimate_interval`.
        note: why the system is incomplete; empty if it is complete.
    """

    system: str
    configuration: str | None
    strength: float | None
    switch: float | None
    settings: str
    dev: Score | None
    test: Score | None
    interval: tuple[float, float] | None
    note: str

    @property
    def fault(self) -> str:
        """That the system is incomplete, and why; empty if it is complete."""
        return f"{self.system} is incomplete: {self.note}" if self.note else ""


@dataclass(frozen=True)
class MainTable:
    """The main table.

    Attributes:
        rows: one row a system.
        notes: what is incomplete or pruned.
        seeds: number of seeds of the test scores.
        queries: number of queries of the test split, or of its pairs of sentences.
        scored_in: precisions that the models' scores were computed in, if runs recorded them.
    """

    rows: list[SystemRow]
    notes: list[str]
    seeds: int
    queries: int
    scored_in: list[str]


@dataclass(frozen=True)
class ReportData:
    """Everything that the report shows, except the figures."""

    results: Results
    configurations: list[Configuration]
    chosen: dict[str, Configuration | None]
    table: MainTable
    comparisons: list[Comparison]
    looks: InterimTests | None
    confirmed: list[ConfirmedConfiguration]
    strata: StrataTable | None
    ensembles: list[EnsembleRow]
    variance: VarianceComponents | None
    """Variance components of the headline's systems on the test split, to plan a larger study with."""
    outlying_seeds: list[OutlyingRun]
    """The test runs that look collapsed, or have other seeds of their system that do."""
    equal_rankers: EqualRankers | None
    """What the usual test makes of two seeds of one system. None if there are fewer than four seeds."""
    by_metric: Section | None
    by_retrieval_metric: Section | None
    by_collection: Section | None


def build_report_data(results: Results) -> ReportData:
    """Choose configurations, compare the systems and build all tables.

    Raises:
        UserError: if the runs cannot be compared; see `choose_tested`.
    """
    results, configurations, chosen, looks = choose_tested(results)
    plan = results.plan
    outlying = _find_outlying_runs(plan, chosen)
    comparisons = name_outlying_seeds(compare_systems(plan, chosen), outlying)
    return ReportData(
        results=results,
        configurations=configurations,
        chosen=chosen,
        table=_build_main_table(results, configurations, chosen),
        comparisons=comparisons,
        looks=looks,
        confirmed=build_confirmation(results, configurations),
        strata=build_strata_table(results, chosen),
        ensembles=build_ensembles(results, chosen),
        variance=estimate_test_components(plan, chosen),
        outlying_seeds=outlying,
        equal_rankers=_examine_seeds(plan, chosen),
        by_metric=build_metric_section(plan, chosen),
        by_retrieval_metric=build_retrieval_section(plan, chosen),
        by_collection=build_collection_section(plan, chosen, comparisons),
    )


_MAX_NAMED = 8
"""Most names that a note lists before it only counts the rest."""


def _build_main_table(
    results: Results,
    configurations: list[Configuration],
    chosen: dict[str, Configuration | None],
) -> MainTable:
    plan = results.plan
    rows = [_build_row(results, name, chosen[name]) for name in plan.all_systems]
    notes = [row.fault for row in rows if row.fault]
    notes += _describe_incomplete(plan, configurations, chosen) + _describe_pruned(results, configurations)
    known = [c for c in chosen.values() if c is not None]
    tested = [c.evaluate_queries(plan, "test") for c in known]
    return MainTable(
        rows=rows,
        notes=notes,
        seeds=len(plan.get_seeds("test")),
        queries=max((len(value[0]) for value in tested if value is not None), default=0),
        scored_in=sorted({run.scoring_precision for c in known for run in c.runs.values()} - {""}),
    )


def _describe_incomplete(
    plan: Plan, configurations: list[Configuration], chosen: dict[str, Configuration | None]
) -> list[str]:
    """Describe incomplete configurations that are not chosen, and runs with seeds that are not declared."""
    notes, declared = [], {*plan.seeds, *plan.confirm_seeds}
    shown = {c.id for c in chosen.values() if c is not None}
    for configuration in configurations:
        named = f"{configuration.label} [{configuration.id}]"
        if configuration.pruned:
            if configuration.is_tested(plan):
                notes.append(f"{named} has {plan.test_split} scores, not used: it was pruned by racing")
        elif configuration.id not in shown:
            phase: Phase = "test" if configuration.system in chosen and configuration.is_tested(plan) else "search"
            if faults := configuration.find_faults(plan, phase):
                notes.append(f"{named} is incomplete: {'; '.join(faults)}")
        extra = sorted(seed for seed in configuration.runs if seed is not None and seed not in declared)
        if extra:
            notes.append(f"{named} has undeclared seeds, not used: {extra}")
    return notes


def _describe_pruned(results: Results, configurations: list[Configuration]) -> list[str]:
    """Describe all configurations that racing pruned, in one line, by their number of seeds."""
    labels = {c.id: f"{c.label} [{c.id}]" for c in configurations}
    after: dict[int, list[str]] = {}
    for key, seeds in count_seeds_of_pruned(results).items():
        after.setdefault(seeds, []).append(labels.get(key, f"[{key}]"))
    parts = [
        f"after {seeds} of {len(results.plan.seeds)} seeds: {', '.join(names[:_MAX_NAMED])}"
        + (f", and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else "")
        for seeds, names in sorted(after.items())
    ]
    return [f"pruned by racing {'; '.join(parts)}"] if parts else []


def _build_row(results: Results, name: str, configuration: Configuration | None) -> SystemRow:
    plan, c = results.plan, configuration
    if c is None:
        return SystemRow(name, None, None, None, "", None, None, None, f"no {plan.test_split} scores")
    faults = c.find_faults(plan, "test") or c.find_faults(plan, "search")
    dev, values = mean_and_std(c.evaluate_queries(plan, "search")), c.evaluate_queries(plan, "test")
    test, interval = mean_and_std(values), None if values is None else estimate_interval(values)
    settings = ", ".join(c.settings)
    return SystemRow(name, c.id, c.strength or None, c.switch, settings, dev, test, interval, "; ".join(faults))


def _examine_seeds(plan: Plan, chosen: dict[str, Configuration | None]) -> EqualRankers | None:
    values = {name: c.evaluate_queries(plan, "test") for name in plan.systems if (c := chosen[name])}
    return examine_equal_rankers({name: own for name, own in values.items() if own is not None})


def _find_outlying_runs(plan: Plan, chosen: dict[str, Configuration | None]) -> list[OutlyingRun]:
    """Find the test runs that are far from their system's other seeds; a missing or failed run is none."""
    seeds = plan.get_seeds("test")
    runs = {
        name: [c.runs.get(seed) if c else None for seed in seeds] for name, c in chosen.items() if name in plan.systems
    }
    values = {name: [evaluate_run(plan, run) if run else None for run in own] for name, own in runs.items()}
    sizes = {len(row) for own in values.values() for row in own if row is not None}
    missing = np.full(max(sizes, default=0), np.nan)
    known = {name: own for name, own in values.items() if any(row is not None for row in own)}
    stacked = {name: np.stack([missing if row is None else row for row in own]) for name, own in known.items()}
    return find_outlying_seeds(stacked, seeds, plan.metric)
