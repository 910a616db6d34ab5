"""Preview of a confirmation: what several numbers of fresh seeds cost, and what difference they would show."""

from typing import Any

from analysis.comparisons.planning import compute_detectable_effects, estimate_dev_components
from records.plan import Plan
from records.plan_file import PLAN_FILE
from study.config.schema import Study
from study.config.systems import UNTRAINED
from study.folder.run_store import RunStore
from study.plan.cost_estimate import Cost
from study.plan.run_counts import count_runs

_NUMBERS = (3, 5, 10, 20)


def build_seed_rows(
    study: Study, plan: Plan, cost: Cost | None, queries: dict[str, int] | None
) -> list[dict[str, Any]]:
    """Return one row for each of several numbers of fresh seeds, among them that of the study.

    Args:
        study: the study.
        plan: its plan.
        cost: seconds of the parts of a study; None if they are not known.
        queries: number of queries by split; None if they are not known.

    Returns:
        Rows with seeds; trainings, at most (the default of a system may win); trial_hours of these trainings and the
            tests, None without a cost; detectable, None until two systems have scores of several seeds.
    """
    confirmed = [row for row in count_runs(study) if row.confirmed]
    n_trained = sum(row.confirmed for row in confirmed if row.system != UNTRAINED)
    numbers = sorted({*_NUMBERS, *([len(study.confirm.seeds)] if study.confirm.seeds else [])})
    length = study.training.instances if study.training.epochs is None else None
    effects = _compute_effects(study, plan, queries, numbers)
    rows = []
    for number, effect in zip(numbers, effects, strict=True):
        trainings, tests = n_trained * number, len(confirmed) * number
        hours = None
        if cost is not None and length is not None:
            hours = round(cost._replace(once=0.0).estimate_hours(trainings, tests, trainings * length), 3)
        rows.append({"seeds": number, "trainings": trainings, "trial_hours": hours, "detectable": effect})
    return rows


def format_seed_rows(own: int, rows: list[dict[str, Any]]) -> list[str]:
    """Format the rows as the lines of a table, or as one line if only the trainings are known.

    Args:
        own: number of fresh seeds of the study, which is marked.
        rows: the rows; without any, there is no table.
    """
    if not rows:
        return []
    if all(row["trial_hours"] is row["detectable"] is None for row in rows):
        counts = [f"{row['seeds']} take {row['trainings']}" for row in rows]
        return [f"fresh seeds: {', '.join(counts)} trainings at most"]
    lines = [f"{'fresh seeds':>12} {'trainings':>10} {'trial hours':>12}  difference shown with 80 % power"]
    for row in rows:
        hours = "unknown" if row["trial_hours"] is None else f"{row['trial_hours']:.2f}"
        effect = "unknown" if row["detectable"] is None else f"about {row['detectable']:.4f}"
        mark = " (this study)" if row["seeds"] == own else ""
        lines.append(f"{row['seeds']:12} {row['trainings']:10} {hours:>12}  {effect}{mark}")
    return lines


def _compute_effects(
    study: Study, plan: Plan, queries: dict[str, int] | None, numbers: list[int]
) -> list[float | None]:
    if queries is None or not (study.folder / PLAN_FILE).is_file() or not RunStore(study.folder).list_run_ids():
        return [None] * len(numbers)
    from analysis.readers.study_reader import read_records

    components = estimate_dev_components(read_records(study.folder))
    if components is None:
        return [None] * len(numbers)
    return compute_detectable_effects(plan, components, queries["test"], numbers)
