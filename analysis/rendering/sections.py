"""The tables of the report in their order; each format shows some of them."""

from analysis.checks import ranks
from analysis.comparisons.pooling import describe_pooling
from analysis.data.configurations import describe_dev_choice, format_score
from analysis.data.measured_cost import compute_run_seconds
from analysis.data.recorded_run import Run
from analysis.rendering.cells import QUERIES_BONFERRONI, format_comparisons, format_interval, format_p_value
from analysis.rendering.interim_section import build_interim_section
from analysis.stats.comparison import Comparison
from analysis.stats.multiple_testing import CORRECTIONS
from analysis.tables.confirmation import build_confirmation_section
from analysis.tables.dev_only import build_dev_section
from analysis.tables.main import ReportData
from analysis.tables.marks import format_marks_legend
from analysis.tables.section import MAX_COLUMNS, Section
from analysis.tables.setup import build_setup_section
from records.data_statistics import DataStatistics
from records.plan import PlannedFamily
from trainables.metrics import LOWER_IS_BETTER

_TESTS = {
    "both": "on new queries and new seeds, two-way random effects",
    "queries": "on new queries, paired t-test",
    "seeds": "with new seeds, paired t-test",
}
_READING = (
    "p and the corrected p ask whether the methods differ on new queries and with new seeds (two-way random effects), "
    "which is what “the method is better” means; with one seed they ask about new queries only. p (queries) asks "
    "whether these trained checkpoints differ on new queries, p (seeds) whether other seeds would differ on these "
    f"queries. {QUERIES_BONFERRONI}, corrected for the family, is the test of the paper (Penha and Hauff 2021): "
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
_CAPTION = (
    "Comparisons {name} of {metrics}: difference of the means, simultaneous {level:g} % interval, p corrected for "
    "{count} ({correction}). {test}: do these checkpoints differ on new queries; it says nothing about new seeds."
)
_ENSEMBLES = (
    "{metric} on {test}. An ensemble ranks by the mean of its seeds' scores. Gain: over the mean of the seeds, each "
    "evaluated alone. Differences from the ensemble of the baseline, with {level:g} % intervals and p for all "
    "{count} at once ({correction}), by tests over queries: for these models, not for other seeds. The plan does not "
    "declare them: they are exploratory."
)
_SCORING = " Role scorer: the difficulty model{seed}; it only computes difficulty scores and belongs to no system."


def list_sections(analysis: ReportData) -> list[Section]:
    """Return the tables of the report, the main one first and that of the runs last."""
    plan, results = analysis.results.plan, analysis.results
    sections = [
        build_main_section(analysis),
        analysis.by_metric,
        analysis.by_retrieval_metric,
        build_dev_section(plan, analysis.configurations),
        build_interim_section(analysis),
        *(_build_comparison_section(analysis, family) for family in plan.families),
        _build_group_section(analysis),
        build_corrections_section(analysis),
        analysis.by_seed,
        _build_ensemble_section(analysis),
        build_confirmation_section(plan, analysis.confirmed),
        *(analysis.strata.to_sections(plan) if analysis.strata else []),
        build_setup_section(results),
        build_data_section(results.statistics),
        build_runs_section(analysis),
    ]
    return [section for section in sections if section]


def build_main_section(analysis: ReportData) -> Section:
    """Build the main table; a column without values is left out, except the switch point."""
    plan, table = analysis.results.plan, analysis.table
    dev, test = (f"{split} {plan.metric}" for split in (plan.search_split, plan.test_split))
    header = ["system", plan.symbol, "switch", "further settings", dev, test, "sig."]
    rows = [
        [row.system, _format_setting(row.strength), _format_setting(row.switch), row.settings or "-",
         *("incomplete" if score is None and row.note else format_score(score) for score in (row.dev, row.test)),
         row.marks]
        for row in table.rows
    ]  # fmt: skip
    used = [any(row.strength for row in table.rows), True, any(row.settings for row in table.rows)]
    shown = [0, *(1 + index for index, is_used in enumerate(used) if is_used), 4, 5, 6]
    tested = plan.adapt_to_unit(_TESTS[table.target or "both"]) + (", seeds pooled" if table.pooled else "")
    legend = (
        f"Mean ± standard deviation over {_describe_seeds(analysis)}. Significant gain or loss on {plan.test_split}: "
        f"{format_marks_legend(plan.mark_baselines)} ({tested}; {plan.headline.correction}, {plan.alpha:g})."
        + (f" Candidates: {plan.candidates}." if plan.candidates else "")
        + (f" Scores computed in {' and '.join(table.scored_in)}." if table.scored_in else "")
    )
    header, *rows = [[row[index] for index in shown] for row in (header, *rows)]
    return Section("Systems", header, rows, legend, label="main", in_terminal=True)


def _format_setting(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _describe_seeds(analysis: ReportData) -> str:
    plan, seeds = analysis.results.plan, analysis.table.seeds
    if not plan.confirm_seeds:
        return f"{seeds} seed{'s' * (seeds != 1)}"
    reused = len({*plan.confirm_seeds} & {*plan.seeds})
    kind = f", {reused} of them those of the search," if reused else " fresh ones"
    return f"seeds: {len(plan.seeds)} of the search on {plan.search_split}, {seeds}{kind} on {plan.test_split}"


def _build_comparison_section(analysis: ReportData, family: PlannedFamily) -> Section:
    plan, own = analysis.results.plan, [c for c in analysis.comparisons if c.family == family.name]
    dev = _describe_dev_scores(analysis) if family.phase != "test" else ""
    pooling, legend = plan.adapt_to_unit(describe_pooling(own, plan.seed_variance)), dev
    if [family] == plan.test_families[-1:]:
        legend = plan.adapt_to_unit(_READING) + (_RECORD if plan.unit == "query" else _PSEUDO_VALUES)
    caption = plan.adapt_to_unit(_CAPTION).format(
        name=family.name,
        metrics=", ".join(plan.get_family_metrics(family)),
        level=100 * (1 - plan.alpha),
        count=len(own),
        correction=family.correction,
        test=plan.adapt_to_unit(QUERIES_BONFERRONI),
    )
    return Section(
        f"Comparisons: {family.name} ({len(own)}, {family.correction})",
        *format_comparisons(own, family.correction, plan.unit),
        f"{legend} {pooling}".strip(),
        label=f"comparisons-{family.name}",
        caption=" ".join(filter(None, (caption, dev, pooling))),
        in_terminal=True,
    )


def _describe_dev_scores(analysis: ReportData) -> str:
    plan = analysis.results.plan
    what = describe_dev_choice(plan, analysis.configurations)
    caution = _OPTIMISTIC.format(what=what, test=plan.test_split) if what else _NOTHING_CHOSEN
    return _DEV.format(split=plan.search_split) + caution


def _build_group_section(analysis: ReportData) -> Section | None:
    own, plan = analysis.ranks, analysis.results.plan
    if not own:
        return None
    legend = f"Mean {plan.metric} on {plan.test_split}. {ranks.describe_ranks(len(own), plan.alpha)}"
    return Section("Groups", ranks.HEADER, [each.to_cells() for each in own], legend, label="groups")


def build_corrections_section(analysis: ReportData) -> Section:
    """Build the p-value of each comparison by every correction, and seed by seed."""
    header = ["family", "system", "baseline", "metric", "comparisons", "p", "p (classical)", *CORRECTIONS,
              "seed by seed"]  # fmt: skip
    rows = [
        [c.family, c.system, c.baseline, c.metric, str(c.comparisons),
         *map(format_p_value, (c.p, c.classical, *(c.adjusted[name] for name in CORRECTIONS))),
         ", ".join(map(format_p_value, c.each_seed)) or "-"]
        for c in analysis.comparisons
    ]  # fmt: skip
    plan = analysis.results.plan
    if len(plan.metrics) == 1:
        for row in (header, *rows):
            del row[3]
    return Section("Corrections", header, rows, plan.adapt_to_unit(_CORRECTED), label="corrections")


def _build_ensemble_section(analysis: ReportData) -> Section | None:
    plan, ensembles = analysis.results.plan, analysis.ensembles
    if not ensembles:
        return None
    correction = plan.headline.correction
    header = ["ensemble", "mean of the seeds", "ensemble's", "gain", "from the baseline's", "interval", "p", "verdict"]
    rows = [
        [row.system, f"{row.mean:.4f}", f"{row.value:.4f}", f"{row.value - row.mean:+.4f}",
         *_format_ensemble_comparison(row.comparison, correction)]
        for row in ensembles
    ]  # fmt: skip
    legend = _ENSEMBLES.format(
        metric=plan.metric,
        test=plan.test_split,
        level=100 * (1 - plan.alpha),
        count=sum(row.comparison is not None for row in ensembles),
        correction=correction,
    )
    return Section("Ensembles of the seeds", header, rows, legend)


def _format_ensemble_comparison(c: Comparison | None, correction: str) -> list[str]:
    if c is None or c.interval is None:
        return ["-"] * 4
    return [f"{c.difference:+.4f}", format_interval(c.interval), format_p_value(c.adjusted[correction]), c.verdict]


def build_data_section(statistics: DataStatistics | None) -> Section | None:
    """Build the statistics of the data, if the study has them."""
    if statistics is None:
        return None
    header, rows = statistics.to_cells()
    is_wide, caption = len(header) > MAX_COLUMNS, f"Data. {statistics.legend}".rstrip()
    return Section("Data", header, rows, statistics.legend, is_wide, label="data", caption=caption, in_terminal=True)


def build_runs_section(analysis: ReportData) -> Section:
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
