"""Preview of the numbers of seeds: what they cost, and what difference each comparison would show."""

from typing import Any

from analysis.comparisons.planning import Pilot, compute_detectable_effects, estimate_from_results, read_pilot
from records.plan import Plan, adapt_to_unit
from records.plan_file import PLAN_FILE
from study.config.schema import UNTRAINED, Study
from study.config.spaces import chooses_by_scores
from study.folder.run_store import RunStore
from study.plan.cost_estimate import Cost
from study.plan.run_counts import count_runs

_NUMBERS = (3, 5, 10, 20)
_NOTE = "differences: found with 80 % power, corrected, with {queries} on test; variances from {source}"
_UNKNOWN = "differences found with 80 % power: unknown; --records SOURCE takes the scores of an earlier study"


def list_seed_numbers(study: Study) -> list[int]:
    """Return the numbers of seeds that a preview is about, among them that of the study's test scores."""
    return sorted({*_NUMBERS, len(study.confirm.seeds or study.seeds)})


def build_seed_rows(study: Study, cost: Cost | None) -> list[dict[str, Any]]:
    """Return the cost of a confirmation with each of several numbers of fresh seeds.

    Returns:
        Rows with seeds; trainings, at most (the default of a system may win); and trial_hours of these trainings and
            the tests, None without a cost. Empty if the study chooses nothing, so that its own seeds are as good.
    """
    if not chooses_by_scores(study):
        return []
    confirmed = [row for row in count_runs(study) if row.confirmed]
    n_trained = sum(row.confirmed for row in confirmed if row.system != UNTRAINED)
    length = study.training.instances if study.training.epochs is None else None
    rows = []
    for number in list_seed_numbers(study):
        trainings, tests = n_trained * number, len(confirmed) * number
        hours = None
        if cost is not None and length is not None:
            hours = round(cost._replace(once=0.0).estimate_hours(trainings, tests, trainings * length), 3)
        rows.append({"seeds": number, "trainings": trainings, "trial_hours": hours})
    return rows


def find_detectable_effects(
    study: Study, plan: Plan, queries: dict[str, int] | None, records: str | None
) -> dict[str, Any] | None:
    """Return the difference that each comparison would show, for several numbers of seeds.

    It is computed from `records`, scores of an earlier study as `read_pilot` takes them, or from those of the study's
    own folder. If the number of queries is not known, it is that of the scores.

    Returns:
        Keys are seeds (the numbers), queries (of the test split), source (of the variances, in words) and comparisons:
            rows with family, system, baseline and effects, None where a pair has no scores. None if no pair has any.

    Raises:
        UserError: if `records` are no scores, or have none of the pairs.
    """
    pilot = _read_own_pilot(study, plan) if records is None else read_pilot(plan, records)
    if pilot is None or not pilot.variances:
        return None
    numbers, n_queries = list_seed_numbers(study), queries["test"] if queries else pilot.queries
    effects = compute_detectable_effects(plan, pilot.variances, n_queries, numbers)
    rows = [row._asdict() for row in effects]
    return {"seeds": numbers, "queries": n_queries, "source": pilot.source, "comparisons": rows}


def format_seed_table(
    own: int, rows: list[dict[str, Any]], detectable: dict[str, Any] | None, largest: float, unit: str
) -> list[str]:
    """Format what numbers of seeds cost and show as the lines of one table; the number `own` is marked."""
    if detectable is None and all(row["trial_hours"] is None for row in rows):
        counts = [f"{row['seeds']} take {row['trainings']}" for row in rows]
        return [*([f"fresh seeds: {', '.join(counts)} trainings at most"] if rows else []), _UNKNOWN]
    numbers = detectable["seeds"] if detectable else [row["seeds"] for row in rows]
    table = [("seeds on test (* this study)", [f"{number}{'*' * (number == own)}" for number in numbers])]
    if rows:
        table.append(("trainings with fresh seeds", [str(row["trainings"]) for row in rows]))
        if rows[0]["trial_hours"] is not None:
            table.append(("their trial hours", [f"{row['trial_hours']:.2f}" for row in rows]))
    table += [
        (f"{row['system']} over {row['baseline']}", [_format_effect(effect, largest) for effect in row["effects"]])
        for row in (detectable["comparisons"] if detectable else ())
    ]
    width = max(len(name) for name, _ in table)
    lines = [f"{name:{width}}" + "".join(f" {cell:>8}" for cell in cells) for name, cells in table]
    if detectable is None:
        return [*lines, _UNKNOWN]
    queries = adapt_to_unit(f"{detectable['queries']:,} queries", unit)
    return [*lines, _NOTE.format(queries=queries, source=detectable["source"])]


def _format_effect(effect: float | None, largest: float) -> str:
    if effect is None:
        return "unknown"
    return f"{effect:.4f}" if effect < largest else f">{largest:g}"


def _read_own_pilot(study: Study, plan: Plan) -> Pilot | None:
    if not (study.folder / PLAN_FILE).is_file() or not RunStore(study.folder).list_run_ids():
        return None
    from analysis.readers.study_reader import read_records

    pilot = estimate_from_results(plan, read_records(study.folder))
    return pilot._replace(source=f"this study: {pilot.source}")
