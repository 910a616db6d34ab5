"""The declared comparisons and the main table: every number of the report, before it is given a form."""

from dataclasses import dataclass

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
from analysis.stats.comparison import Comparison, ComparisonFamily, ComparisonSettings, Target, compare_family
from analysis.stats.paired_tests import differences_or_none
from analysis.tables.bootstrap import add_bootstrap
from analysis.tables.by_metric import MetricTable, build_metric_table
from analysis.tables.by_seed import SeedTable, build_seed_table
from analysis.tables.cautions import format_caption
from analysis.tables.confirmation import ConfirmedConfiguration, build_confirmation
from analysis.tables.defaults import DefaultsTable, build_defaults_table
from analysis.tables.dev_only import is_untested
from analysis.tables.importance import Importance, compute_importances
from analysis.tables.marks import build_marks
from analysis.tables.sample_size import SampleSizeTable, build_sample_size_table
from analysis.tables.strata import StrataTable, build_strata_table
from trainables.metrics import LOWER_IS_BETTER, get_measure


@dataclass(frozen=True)
class SystemRow:
    """One system: its chosen configuration, mean and sample standard deviation over seeds (None: one run).

    `settings` names the further hyperparameters in which the system's configurations differ.
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
    """The main table. `notes` name what is incomplete; `baselines` are those of the marks ▲▼ and △▽, `target` and
    `correction` what decides them; `scored_in` the precisions that the models' scores were computed in, as far as the
    runs tell; `seeds` counts those of the test scores, `search_seeds` those of the search; with `confirmed` they are
    others; `queries` counts the test split's, or its pairs where these are the `unit`; `symbol` is the strength's;
    `caution` says what the scores cannot be compared with."""

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


@dataclass(frozen=True)
class ReportData:
    """Everything that the report shows, but for the figures."""

    results: Results
    configurations: list[Configuration]
    chosen: dict[str, Configuration | None]
    table: MainTable
    metric_table: MetricTable | None
    comparisons: list[Comparison]
    confirmed: list[ConfirmedConfiguration]
    importances: list[Importance]
    defaults: DefaultsTable | None
    sample_size: SampleSizeTable | None
    strata: StrataTable | None
    seed_table: SeedTable | None
    conclusion: str


def build_report_data(results: Results) -> ReportData:
    """Chooses, compares and tabulates.

    Raises:
        UserError: if the runs cannot be compared (see `configurations` and `chosen`).
    """
    configurations = collect_configurations(results)
    chosen = choose_configurations(results, configurations)
    compared = compare_systems(results, chosen)
    table = _build_main_table(results, configurations, chosen, compared)
    return ReportData(
        results=results,
        configurations=configurations,
        chosen=chosen,
        table=table,
        metric_table=build_metric_table(results.plan, chosen, compared),
        comparisons=compared,
        confirmed=build_confirmation(results, configurations),
        importances=compute_importances(results, configurations),
        defaults=build_defaults_table(results, configurations, table.baselines),
        sample_size=build_sample_size_table(results.plan, chosen, select_headline_comparisons(results.plan, compared)),
        strata=build_strata_table(results, configurations, chosen),
        seed_table=build_seed_table(results, chosen),
        conclusion=_format_untested_conclusion(results, table)
        if is_untested(results.plan, configurations)
        else format_conclusion(results, table, compared),
    )


def compare_systems(results: Results, chosen: dict[str, Configuration | None]) -> list[Comparison]:
    """The plan's comparisons on its test split, family by family, in its order: a pair by each metric of the family."""
    plan, correlation = results.plan, results.plan.is_correlation
    values = {
        (name, metric): c.evaluate_queries(plan, "test", metric) if c else None
        for metric in plan.metrics
        for name, c in chosen.items()
    }
    compared = []
    for family in plan.families:
        requested = [(*pair, metric) for pair in family.comparisons for metric in plan.get_family_metrics(family)]
        pairs = [
            (one, other, differences_or_none(values[one, metric], values[other, metric]))
            for one, other, metric in requested
        ]
        settings = ComparisonSettings(plan.alpha, family.correction, plan.margin)
        comparison_family = ComparisonFamily(
            family.name, plan.task, plan.metric, pairs, [metric for *_, metric in requested], correlation
        )
        compared += compare_family(comparison_family, settings)
    return add_bootstrap(plan, chosen, compared) if correlation else compared


def format_conclusion(results: Results, table: MainTable, compared: list[Comparison]) -> str:
    """What the headline's family says about its first baseline, in one plain sentence or two."""
    plan, baseline = results.plan, table.baselines[0]
    on = {target: plan.adapt_to_unit(words) for target, words in _TARGET_TEXTS.items()}
    own = [c for c in select_headline_comparisons(plan, compared) if c.baseline == baseline]
    known = [c for c in own if c.difference is not None]
    incomplete = [c.system for c in own if c.difference is None]
    missing = f" Not compared, because incomplete: {', '.join(incomplete)}." if incomplete else ""
    if not known:
        return f"Nothing can be said about {baseline}: no comparison with it is complete.{missing}"
    decided = [
        f"{c.system} is significantly {c.verdict} than {baseline} {on[c.target or 'both']} ({c.difference:+.4f}, "
        f"corrected p {format_p_value(c.adjusted[plan.headline.correction])})"
        for c in known
        if c.verdict in ("better", "worse")
    ]
    decided += [
        f"{c.system} is equivalent to {baseline} {on[c.target or 'both']} ({c.difference:+.4f})"
        for c in known
        if c.verdict == "equivalent"
    ]
    sample = (
        f"with {table.queries} {plan.adapt_to_unit('queries')} and {table.seeds} seed{'s' if table.seeds != 1 else ''}"
    )
    gains = [c.detectable for c in known if c.detectable is not None]
    if not decided:
        seen = (
            f"; {sample} {_describe_detectable_gain(max(gains), plan.metric)} with 80 % power"
            if gains
            else f" {sample}"
        )
        return f"No variant differs significantly from {baseline}{seen}.{missing}"
    rest = [c.system for c in known if c.verdict == "undecided"]
    undecided = f" Undecided: {', '.join(rest)}." if rest else ""
    return f"{'; '.join(decided)}; {sample}.{undecided}{missing}"


def select_headline_comparisons(plan: Plan, compared: list[Comparison]) -> list[Comparison]:
    """The comparisons that the answer is about: those of the headline's family by the plan's metric."""
    metrics = plan.get_family_metrics(plan.headline)
    shown = plan.metric if plan.metric in metrics else metrics[0]
    return [c for c in compared if (c.family, c.metric) == (plan.headline.name, shown)]


def _format_untested_conclusion(results: Results, table: MainTable) -> str:
    baseline, split = table.baselines[0], results.plan.test_split
    return f"Nothing can be said about {baseline}: nothing is tested yet, no run has {split} scores."


def _describe_detectable_gain(gain: float, metric: str) -> str:
    """The position of the first relevant document, and what else is better the less it is, has no such bound."""
    if gain >= get_measure(metric).max_value and metric not in LOWER_IS_BETTER:
        return "not even the largest possible gain would have been seen"
    least = f"of {gain:.4f}" if gain >= 0.0001 else "below 0.0001"
    return f"a gain {least} would have been seen"


def format_p_value(p: float | None) -> str:
    """Four decimals, or a dash where there is no test."""
    return "-" if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}"


_TARGET_TEXTS = {"both": "on new queries and new seeds", "queries": "on new queries", "seeds": "with new seeds"}
_MAX_NAMED = 8
"""How many configurations a note names before it only counts them."""


def _build_main_table(
    results: Results,
    configurations: list[Configuration],
    chosen: dict[str, Configuration | None],
    compared: list[Comparison],
) -> MainTable:
    plan = results.plan
    first = plan.headline
    baselines = list(dict.fromkeys(baseline for _, baseline in first.comparisons))[:2]
    own = select_headline_comparisons(plan, compared)
    marked = build_marks(own, baselines)
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
        baselines=baselines,
        target=next((c.target for c in own if c.target), None),
        correction=first.correction,
        alpha=plan.alpha,
        seeds=len(plan.get_seeds("test")),
        search_seeds=len(plan.seeds),
        confirmed=bool(plan.confirm_seeds),
        queries=queries,
        scored_in=_list_precisions(chosen),
        unit=plan.unit,
        symbol=plan.symbol,
        caution=format_caption(results),
    )


def _describe_incomplete(
    plan: Plan, configurations: list[Configuration], chosen: dict[str, Configuration | None]
) -> list[str]:
    """What was begun and not finished, beside the chosen ones, and runs that nobody declared."""
    notes, declared = [], {*plan.seeds, *plan.confirm_seeds}
    shown = {c.id for c in chosen.values() if c is not None}
    for configuration in configurations:
        named = f"{configuration.label} [{configuration.id}]"
        if configuration.pruned:
            if configuration.is_tested(plan):
                notes.append(f"{named} has {plan.test_split} scores, not used: the race dropped it")
        elif configuration.id not in shown:
            phase: Phase = "test" if configuration.system in chosen and configuration.is_tested(plan) else "search"
            if faults := configuration.find_faults(plan, phase):
                notes.append(f"{named} is incomplete: {'; '.join(faults)}")
        extra = sorted(seed for seed in configuration.runs if seed is not None and seed not in declared)
        if extra:
            notes.append(f"{named} has undeclared seeds, not used: {extra}")
    return notes


def _describe_pruned(results: Results, configurations: list[Configuration]) -> list[str]:
    """One line for all that the race dropped, by the number of seeds that it gave them."""
    labels = {c.id: f"{c.label} [{c.id}]" for c in configurations}
    after: dict[int, list[str]] = {}
    for key, seeds in count_seeds_of_pruned(results).items():
        after.setdefault(seeds, []).append(labels.get(key, f"[{key}]"))
    parts = [
        f"after {seeds} of {len(results.plan.seeds)} seeds: {', '.join(shorten_names(names))}"
        for seeds, names in sorted(after.items())
    ]
    return [f"dropped by the race {'; '.join(parts)}"] if parts else []


def shorten_names(names: list[str]) -> list[str]:
    """The first few of many names, and how many more there are."""
    return names if len(names) <= _MAX_NAMED else [*names[:_MAX_NAMED], f"and {len(names) - _MAX_NAMED} more"]


def _list_precisions(chosen: dict[str, Configuration | None]) -> list[str]:
    runs = [run for configuration in chosen.values() if configuration for run in configuration.runs.values()]
    trainings = [(run.config.get("specification") or {}).get("training") or {} for run in runs]
    return sorted({training["evaluation_precision"] for training in trainings if "evaluation_precision" in training})


def _build_row(results: Results, name: str, own: Configuration | None, marked: str) -> SystemRow:
    plan = results.plan
    if own is None:
        return SystemRow(name, None, None, None, "", None, None, "", f"no {plan.test_split} scores")
    dev, test = mean_and_std(own.evaluate_queries(plan, "search")), mean_and_std(own.evaluate_queries(plan, "test"))
    faults = own.find_faults(plan, "test") or own.find_faults(plan, "search")
    settings = ", ".join(own.settings)
    return SystemRow(name, own.id, own.strength or None, own.switch, settings, dev, test, marked, "; ".join(faults))
