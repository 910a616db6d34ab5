"""The declared comparisons and the main table: every number of the report, before it is given a form."""

from dataclasses import dataclass

from analysis.data.configurations import Configuration, Score, chosen, configurations, dropped_by_the_race, mean
from analysis.data.plan import Phase, Plan
from analysis.data.results import Results
from analysis.stats.comparison import Comparison, Family, Settings, Target, judge
from analysis.stats.paired_tests import paired
from analysis.tables.bootstrap import beside
from analysis.tables.by_metric import ByMetric, by_metric
from analysis.tables.by_seed import SeedBySeed, seed_by_seed
from analysis.tables.cautions import caption
from analysis.tables.confirmation import Confirmed, confirm
from analysis.tables.dev_only import nothing_tested
from analysis.tables.importance import Importance, importances
from analysis.tables.marks import marks
from analysis.tables.sample_size import Needed, needed
from analysis.tables.strata import Strata, strata
from analysis.tables.untuned import Untuned, untuned
from trainables.metrics import MINIMISED, measure


@dataclass(frozen=True)
class Row:
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
class Table:
    """The main table. `notes` name what is incomplete; `baselines` are those of the marks ▲▼ and △▽, `target` and
    `correction` what decides them; `scored_in` the precisions that the models' scores were computed in, as far as the
    runs tell; `seeds` counts those of the test scores, `search_seeds` those of the search; with `confirmed` they are
    others; `queries` counts the test split's, or its pairs where these are the `unit`; `symbol` is the strength's;
    `caution` says what the scores cannot be compared with."""

    rows: list[Row]
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
class Analysis:
    """Everything that the report shows, but for the figures."""

    results: Results
    found: list[Configuration]
    chosen: dict[str, Configuration | None]
    table: Table
    by_metric: ByMetric | None
    comparisons: list[Comparison]
    confirmed: list[Confirmed]
    importances: list[Importance]
    untuned: Untuned | None
    needed: Needed | None
    strata: Strata | None
    seeds: SeedBySeed | None
    conclusion: str


def analyse(results: Results) -> Analysis:
    """Chooses, compares and tabulates.

    Raises:
        UserError: if the runs cannot be compared (see `configurations` and `chosen`).
    """
    found = configurations(results)
    best = chosen(results, found)
    compared = compare(results, best)
    table = _table(results, found, best, compared)
    return Analysis(
        results=results,
        found=found,
        chosen=best,
        table=table,
        by_metric=by_metric(results.plan, best, compared),
        comparisons=compared,
        confirmed=confirm(results, found),
        importances=importances(results, found),
        untuned=untuned(results, found, table.baselines),
        needed=needed(results.plan, best, headlines(results.plan, compared)),
        strata=strata(results, found, best),
        seeds=seed_by_seed(results, best),
        conclusion=_untested(results, table)
        if nothing_tested(results.plan, found)
        else conclusion(results, table, compared),
    )


def compare(results: Results, best: dict[str, Configuration | None]) -> list[Comparison]:
    """The plan's comparisons on its test split, family by family, in its order: a pair by each metric of the family."""
    plan, correlation = results.plan, results.plan.correlation
    values = {
        (name, metric): c.values(plan, "test", metric) if c else None
        for metric in plan.metrics
        for name, c in best.items()
    }
    compared = []
    for family in plan.families:
        asked = [(*pair, metric) for pair in family.comparisons for metric in plan.metrics_of(family)]
        pairs = [(one, other, paired(values[one, metric], values[other, metric])) for one, other, metric in asked]
        settings = Settings(plan.alpha, family.correction, plan.margin)
        judging = Family(family.name, plan.task, plan.metric, pairs, [metric for *_, metric in asked], correlation)
        compared += judge(judging, settings)
    return beside(plan, best, compared) if correlation else compared


def conclusion(results: Results, table: Table, compared: list[Comparison]) -> str:
    """What the headline's family says about its first baseline, in one plain sentence or two."""
    plan, baseline = results.plan, table.baselines[0]
    on = {target: plan.worded(words) for target, words in _ON.items()}
    own = [c for c in headlines(plan, compared) if c.baseline == baseline]
    known = [c for c in own if c.difference is not None]
    incomplete = [c.system for c in own if c.difference is None]
    missing = f" Not compared, because incomplete: {', '.join(incomplete)}." if incomplete else ""
    if not known:
        return f"Nothing can be said about {baseline}: no comparison with it is complete.{missing}"
    decided = [
        f"{c.system} is significantly {c.verdict} than {baseline} {on[c.target or 'both']} ({c.difference:+.4f}, "
        f"corrected p {p_value(c.adjusted[plan.headline.correction])})"
        for c in known
        if c.verdict in ("better", "worse")
    ]
    decided += [
        f"{c.system} is equivalent to {baseline} {on[c.target or 'both']} ({c.difference:+.4f})"
        for c in known
        if c.verdict == "equivalent"
    ]
    sample = f"with {table.queries} {plan.worded('queries')} and {table.seeds} seed{'s' if table.seeds != 1 else ''}"
    gains = [c.detectable for c in known if c.detectable is not None]
    if not decided:
        seen = f"; {sample} {_seen(max(gains), plan.metric)} with 80 % power" if gains else f" {sample}"
        return f"No variant differs significantly from {baseline}{seen}.{missing}"
    rest = [c.system for c in known if c.verdict == "undecided"]
    undecided = f" Undecided: {', '.join(rest)}." if rest else ""
    return f"{'; '.join(decided)}; {sample}.{undecided}{missing}"


def headlines(plan: Plan, compared: list[Comparison]) -> list[Comparison]:
    """The comparisons that the answer is about: those of the headline's family by the plan's metric."""
    metrics = plan.metrics_of(plan.headline)
    shown = plan.metric if plan.metric in metrics else metrics[0]
    return [c for c in compared if (c.family, c.metric) == (plan.headline.name, shown)]


def _untested(results: Results, table: Table) -> str:
    baseline, split = table.baselines[0], results.plan.test_split
    return f"Nothing can be said about {baseline}: nothing is tested yet, no run has {split} scores."


def _seen(gain: float, metric: str) -> str:
    """The position of the first relevant document, and what else is better the less it is, has no such bound."""
    if gain >= measure(metric).largest and metric not in MINIMISED:
        return "not even the largest possible gain would have been seen"
    least = f"of {gain:.4f}" if gain >= 0.0001 else "below 0.0001"
    return f"a gain {least} would have been seen"


def p_value(p: float | None) -> str:
    """Four decimals, or a dash where there is no test."""
    return "-" if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}"


_ON = {"both": "on new queries and new seeds", "queries": "on new queries", "seeds": "with new seeds"}
_NAMED = 8
"""How many configurations a note names before it only counts them."""


def _table(
    results: Results, found: list[Configuration], best: dict[str, Configuration | None], compared: list[Comparison]
) -> Table:
    plan = results.plan
    first = plan.headline
    baselines = list(dict.fromkeys(baseline for _, baseline in first.comparisons))[:2]
    own = headlines(plan, compared)
    marked = marks(own, baselines)
    rows = [_row(results, name, best[name], marked.get(name, "")) for name in plan.all_systems]
    notes = [f"{row.system} is incomplete: {row.note}" for row in rows if row.note]
    notes += _incomplete(plan, found, best) + _dropped(results, found)
    tested = [c.values(plan, "test") for c in best.values() if c is not None]
    queries = max((len(value[0]) for value in tested if value is not None), default=0)
    return Table(
        rows=rows,
        notes=notes,
        metric=plan.metric,
        splits=(plan.search_split, plan.test_split),
        baselines=baselines,
        target=next((c.target for c in own if c.target), None),
        correction=first.correction,
        alpha=plan.alpha,
        seeds=len(plan.seeds_of("test")),
        search_seeds=len(plan.seeds),
        confirmed=bool(plan.confirm_seeds),
        queries=queries,
        scored_in=_precisions(best),
        unit=plan.unit,
        symbol=plan.symbol,
        caution=caption(results),
    )


def _incomplete(plan: Plan, found: list[Configuration], best: dict[str, Configuration | None]) -> list[str]:
    """What was begun and not finished, beside the chosen ones, and runs that nobody declared."""
    notes, declared = [], {*plan.seeds, *plan.confirm_seeds}
    shown = {c.id for c in best.values() if c is not None}
    for configuration in found:
        named = f"{configuration.label} [{configuration.id}]"
        if configuration.dropped:
            if configuration.tested(plan):
                notes.append(f"{named} has {plan.test_split} scores, not used: the race dropped it")
        elif configuration.id not in shown:
            phase: Phase = "test" if configuration.system in best and configuration.tested(plan) else "search"
            if faults := configuration.faults(plan, phase):
                notes.append(f"{named} is incomplete: {'; '.join(faults)}")
        extra = sorted(seed for seed in configuration.runs if seed is not None and seed not in declared)
        if extra:
            notes.append(f"{named} has undeclared seeds, not used: {extra}")
    return notes


def _dropped(results: Results, found: list[Configuration]) -> list[str]:
    """One line for all that the race dropped, by the number of seeds that it gave them."""
    labels = {c.id: f"{c.label} [{c.id}]" for c in found}
    after: dict[int, list[str]] = {}
    for key, seeds in dropped_by_the_race(results).items():
        after.setdefault(seeds, []).append(labels.get(key, f"[{key}]"))
    parts = [
        f"after {seeds} of {len(results.plan.seeds)} seeds: {', '.join(several(names))}"
        for seeds, names in sorted(after.items())
    ]
    return [f"dropped by the race {'; '.join(parts)}"] if parts else []


def several(names: list[str]) -> list[str]:
    """The first few of many names, and how many more there are."""
    return names if len(names) <= _NAMED else [*names[:_NAMED], f"and {len(names) - _NAMED} more"]


def _precisions(best: dict[str, Configuration | None]) -> list[str]:
    runs = [run for configuration in best.values() if configuration for run in configuration.runs.values()]
    trainings = [(run.config.get("specification") or {}).get("training") or {} for run in runs]
    return sorted({training["evaluation_precision"] for training in trainings if "evaluation_precision" in training})


def _row(results: Results, name: str, own: Configuration | None, marked: str) -> Row:
    plan = results.plan
    if own is None:
        return Row(name, None, None, None, "", None, None, "", f"no {plan.test_split} scores")
    dev, test = mean(own.values(plan, "search")), mean(own.values(plan, "test"))
    faults = own.faults(plan, "test") or own.faults(plan, "search")
    settings = ", ".join(own.settings)
    return Row(name, own.id, own.strength or None, own.switch, settings, dev, test, marked, "; ".join(faults))
