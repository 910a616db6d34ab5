"""The declared comparisons and the main table: every number of the report, before it is given a form."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from analysis import significance
from analysis.configurations import Configuration, chosen, configurations
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
    """One system: its chosen configuration, mean and sample standard deviation over seeds (None: one run)."""

    system: str
    configuration: str | None
    epsilon: float | None
    switch: float | None
    dev: tuple[float, float | None] | None
    test: tuple[float, float | None] | None
    marks: str
    note: str


@dataclass(frozen=True)
class Table:
    """The main table. `notes` name what is incomplete; `baselines` are those of the marks ▲▼ and △▽; `scored_in` the
    precisions that the models' scores were computed in, as far as the runs tell."""

    rows: list[Row]
    notes: list[str]
    metric: str
    splits: tuple[str, str]
    baselines: list[str]
    alpha: float
    seeds: int
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
    return Analysis(results, found, best, table, compared, conclusion(results, table, compared))


def compare(results: Results, best: dict[str, Configuration | None]) -> list[Comparison]:
    """The plan's comparisons on its test split, family by family, in its order."""
    plan = results.plan
    values = {name: c.values(plan, plan.test_split) if c else None for name, c in best.items()}
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


_NO_TESTS: dict[str, Test | None] = {"queries": None, "seeds": None, "both": None}


def _difference(system: Array | None, baseline: Array | None) -> Array | None:
    return None if system is None or baseline is None else significance.differences(system, baseline)


def _table(
    results: Results, found: list[Configuration], best: dict[str, Configuration | None], compared: list[Comparison]
) -> Table:
    plan = results.plan
    splits = (plan.search_split, plan.test_split)
    first = plan.families[0]
    baselines = list(dict.fromkeys(baseline for _, baseline in first.comparisons))[:2]
    rows = [_row(results, name, best[name], baselines, compared) for name in plan.all_systems]
    notes = [f"{row.system} is incomplete: {row.note}" for row in rows if row.note]
    shown = [c.id for c in best.values() if c is not None]
    for configuration in found:
        split = (
            plan.test_split if configuration.system in best and _tested(configuration, plan.test_split) else splits[0]
        )
        faults = configuration.faults(plan, split)
        if configuration.id not in shown and faults:
            notes.append(f"{configuration.label} [{configuration.id}] is incomplete: {'; '.join(faults)}")
        extra = sorted(seed for seed in configuration.runs if seed is not None and seed not in plan.seeds)
        if extra:
            notes.append(f"{configuration.label} [{configuration.id}] has undeclared seeds, not used: {extra}")
    tested = [c.values(plan, plan.test_split) for c in best.values() if c is not None]
    queries = max((len(value[0]) for value in tested if value is not None), default=0)
    return Table(rows, notes, plan.metric, splits, baselines, plan.alpha, len(plan.seeds), queries, _precisions(best))


def _precisions(best: dict[str, Configuration | None]) -> list[str]:
    runs = [run for configuration in best.values() if configuration for run in configuration.runs.values()]
    trainings = [(run.config.get("specification") or {}).get("training") or {} for run in runs]
    return sorted({training["evaluation_precision"] for training in trainings if "evaluation_precision" in training})


def _tested(configuration: Configuration, split: str) -> bool:
    return any(split in run.files for run in configuration.runs.values())


def _row(
    results: Results, name: str, own: Configuration | None, baselines: list[str], compared: list[Comparison]
) -> Row:
    plan = results.plan
    if own is None:
        return Row(name, None, None, None, None, None, "", f"no {plan.test_split} scores")
    marks = ""
    for baseline, symbols in zip(baselines, ("▲▼", "△▽"), strict=False):
        for c in compared:
            if (c.family, c.system, c.baseline) == (plan.families[0].name, name, baseline):
                marks += {"better": symbols[0], "worse": symbols[1], "undecided": ""}[c.verdict]
    dev, test = (_mean(own.values(plan, split)) for split in (plan.search_split, plan.test_split))
    faults = own.faults(plan, plan.test_split) or own.faults(plan, plan.search_split)
    return Row(name, own.id, own.epsilon or None, own.switch, dev, test, marks, "; ".join(faults))


def _mean(values: Array | None) -> tuple[float, float | None] | None:
    if values is None:
        return None
    seeds = values.mean(axis=1)
    return float(seeds.mean()), float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
