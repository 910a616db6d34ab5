"""The tables in addition to the main one, as plain text; each format of the report shows some of them."""

import re
from typing import NamedTuple

from analysis.checks import ranks
from analysis.checks.worst_seeds import describe_sensitivity
from analysis.data.configurations import describe_dev_choice
from analysis.data.cost import compute_run_seconds
from analysis.data.results import DataStatistics
from analysis.data.run import Run
from analysis.rendering import cells as render
from analysis.rendering import setup
from analysis.rendering.pooling import describe_pooling
from analysis.stats.comparison import Comparison
from analysis.stats.multiple_testing import CORRECTIONS
from analysis.tables import confirmation, dev_only
from analysis.tables.main import ReportData, format_p_value
from trainables.metrics import LOWER_IS_BETTER

_READING = (
    "p and the corrected p ask whether the methods differ on new queries and with new seeds (two-way random effects), "
    "which is what “the method is better” means; with one seed they ask about new queries only. p (queries) asks "
    "whether these trained checkpoints differ on new queries, p (seeds) whether other seeds would differ on these "
    f"queries. {render.QUERIES_BONFERRONI}, corrected for the family, is the test of the paper (Penha and Hauff 2021): "
    "do these trained checkpoints differ on new queries; it says nothing about new seeds. Intervals hold for all "
    "comparisons of the family at once, and the verdict is corrected for them. MDE: minimum detectable effect, the "
    "difference that the test finds with about 80 % power, estimated with the spread over seeds of the whole family."
)
_RECORD = " W/T/L: queries won, tied and lost."
_PSEUDO_VALUES = (
    " The tests use jackknife pseudo-values of distinct pairs; their mean is the correlation. A pair that occurs "
    "several times counts once if the scores have its pair_id."
)
_CORRECTED = (
    "p as in the comparisons, uncorrected and by every correction for the comparisons of the family; the plan's "
    "correction decides. p (classical): the published test of the same question, for several readers and cases "
    "(Obuchowski and Rockette 1995, degrees of freedom of Hillis 2007), uncorrected; it has no caution for few seeds. "
    "Seed by seed: the paired t-test over queries with each seed alone, uncorrected."
)
_DEV = (
    "Scores on {split}, over the seeds of the search. The family has a correction of its own; the columns are those of "
    "the other comparisons. "
)
_OPTIMISTIC = (
    "These scores are optimistic: {what} were chosen by them, so part of a difference may be luck, for which p does "
    "not account. For claims, read the comparisons on {test}."
)
_NOTHING_CHOSEN = "Nothing was chosen by these scores: every system has one configuration."
_NUMBER = re.compile(r"[\[<]?[+-]?(\d[\d,]*(\.\d*)?|\.\d+)(e[+-]?\d+)?(?=$|[ ,/±])")
_CLASSICAL = "p (classical)"
_NONE = ("-", "incomplete", "")
"""Cells without a value."""
_MAX_COLUMNS = 8
"""Most columns of scores on an upright page."""
_SCORING = " Role scorer: the difficulty model{seed}; it only computes difficulty scores and belongs to no system."


class Section(NamedTuple):
    """One table of the report.

    Attributes:
        title: title of the table.
        header: titles of the columns.
        rows: cells as plain text.
        legend: description of the columns.
        is_wide: True if the table does not fit on an upright page.
        bold: bold cells, by row and column.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    legend: str
    is_wide: bool = False
    bold: frozenset[tuple[int, int]] = frozenset()

    @property
    def numeric_columns(self) -> set[int]:
        """Indices of the columns that hold numbers and nothing else."""
        columns = enumerate([row[index] for row in self.rows] for index in range(len(self.header)))
        known = {index: [cell for cell in cells if cell not in _NONE] for index, cells in columns}
        return {index for index, cells in known.items() if cells and all(map(_NUMBER.match, cells))}


def build_comparison_sections(analysis: ReportData) -> list[Section]:
    """Build the declared comparisons, one table a family."""
    plan, sections = analysis.results.plan, []
    for family in plan.families:
        own = [c for c in analysis.comparisons if c.family == family.name]
        legend = describe_dev_scores(analysis) if family.phase != "test" else ""
        if [family] == plan.test_families[-1:]:
            legend = plan.adapt_to_unit(_READING) + (_RECORD if plan.unit == "query" else _PSEUDO_VALUES)
            legend += f" {describe_sensitivity([c for c in analysis.comparisons if c.split is None])}".rstrip()
        if pooling := describe_pooling(own, plan.seed_variance):
            legend = f"{legend} {plan.adapt_to_unit(pooling)}".lstrip()
        title = f"Comparisons: {family.name} ({len(own)}, {family.correction})"
        sections.append(Section(title, *render.format_comparisons(own, family.correction, plan.unit), legend))
    return sections


def build_group_sections(analysis: ReportData) -> list[Section]:
    """Build the rank intervals and groups of the headline's systems, if three or more are complete."""
    own, plan = analysis.ranks, analysis.results.plan
    if not own:
        return []
    rows, legend = [each.to_cells() for each in own], ranks.describe_ranks(len(own), plan.alpha)
    return [Section("Groups", ranks.HEADER, rows, f"Mean {plan.metric} on {plan.test_split}. {legend}")]


def describe_dev_scores(analysis: ReportData) -> str:
    """Describe what the comparisons on the development set are worth."""
    plan = analysis.results.plan
    what = describe_dev_choice(plan, analysis.configurations)
    caution = _OPTIMISTIC.format(what=what, test=plan.test_split) if what else _NOTHING_CHOSEN
    return _DEV.format(split=plan.search_split) + caution


def build_metric_sections(analysis: ReportData) -> list[Section]:
    """Build the systems by every metric, if the plan has several and something is tested."""
    plan, table = analysis.results.plan, analysis.metric_table
    if table is None:
        return []
    header, rows, bold = table.to_cells()
    title = f"By {'set' if plan.is_correlation else 'metric'}, on {plan.test_split}"
    return [Section(title, header, rows, table.format_legend(plan), len(header) > _MAX_COLUMNS, bold)]


def build_retrieval_sections(analysis: ReportData) -> list[Section]:
    """Build the systems by the usual metrics of retrieval, if candidates were retrieved and something is tested."""
    table = analysis.retrieval
    if table is None:
        return []
    header, rows, bold = table.to_cells()
    title = f"Metrics of retrieval, on {analysis.results.plan.test_split}"
    return [Section(title, header, rows, table.legend, bold=bold)]


def build_dev_sections(analysis: ReportData) -> list[Section]:
    """Build all configurations on the development set, if nothing is tested."""
    plan = analysis.results.plan
    if not dev_only.is_untested(plan, analysis.configurations):
        return []
    legend = dev_only.LEGEND.format(test=plan.test_split)
    return [
        Section(
            f"Configurations, on {plan.search_split}", *dev_only.format_table(plan, analysis.configurations), legend
        )
    ]


def build_corrections_section(analysis: ReportData) -> Section:
    """Build the p-value of each comparison by every correction, and seed by seed."""
    header = ["family", "system", "baseline", "comparisons", "p", _CLASSICAL, *CORRECTIONS, "seed by seed"]
    rows, plan = [_format_corrections(c) for c in analysis.comparisons], analysis.results.plan
    if len(plan.metrics) > 1:
        header.insert(3, "metric")
        for row, c in zip(rows, analysis.comparisons, strict=True):
            row.insert(3, c.metric)
    return Section("Corrections", header, rows, plan.adapt_to_unit(_CORRECTED))


def build_seed_sections(analysis: ReportData) -> list[Section]:
    """Build the test runs, one row a seed, if something is tested."""
    plan, table = analysis.results.plan, analysis.seed_table
    if table is None:
        return []
    header, rows, bold = table.to_cells(plan.metric)
    return [
        Section("Seed by seed", header, rows, table.format_legend(plan), is_wide=len(header) > _MAX_COLUMNS, bold=bold)
    ]


def build_ensemble_sections(analysis: ReportData) -> list[Section]:
    """Build the ensembles of the seeds, if systems were tested with several."""
    table = analysis.ensembles
    if table is None:
        return []
    header = ["ensemble", "mean of the seeds", "ensemble's", "gain", "from the baseline's", "interval", "p", "verdict"]
    rows = []
    for row in table.rows:
        c, cells = row.comparison, [f"{row.mean:.4f}", f"{row.value:.4f}", f"{row.value - row.mean:+.4f}"]
        compared = ["-"] * 4
        if c is not None and c.difference is not None and c.interval is not None:
            low, high = c.interval
            p_value = format_p_value(c.adjusted[table.correction])
            compared = [f"{c.difference:+.4f}", f"[{low:+.4f}, {high:+.4f}]", p_value, c.verdict]
        rows.append([row.system, *cells, *compared])
    return [Section("Ensembles of the seeds", header, rows, table.legend)]


def build_strata_sections(analysis: ReportData) -> list[Section]:
    """Build the error analysis, one table for each attribute of the queries."""
    plan, strata = analysis.results.plan, analysis.strata
    if strata is None:
        return []
    split, last = plan.get_split(strata.phase), strata.attributes[-1]
    reading = f" {strata.format_legend(plan)}"
    return [
        Section(
            f"By {attribute.title}, on {split}",
            *strata.to_cells(attribute),
            strata.describe_strata(attribute) + (reading if attribute is last else ""),
        )
        for attribute in strata.attributes
    ]


def build_sample_size_sections(analysis: ReportData) -> list[Section]:
    """Build the sample size that another study would need, if this one can estimate it."""
    return [Section("Another study", *analysis.sample_size)] if analysis.sample_size else []


def build_search_sections(analysis: ReportData) -> list[Section]:
    """Build the confirmation of the search's gains, if the study has one."""
    if not analysis.confirmed:
        return []
    rows, legend = confirmation.format_rows(analysis.confirmed), confirmation.format_legend(analysis.results.plan)
    return [Section("Search, confirmed and test", confirmation.HEADER, rows, legend)]


def build_setup_sections(analysis: ReportData) -> list[Section]:
    """Build the setup of the study: model, data, training, date, code and machines."""
    rows = setup.build_setup_rows(analysis.results)
    return [Section("Setup", setup.HEADER, rows, setup.LEGEND)] if rows else []


def build_data_sections(statistics: DataStatistics | None) -> list[Section]:
    """Build the statistics of the data, if the study has them."""
    if statistics is None:
        return []
    header, rows = statistics.to_cells()
    return [Section("Data", header, rows, statistics.legend, is_wide=len(header) > _MAX_COLUMNS)]


def build_runs_section(analysis: ReportData) -> Section:
    """Build the table of all runs, including those that were killed."""
    plan = analysis.results.plan
    splits = (plan.search_split, plan.test_split)
    further = [name for name in dict.fromkeys([*plan.search_objectives, *LOWER_IS_BETTER]) if name != plan.metric]
    logged_keys = {key for run in analysis.results.runs for key in run.summary}
    keys = [f"{split}/{name}" for name in further for split in splits if f"{split}/{name}" in logged_keys]
    header = ["system", "settings", "seed", "W&B run", "role", "state", *(f"{s} {plan.metric}" for s in splits),
              *(key.replace("/", " ") for key in keys), "seconds", "trained", "shared", "configuration"]  # fmt: skip
    rows = [
        [
            c.system,
            c.description or "-",
            "-" if seed is None else str(seed),
            *_format_run(analysis, run, splits, keys),
            c.id,
        ]
        for c in analysis.configurations
        for seed, run in sorted(c.runs.items(), key=lambda item: -1 if item[0] is None else item[0])
    ]
    scoring = [run for run in analysis.results.runs if run.is_difficulty_scorer]
    rows += [
        ["-", "-", str(run.seed), *_format_run(analysis, run, splits, keys), run.config["configuration_id"]]
        for run in scoring
    ]
    absent = ["-"] * (len(header) - 6)
    rows += [["-", "-", "-", run.id, "-", "unfinished", *absent] for run in analysis.results.unfinished]
    legend = (
        f"{plan.metric} of each run is computed from its scores, other metrics are as logged. Seconds: training and "
        "evaluation. Trained: instances trained on. Shared: instances that another run had already trained on."
    )
    if scoring:
        legend += _SCORING.format(seed="" if plan.scorer_seed is None else f", with seed {plan.scorer_seed}")
    return Section("Runs", header, rows, legend, is_wide=True)


def _format_corrections(c: Comparison) -> list[str]:
    values = [c.p, c.classical, *(c.adjusted[name] for name in CORRECTIONS)]
    alone = ", ".join(format_p_value(p) for p in c.each_seed) or "-"
    return [c.family, c.system, c.baseline, str(c.comparisons), *map(format_p_value, values), alone]


def _format_run(analysis: ReportData, run: Run, splits: tuple[str, str], keys: list[str]) -> list[str]:
    plan, spent = analysis.results.plan, compute_run_seconds(run, splits[1])
    error = "" if run.is_finished else run.summary.get("error")
    state = f"{run.summary.get('state')}{f': {error}' if error else ''}"
    scored = [
        f"{run.evaluate_queries(split, plan.metric).mean(skipna=False):.4f}"
        if run.is_finished and split in run.files
        else "-"
        for split in splits
    ]
    others = [f"{value:.4f}" if isinstance(value := run.summary.get(key), float) else "-" for key in keys]
    counts = [str(run.summary.get(key, "-")) for key in ("instances_trained", "instances_reused")]
    time = "-" if spent is None else f"{spent:.1f}"
    return [run.id, str(run.config.get("role", "-")), state, *scored, *others, time, *counts]
