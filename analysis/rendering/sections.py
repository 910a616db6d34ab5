"""Tables, notes and figures behind the four headings of a report."""

from collections.abc import Sequence
from typing import NamedTuple

from analysis.comparisons.pooling import describe_pooling
from analysis.comparisons.shared_beginnings import describe_shared_beginnings
from analysis.data.configurations import describe_dev_choice, format_score
from analysis.data.measured_cost import compute_cost, compute_run_seconds
from analysis.data.recorded_run import Run
from analysis.rendering.cells import QUERIES_BONFERRONI, format_comparisons, format_interval, format_tests
from analysis.rendering.interim_section import build_interim_section
from analysis.rendering.notes import list_data_notes, list_run_notes, list_search_notes
from analysis.tables.confirmation import build_confirmation_section
from analysis.tables.main import ReportData
from analysis.tables.section import MAX_COLUMNS, Section
from analysis.tables.seed_lottery import build_lottery_section
from analysis.tables.setup import build_setup_section
from records.data_statistics import DataStatistics
from records.plan import COLLECTIONS, Plan, PlannedFamily
from trainables.metrics import LOWER_IS_BETTER

_TESTS = (
    "p, uncorrected, asks whether the methods differ on new queries and with new seeds (two-way random effects), which "
    "is what “the method is better” means; with one seed it asks about new queries only. p (queries) asks whether "
    "these trained checkpoints differ on new queries, p (seeds) whether other seeds would differ on these queries. "
    f"{QUERIES_BONFERRONI}, corrected for the family, is the test of Penha and Hauff (2021); it says nothing about new "
    "seeds. p (classical): the published test for several readers and cases (Obuchowski and Rockette 1995, Hillis "
    "2007); it has no caution for few seeds. MDE: minimum detectable effect, the difference that the test finds with "
    "about 80 % power. Other corrections and each seed alone are in comparisons.csv."
)
_RECORD = " W/T/L: queries won, tied and lost."
_PSEUDO_VALUES = (
    " The tests use jackknife pseudo-values of distinct pairs; their mean is the correlation. A pair that occurs "
    "several times counts once if the scores have its pair_id."
)
_DEV = "Scores on {split}, over the seeds of the search. The family has a correction of its own. "
_OPTIMISTIC = (
    "These scores are optimistic: {what} were chosen by them, so part of a difference may be luck, for which p does "
    "not account. For claims, read the comparisons on {test}."
)
_NOTHING_CHOSEN = "Nothing was chosen by these scores: every system has one configuration."
_CAPTION = (
    "Comparisons {name} of {metrics}: difference of the means, simultaneous {level:g} % interval, p corrected for "
    "{count} ({correction})."
)
_ENSEMBLES = (
    "{metric} on {test}. An ensemble ranks by the mean of its seeds' scores. Gain: over the mean of the seeds, each "
    "evaluated alone; it is not tested."
)
_SCORING = " Role scorer: the difficulty model{seed}; it only computes difficulty scores and belongs to no system."


class Fold(NamedTuple):
    """One heading with its tables, notes and figures."""

    title: str
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    figures: Sequence[str] = ()


def list_folds(analysis: ReportData) -> list[Fold]:
    """Return the four headings of the report of a study."""
    plan, results = analysis.results.plan, analysis.results
    tests = [
        analysis.by_collection,
        build_interim_section(analysis),
        *(_build_comparison_section(analysis, family) for family in plan.families),
        build_test_section(analysis),
        build_lottery_section(plan, analysis.chosen, analysis.outlying_seeds),
        analysis.by_metric,
        analysis.by_retrieval_metric,
        _build_ensemble_section(analysis),
        *(analysis.strata.to_sections(plan) if analysis.strata else []),
    ]
    alike = describe_shared_beginnings(plan, analysis.chosen)
    search = [build_system_section(analysis), build_confirmation_section(plan, analysis.confirmed)]
    return [
        _fold("All tests", tests, alike, ["equal_rankers", "strata", "reliability"]),
        _fold("Data", [build_data_section(results.statistics)], list_data_notes(results), ["weak_labels"]),
        _fold("Search", search, list_search_notes(analysis), ["compared", "epsilon", "learning_curves"]),
        _fold(
            "Reproduce",
            [build_setup_section(results), build_run_section(analysis)],
            [*describe_plan(analysis), *list_run_notes(analysis)],
        ),
    ]


def _fold(title: str, sections: Sequence[Section | None], notes: Sequence[str], figures: Sequence[str] = ()) -> Fold:
    return Fold(title, [section for section in sections if section], notes, figures)


def describe_plan(analysis: ReportData) -> list[str]:
    """Say what was declared when, and what it cost."""
    results, cost = analysis.results, compute_cost(analysis.results)
    late = (results.plan.model_extra or {}).get("exploratory", [])
    named = ", ".join(f"{system} over {baseline}" for system, baseline in late)
    exception = f", except the exploratory {named}" if late else ""
    declared = f"plan {results.plan_hash}, version {results.plan.version}"
    instances = cost.trained + cost.shared
    share = f" ({100 * cost.shared / instances:.0f} %)" if instances else ""
    failed = f", {cost.failed} of them failed" if cost.failed else ""
    return [
        f"Comparisons and tests declared before any {results.plan.test_split} score{exception}: {declared}.",
        f"Cost: {cost.hours:.2f} trial hours in {cost.runs:,} run{'s' * (cost.runs != 1)}{failed}; {cost.trained:,} "
        f"instances trained, {cost.shared:,}{share} shared with other runs instead.",
    ]


def build_system_section(analysis: ReportData) -> Section:
    """Build the systems with their settings, scores and intervals; a column without a value is left out."""
    plan, table = analysis.results.plan, analysis.table
    dev, test = (f"{split} {plan.metric}" for split in (plan.search_split, plan.test_split))
    header = ["system", plan.symbol, "switch", "further settings", dev, test, f"{test}, 95 % interval"]
    rows = [
        [row.system, _format_setting(row.strength), _format_setting(row.switch), row.settings or "-",
         *("incomplete" if score is None and row.note else format_score(score) for score in (row.dev, row.test)),
         format_interval(row.interval, sign="")]
        for row in table.rows
    ]  # fmt: skip
    shown = [index for index in range(len(header)) if index == 0 or any(row[index] != "-" for row in rows)]
    legend = (
        f"The chosen configuration of each system; {plan.search_split} chose it, so its {plan.search_split} score is "
        "optimistic. Mean ± standard deviation over seeds; the interval is that of the mean, for "
        f"{plan.adapt_to_unit('new queries')}{' and new seeds' * (table.seeds > 1)}. Systems are compared query by "
        "query, so intervals may overlap where a difference is shown."
        + (f" Candidates: {plan.candidates}." if plan.candidates else "")
        + (f" Scores computed in {' and '.join(table.scored_in)}." if table.scored_in else "")
    )
    header, *rows = [[row[index] for index in shown] for row in (header, *rows)]
    return Section("Systems", header, rows, legend)


def _format_setting(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _build_comparison_section(analysis: ReportData, family: PlannedFamily) -> Section:
    plan, own = analysis.results.plan, [c for c in analysis.comparisons if c.family == family.name]
    about = _describe_dev_scores(analysis) if family.phase == "search" else _describe_collections(plan, family)
    legend = f"{about} {plan.adapt_to_unit(describe_pooling(own, plan.seed_variance))}".strip()
    caption = _CAPTION.format(
        name=family.name,
        metrics=", ".join(plan.get_family_metrics(family)),
        level=100 * (1 - plan.alpha),
        count=len(own),
        correction=family.correction,
    )
    return Section(
        f"Comparisons: {family.name} ({len(own)}, {family.correction})",
        *format_comparisons(own, family.correction),
        legend,
        label=f"comparisons-{family.name}",
        caption=f"{caption} {legend}".rstrip(),
    )


def _describe_collections(plan: Plan, family: PlannedFamily) -> str:
    """Say what a family on further collections compares; empty for one on the test split."""
    if family.split == COLLECTIONS:
        return "Differences of the means over the collections, which count alike; the seeds are those of the same runs."
    return next((f"Candidates: {each.candidates}." for each in plan.collections if each.label == family.split), "")


def _describe_dev_scores(analysis: ReportData) -> str:
    plan = analysis.results.plan
    what = describe_dev_choice(plan, analysis.configurations)
    caution = _OPTIMISTIC.format(what=what, test=plan.test_split) if what else _NOTHING_CHOSEN
    return _DEV.format(split=plan.search_split) + caution


def build_test_section(analysis: ReportData) -> Section:
    """Build every test of every comparison."""
    plan = analysis.results.plan
    legend = plan.adapt_to_unit(_TESTS) + (_RECORD if plan.unit == "query" else _PSEUDO_VALUES)
    return Section("Tests of each comparison", *format_tests(analysis.comparisons, plan.unit), legend)


def _build_ensemble_section(analysis: ReportData) -> Section | None:
    plan, header = analysis.results.plan, ["ensemble", "mean of the seeds", "ensemble's", "gain"]
    rows = [
        [row.system, f"{row.mean:.4f}", f"{row.value:.4f}", f"{row.value - row.mean:+.4f}"]
        for row in analysis.ensembles
    ]
    legend = _ENSEMBLES.format(metric=plan.metric, test=plan.test_split)
    return Section("Ensembles of the seeds", header, rows, legend) if rows else None


def build_data_section(statistics: DataStatistics | None) -> Section | None:
    """Build the statistics of the data, if the study has them."""
    if statistics is None:
        return None
    header, rows = statistics.to_cells()
    is_wide, caption = len(header) > MAX_COLUMNS, f"Data. {statistics.legend}".rstrip()
    return Section("Data", header, rows, statistics.legend, is_wide, label="data", caption=caption)


def build_run_section(analysis: ReportData) -> Section:
    """Build the table of all runs, including those that were killed."""
    plan = analysis.results.plan
    splits = (plan.search_split, plan.test_split)
    further = [name for name in LOWER_IS_BETTER if name != plan.metric]
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
