"""The declared comparisons and the main table: every number of the report, before it is formatted."""

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.checks.collapsed import OutlyingSeed, name_outlying_seeds
from analysis.checks.ranks import RankedSystem
from analysis.comparisons.declared import compare_systems, rank_headline_systems, select_headline_comparisons
from analysis.comparisons.ensembles import EnsembleTable, build_ensemble_table
from analysis.comparisons.looks import Looks, stop_at_look
from analysis.data.cautions import format_caption
from analysis.data.configurations import (
    Configuration,
    Score,
    choose_configurations,
    collect_configurations,
    count_seeds_of_pruned,
    mean_and_std,
)
from analysis.data.plan import Phase, Plan
from analysis.data.results import Results
from analysis.stats.comparison import Comparison, Target, compute_median_effect
from analysis.tables.by_metric import MetricTable, RetrievalTable, build_metric_table, build_retrieval_table
from analysis.tables.by_seed import SeedTable, build_seed_table
from analysis.tables.confirmation import ConfirmedConfiguration, build_confirmation
from analysis.tables.dev_only import is_untested
from analysis.tables.marks import build_marks
from analysis.tables.sample_size import SampleSizeTable, build_sample_size_table
from analysis.tables.strata import StrataTable, build_strata_table
from trainables.metrics import LOWER_IS_BETTER, get_measure


@dataclass(frozen=True)
class SystemRow:
    """One system in the main table.

    Attributes:
        system: name of the system.
        configuration: id of its chosen configuration.
        strength: strength of the smoothing.
        switch: switch point of the schedule.
        settings: the other hyperparameters in which the system's configurations differ, in words.
        dev: mean and sample standard deviation over seeds on the search split. None if incomplete.
        test: mean and sample standard deviation over seeds on the test split. None if incomplete.
        marks: marks of significant differences.
        note: why the system is incomplete; empty if it is complete.
    """

    system: str
    configuration: str | None
    strength: float | None
    switch: float | None
    settings: str
    dev: Score | None
    test: Score | None
    marks: str
    note: str


@dataclass(frozen=True)
class MainTable:
    """The main table.

    Attributes:
        rows: one row a system.
        notes: what is incomplete or pruned.
        metric: metric of the plan.
        splits: search split and test split.
        baselines: baselines of the marks ▲▼ and △▽.
        target: population that the tests behind the marks generalise to.
        correction: correction that decides the marks.
        alpha: significance level of the family.
        seeds: number of seeds of the test scores.
        search_seeds: number of seeds of the search.
        confirmed: True if the test scores are over seeds of a confirmation.
        queries: number of queries of the test split, or of its pairs if `unit` is pair.
        scored_in: precisions that the models' scores were computed in, if runs recorded them.
        unit: unit of the statistics: query or pair.
        symbol: symbol of the strength.
        caution: text that says what the scores cannot be compared with.
        serving_seeds: number of seeds of a confirmation that are seeds of the search, by which nothing was chosen.
        pooled: True if a test behind the marks pools the variation between seeds over its family.
    """

    rows: list[SystemRow]
    notes: list[str]
    metric: str
    splits: tuple[str, str]
    baselines: list[str]
    target: Target | None
    correction: str
    alpha: float
    seeds: int
    search_seeds: int
    confirmed: bool
    queries: int
    scored_in: list[str]
    unit: str = "query"
    symbol: str = "ε"
    caution: str = ""
    pooled: bool = False
    serving_seeds: int = 0
    candidates: str = ""


@dataclass(frozen=True)
class ReportData:
    """Everything that the report shows, except the figures."""

    results: Results
    configurations: list[Configuration]
    chosen: dict[str, Configuration | None]
    table: MainTable
    metric_table: MetricTable | None
    retrieval: RetrievalTable | None
    comparisons: list[Comparison]
    looks: Looks | None
    confirmed: list[ConfirmedConfiguration]
    sample_size: SampleSizeTable | None
    strata: StrataTable | None
    seed_table: SeedTable | None
    ensembles: EnsembleTable | None
    ranks: list[RankedSystem]
    conclusion: str

    @property
    def outlying_seeds(self) -> list[OutlyingSeed]:
        """The test runs that look collapsed, or whose system's other seeds do."""
        return self.seed_table.outlying if self.seed_table else []


def build_report_data(results: Results) -> ReportData:
    """Choose configurations, compare the systems and build all tables.

    Raises:
        UserError: if the runs cannot be compared; see `collect_configurations` and `choose_configurations`.
    """
    configurations = collect_configurations(results)
    results, looks = stop_at_look(results, choose_configurations(results, configurations))
    chosen = choose_configurations(results, configurations)
    seed_table = build_seed_table(results, chosen)
    comparisons = compare_systems(results.plan, chosen)
    if seed_table:
        comparisons = name_outlying_seeds(comparisons, seed_table.outlying)
    table = _build_main_table(results, configurations, chosen, comparisons)
    return ReportData(
        results=results,
        configurations=configurations,
        chosen=chosen,
        table=table,
        metric_table=build_metric_table(results.plan, chosen, comparisons),
        retrieval=build_retrieval_table(results.plan, chosen),
        comparisons=comparisons,
        looks=looks,
        confirmed=build_confirmation(results, configurations),
        sample_size=build_sample_size_table(results.plan, chosen),
        strata=build_strata_table(results, configurations, chosen),
        seed_table=seed_table,
        ensembles=build_ensemble_table(results, chosen),
        ranks=rank_headline_systems(results.plan, chosen),
        conclusion=_format_untested_conclusion(results)
        if is_untested(results.plan, configurations)
        else format_conclusion(results, table, comparisons) + _describe_weak_baselines(results.plan, comparisons),
    )


def format_conclusion(results: Results, table: MainTable, compared: list[Comparison]) -> str:
    """State the result of the first comparison of each system in one or two plain sentences."""
    plan, group = results.plan, results.plan.mark_groups[0]
    baseline = group.only_baseline or "its baseline"
    on = {target: plan.adapt_to_unit(words) for target, words in _TARGET_TEXTS.items()}
    headlines = [c for c in select_headline_comparisons(plan, compared) if (c.system, c.baseline) in group.pairs]
    known = [c for c in headlines if c.difference is not None]
    incomplete = [c.system for c in headlines if c.difference is None]
    missing = f" Not compared, because incomplete: {', '.join(incomplete)}." if incomplete else ""
    equal = [c.system for c in known if c.verdict == "all values are equal"]
    missing = (f" All values are equal to those of {baseline}: {', '.join(equal)}." if equal else "") + missing
    varying = [c for c in known if c.system not in equal]
    if not known:
        about = f" about {group.only_baseline}: no comparison with it" if group.only_baseline else ": no comparison"
        return f"No conclusion{about} is complete.{missing}"
    decided = [
        f"{c.system} is significantly {c.verdict} than {c.baseline} {on[c.target or 'both']} ({c.difference:+.4f}, "
        f"corrected p {format_p_value(c.adjusted[plan.headline.correction])})"
        for c in known
        if c.verdict in ("better", "worse")
    ]
    decided += [
        f"{c.system} is equivalent to {c.baseline} {on[c.target or 'both']} ({c.difference:+.4f}, "
        f"margin {plan.margin:g})"
        for c in known
        if c.verdict == "equivalent"
    ]
    counts = f"{table.queries:,} {plan.adapt_to_unit('queries')}", f"{table.seeds} seed{'s' * (table.seeds != 1)}"
    effect = compute_median_effect(known)
    if not decided:
        limit = (
            f" with {' and '.join(counts)}" if effect is None else f"; {_describe_power(effect, plan.metric, counts)}"
        )
        bounds = _describe_bounds(varying, plan.metric, on[known[0].target or "both"])
        return f"No variant differs significantly from {baseline}{bounds and f': {bounds}'}{limit}.{missing}"
    rest = [c for c in known if c.verdict == "undecided"]
    bounds = _describe_bounds(rest, plan.metric, on[rest[0].target or "both"]) if rest else ""
    undecided = f" Undecided: {', '.join(c.system for c in rest)}{bounds and f' ({bounds})'}." if rest else ""
    return f"{'; '.join(decided)}; with {' and '.join(counts)}.{undecided}{missing}"


def _describe_weak_baselines(plan: Plan, compared: list[Comparison]) -> str:
    """Say that a baseline of the headline's family has a worse mean than another system, such as BM25."""
    corrections = {family.name: family.correction for family in plan.test_families}
    baselines = {baseline for _, baseline in plan.headline.comparisons}
    sign = -1 if plan.metric in LOWER_IS_BETTER else 1
    weak = [
        f" {c.system} itself {_describe_loss(c)} {plan.adapt_to_unit(_TARGET_TEXTS[c.target or 'both'])} "
        f"({c.difference:+.4f}, corrected p {format_p_value(c.adjusted[corrections[c.family]])})."
        for c in compared
        if c.system in baselines
        and c.family != plan.headline.name
        and c.family in corrections
        and c.metric == plan.metric
        and sign * (c.difference or 0.0) < 0
    ]
    return "".join(weak)


def _describe_loss(c: Comparison) -> str:
    if c.verdict == "worse":
        return f"is significantly worse than {c.baseline}"
    return f"has a worse mean than {c.baseline}, though not significantly"


def _format_untested_conclusion(results: Results) -> str:
    baseline, split = results.plan.mark_groups[0].only_baseline, results.plan.test_split
    return f"No conclusion{f' about {baseline}' if baseline else ''} yet: no run has {split} scores."


def _describe_bounds(comparisons: Sequence[Comparison], metric: str, population: str) -> str:
    """Say how large a gain or loss can still be by the intervals, which hold for all comparisons of the family at once.

    Empty if an interval is not known, if all are 0 wide, or if one is as wide as the largest possible difference.
    """
    intervals = [c.interval for c in comparisons if c.interval is not None]
    if not intervals or len(intervals) < len(comparisons):
        return ""
    loss, gain = -min(low for low, _ in intervals), max(high for _, high in intervals)
    if loss <= 0 and gain <= 0:
        return ""
    if metric in LOWER_IS_BETTER:
        loss, gain = gain, loss
    elif max(loss, gain) >= get_measure(metric).max_value:
        return ""
    return f"any gain {population} is at most {gain:.4f}, any loss at most {loss:.4f}"


def _describe_power(effect: float, metric: str, counts: tuple[str, str]) -> str:
    """Describe the minimum detectable effect of the study, as an estimate from its queries and seeds.

    A metric for which lower is better has no largest possible gain.
    """
    queries, seeds = counts
    sample = f"{queries}, {seeds}" if seeds == "1 seed" else f"{queries}, estimated from {seeds}"
    if effect >= get_measure(metric).max_value and metric not in LOWER_IS_BETTER:
        return f"the study has less than 80 % power even for the largest possible gain ({sample})"
    shown = f"{effect:.4f}" if effect >= 0.0001 else "0.0001 or less"
    return f"minimum detectable effect: about {shown} (80 % power, {sample})"


def format_p_value(p: float | None) -> str:
    """Format with four decimals, or a dash if there is no test."""
    return "-" if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}"


_TARGET_TEXTS = {"both": "on new queries and new seeds", "queries": "on new queries", "seeds": "with new seeds"}
_MAX_NAMED = 8
"""Most names that a note lists before it only counts the rest."""


def _build_main_table(
    results: Results,
    configurations: list[Configuration],
    chosen: dict[str, Configuration | None],
    compared: list[Comparison],
) -> MainTable:
    plan = results.plan
    first = plan.headline
    headlines = select_headline_comparisons(plan, compared)
    marked = build_marks(plan, headlines)
    rows = [_build_row(results, name, chosen[name], marked.get(name, "")) for name in plan.all_systems]
    notes = [f"{row.system} is incomplete: {row.note}" for row in rows if row.note]
    notes += _describe_incomplete(plan, configurations, chosen) + _describe_pruned(results, configurations)
    tested = [c.evaluate_queries(plan, "test") for c in chosen.values() if c is not None]
    queries = max((len(value[0]) for value in tested if value is not None), default=0)
    return MainTable(
        rows=rows,
        notes=notes,
        metric=plan.metric,
        splits=(plan.search_split, plan.test_split),
        baselines=plan.mark_baselines,
        target=next((c.target for c in headlines if c.target), None),
        correction=first.correction,
        alpha=plan.alpha,
        seeds=len(plan.get_seeds("test")),
        search_seeds=len(plan.seeds),
        confirmed=bool(plan.confirm_seeds),
        serving_seeds=len({*plan.confirm_seeds} & {*plan.seeds}),
        queries=queries,
        scored_in=_list_precisions(chosen),
        unit=plan.unit,
        symbol=plan.symbol,
        caution=format_caption(results),
        candidates=plan.candidates,
        pooled=any(c.pooled for c in headlines),
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
        f"after {seeds} of {len(results.plan.seeds)} seeds: {', '.join(shorten_names(names))}"
        for seeds, names in sorted(after.items())
    ]
    return [f"pruned by racing {'; '.join(parts)}"] if parts else []


def shorten_names(names: list[str]) -> list[str]:
    """Return the first few of many names, and the number of the rest."""
    return names if len(names) <= _MAX_NAMED else [*names[:_MAX_NAMED], f"and {len(names) - _MAX_NAMED} more"]


def _list_precisions(chosen: dict[str, Configuration | None]) -> list[str]:
    runs = [run for configuration in chosen.values() if configuration for run in configuration.runs.values()]
    return sorted({run.scoring_precision for run in runs} - {""})


def _build_row(results: Results, name: str, configuration: Configuration | None, marked: str) -> SystemRow:
    plan = results.plan
    if configuration is None:
        return SystemRow(name, None, None, None, "", None, None, "", f"no {plan.test_split} scores")
    dev, test = (
        mean_and_std(configuration.evaluate_queries(plan, "search")),
        mean_and_std(configuration.evaluate_queries(plan, "test")),
    )
    faults = configuration.find_faults(plan, "test") or configuration.find_faults(plan, "search")
    settings = ", ".join(configuration.settings)
    return SystemRow(
        name,
        configuration.id,
        configuration.strength or None,
        configuration.switch,
        settings,
        dev,
        test,
        marked,
        "; ".join(faults),
    )
