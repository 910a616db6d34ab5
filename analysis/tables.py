"""The declared comparisons and the main table: every number of the report, before it is given a form."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from analysis import significance
from analysis.configurations import Configuration, Score, chosen, configurations, dropped_by_the_race, mean
from analysis.confirmation import Confirmed, confirm
from analysis.importance import Importance, importances
from analysis.plan import Phase, Plan
from analysis.results import Results
from analysis.significance import Array, Test

Verdict = Literal["better", "worse", "undecided"]


@dataclass(frozen=True)
class Comparison:
    """One declared comparison; its numbers are None where a side is incomplete.

    `adjusted` are p-values of the target queries; the verdict is the family's correction of them at the plan's alpha.
    `detectable` is the difference that this test finds with 80 % power at the corrected level.
    """

    family: str
    task: str
    metric: str
    system: str
    baseline: str
    difference: float | None
    targets: dict[str, Test | None]
    adjusted: dict[str, float | None]
    comparisons: int
    effect: float | None
    detectable: float | None
    verdict: Verdict

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Row:
    """One system: its chosen configuration, mean and sample standard deviation over seeds (None: one run).

    `settings` names the further hyperparameters in which the system's configurations differ.
    """

    system: str
    configuration: str | None
    epsilon: float | None
    switch: float | None
    settings: str
    dev: Score | None
    test: Score | None
    marks: str
    note: str


@dataclass(frozen=True)
class Table:
    """The main table. `notes` name what is incomplete; `baselines` are those of the marks ▲▼ and △▽; `scored_in` the
    precisions that the models' scores were computed in, as far as the runs tell; `seeds` counts those of the test
    scores, `search_seeds` those of the search; with `confirmed` they are others."""

    rows: list[Row]
    notes: list[str]
    metric: str
    splits: tuple[str, str]
    baselines: list[str]
    alpha: float
    seeds: int
    search_seeds: int
    confirmed: bool
    queries: int
    scored_in: list[str]


@dataclass(frozen=True)
class Analysis:
    """Everything that the report shows, but for the figures."""

    results: Results
    found: list[Configuration]
    chosen: dict[str, Configuration | None]
    table: Table
    comparisons: list[Comparison]
    confirmed: list[Confirmed]
    importances: list[Importance]
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
        comparisons=compared,
        confirmed=confirm(results, found),
        importances=importances(results, found),
        conclusion=conclusion(results, table, compared),
    )


def compare(results: Results, best: dict[str, Configuration | None]) -> list[Comparison]:
    """The plan's comparisons on its test split, family by family, in its order."""
    plan = results.plan
    values = {name: c.values(plan, "test") if c else None for name, c in best.items()}
    compared = []
    for family in plan.families:
        number = len(family.comparisons)
        pairs = [_difference(values[system], values[baseline]) for system, baseline in family.comparisons]
        tests = [significance.targets(d, 1 - plan.alpha) if d is not None else _NO_TESTS for d in pairs]
        raw = [test["queries"].p if test["queries"] else None for test in tests]
        adjusted = {name: significance.adjust(raw, name) for name in significance.CORRECTIONS}
        for place, ((system, baseline), d) in enumerate(zip(family.comparisons, pairs, strict=True)):
            difference = None if d is None else float(d.mean())
            p = adjusted[family.correction][place]
            significant = p is not None and difference is not None and p < plan.alpha
            verdict: Verdict = "undecided"
            if significant and difference:
                verdict = "better" if difference > 0 else "worse"
            compared.append(
                Comparison(
                    family=family.name,
                    task=plan.task,
                    metric=plan.metric,
                    system=system,
                    baseline=baseline,
                    difference=difference,
                    targets=tests[place],
                    adjusted={name: column[place] for name, column in adjusted.items()},
                    comparisons=number,
                    effect=None if d is None else significance.effect_size(d),
                    detectable=None if d is None else significance.detectable(d, plan.alpha / number),
                    verdict=verdict,
                )
            )
    return compared


def conclusion(results: Results, table: Table, compared: list[Comparison]) -> str:
    """What the first family says about its first baseline, in one plain sentence or two."""
    baseline = table.baselines[0]
    family = results.plan.families[0].name
    own = [c for c in compared if c.family == family and c.baseline == baseline]
    known = [c for c in own if c.difference is not None]
    incomplete = [c.system for c in own if c.difference is None]
    missing = f" Not compared, because incomplete: {', '.join(incomplete)}." if incomplete else ""
    if not known:
        return f"Nothing can be said about {baseline}: no comparison with it is complete.{missing}"
    decided = [
        f"{c.system} is significantly {c.verdict} than {baseline} on new queries ({c.difference:+.4f}, corrected p "
        f"{p_value(c.adjusted[results.plan.families[0].correction])}{_both(c)})"
        for c in known
        if c.verdict != "undecided"
    ]
    sample = f"with {table.queries} queries and {table.seeds} seed{'s' if table.seeds != 1 else ''}"
    gains = [c.detectable for c in known if c.detectable is not None]
    gain = f"; {sample} a gain of {max(gains):.4f} would have been seen with 80 % power" if gains else f" {sample}"
    if not decided:
        return f"No variant differs significantly from {baseline}{gain}.{missing}"
    return f"{'; '.join(decided)}; {sample}.{missing}"


def p_value(p: float | None) -> str:
    """Four decimals, or a dash where there is no test."""
    return "-" if p is None else "<.0001" if p < 0.0001 else f"{p:.4f}"


def _both(comparison: Comparison) -> str:
    both = comparison.targets["both"]
    return f"; on new queries and new seeds uncorrected p {p_value(both.p)}" if both else ""


_NAMED = 8
"""How many configurations a note names before it only counts them."""
_NO_TESTS: dict[str, Test | None] = {"queries": None, "seeds": None, "both": None}


def _difference(system: Array | None, baseline: Array | None) -> Array | None:
    return None if system is None or baseline is None else significance.differences(system, baseline)


def _table(
    results: Results, found: list[Configuration], best: dict[str, Configuration | None], compared: list[Comparison]
) -> Table:
    plan = results.plan
    first = plan.families[0]
    baselines = list(dict.fromkeys(baseline for _, baseline in first.comparisons))[:2]
    rows = [_row(results, name, best[name], baselines, compared) for name in plan.all_systems]
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
        alpha=plan.alpha,
        seeds=len(plan.seeds_of("test")),
        search_seeds=len(plan.seeds),
        confirmed=bool(plan.confirm_seeds),
        queries=queries,
        scored_in=_precisions(best),
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


def _row(
    results: Results, name: str, own: Configuration | None, baselines: list[str], compared: list[Comparison]
) -> Row:
    plan = results.plan
    if own is None:
        return Row(name, None, None, None, "", None, None, "", f"no {plan.test_split} scores")
    marks = ""
    for baseline, symbols in zip(baselines, ("▲▼", "△▽"), strict=False):
        for c in compared:
            if (c.family, c.system, c.baseline) == (plan.families[0].name, name, baseline):
                marks += {"better": symbols[0], "worse": symbols[1], "undecided": ""}[c.verdict]
    dev, test = mean(own.values(plan, "search")), mean(own.values(plan, "test"))
    faults = own.faults(plan, "test") or own.faults(plan, "search")
    settings = ", ".join(own.settings)
    return Row(name, own.id, own.epsilon or None, own.switch, settings, dev, test, marks, "; ".join(faults))
