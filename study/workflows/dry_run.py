"""What a study would run, share, cost and be able to detect, before anything is spent.

Loads neither torch nor ray, but for --calibrate, which trains for a minute.
"""

import json
from typing import Any

from study.config.schema import Study
from study.config.spaces import searched, size
from study.config.systems import UNTRAINED, trained_scores
from study.config.training_length import settled
from study.execution.connect import address
from study.execution.slots import check_cores, places
from study.plan.cost import Cost, calibrated, recorded
from study.plan.shared_training import shared, unshared
from study.records.run_record import Split
from study.records.run_store import Ledger
from trainables.models import pretrained as weights
from trainables.utils import cli as command_line
from trainables.utils.text_overlap import describe_overlap

Row = dict[str, Any]
_UNPREPARED = "unknown until --prepare"
_SCORER = "scorer"


def preview(study: Study, calibrate: bool = False) -> dict[str, Any]:
    """The plan as plain data; what is not known is None.

    Args:
        study: what was asked for.
        calibrate: whether to train for a minute to learn the cost.

    Raises:
        UserError: the model's files, as far as they are here, cannot be trained; this machine has too few cores;
            training is too short for its evaluations, or the study cannot be run on its data, as far as that is
            prepared; with `calibrate`, the task or the model is not what the study says.
    """
    if (path := weights.at_hand(study.model.name)) is not None:
        weights.check(path, study.model)
    if address(study) is None:
        check_cores(study)
    if calibrate:
        from study.workflows.throughput import calibrate as measure

        rates = measure(study, lambda line: None)
    data = study.kind.trainable.data
    prepared, ledger, epochs = data.find(study.task, study.cache), Ledger(study.folder), study.training.epochs
    if prepared:
        study = settled(study, prepared)
        data.check(study, prepared)
    known = study.training.epochs is None
    rows = _rows(study, study.training.instances if known else None)
    queries = {split: counts["queries"] for split, counts in prepared.meta()["splits"].items()} if prepared else None
    states = [ledger.state(run_id) for run_id in ledger.ids()]
    where = "this machine" if address(study) is None else "the cluster"
    cost = calibrated(study, rates, queries, where) if calibrate and queries else _recorded(ledger)
    bounds = {"unshared": unshared(study)._asdict(), "shared": shared(study)._asdict()} if known else None
    return {
        "study": study.name,
        "task": study.task.name,
        "model": study.model.name,
        "seeds": list(study.seeds),
        "confirm_seeds": list(study.confirm.seeds),
        "systems": rows,
        "runs": sum(row["runs"] for row in rows),
        "training": {"epochs": epochs, "instances": study.training.instances if known else None},
        "instances": bounds,
        "sampler": study.search.sampler,
        "parallel": study.search.parallel,
        "pruning": study.search.pruning,
        "budgets": {"hours": study.search.hours, "gpu_hours": study.search.gpu_hours},
        "data": prepared.fingerprint if prepared else None,
        "queries": queries,
        "overlaps": data.described(prepared).get("overlaps", []) if prepared else None,
        "records": {state: states.count(state) for state in ("finished", "failed")},
        "cost": _hours(study, cost, rows) if cost and known else None,
        "detectable": _detectable(study),
    }


def show(study: Study, calibrate: bool, as_json: bool) -> None:
    """Prints it, for people or for machines."""
    found = preview(study, calibrate)
    command_line.show(json.dumps(found, indent=1) if as_json else "\n".join(_lines(found)))


def _rows(study: Study, each: int | None) -> list[Row]:
    """One a system; `each`: instances of a run."""
    seeds, fresh = len(study.seeds), len(study.confirm.seeds)
    searches = searched(study)
    rows = [_row(_order(name), 1, 1, 0, 0) for name in study.kind.orders]
    rows.append(_row(UNTRAINED, 1, seeds, fresh, 0))
    if (baseline := study.kind.baseline) not in searches:
        rows.append(_row(baseline, 1, seeds, fresh, each))
    for name, count in searches.items():
        rows.append(_row(name, count, count * seeds, 2 * fresh, each) | {"of": size(study, name)})
    if trained_scores(study):
        rows.append(_row(_SCORER, 1, 1, 0, each))
    return rows


def _order(name: str) -> str:
    return f"{name} order"


def _row(name: str, configurations: int, runs: int, confirm: int, each: int | None) -> Row:
    return {
        "system": name,
        "configurations": configurations,
        "of": configurations,
        "runs": runs + confirm,
        "instances": None if each is None else (runs + confirm) * each,
    }


def _recorded(ledger: Ledger) -> Cost | None:
    entries, tests = _summaries(ledger, "dev"), _summaries(ledger, "test")
    trained = [(entry.get("instances_trained", 0), entry["seconds"]) for entry in entries if "seconds" in entry]
    return recorded(trained, [entry["test/seconds"] for entry in tests if "test/seconds" in entry])


def _summaries(ledger: Ledger, split: Split) -> list[dict[str, Any]]:
    """Of the finished evaluations of a split."""
    ids = [run_id for run_id in ledger.ids(split) if ledger.finished(run_id, split)]
    return [summary for run_id in ids if (summary := ledger.summary(run_id, split))]


def _hours(study: Study, cost: Cost, rows: list[Row]) -> dict[str, Any]:
    runs = sum(row["runs"] for row in rows)
    once = {_SCORER, *map(_order, study.kind.orders)}  # which have one run, whatever the seeds
    tested = [row for row in rows if row["system"] not in once]
    tests = len(tested) * len(study.confirm.seeds or study.seeds) + len(rows) - len(tested)
    at_once = places(study) if address(study) is None else study.resources.concurrent
    bounds = {name: round(cost.hours(runs, tests, instances), 3) for name, instances in shared(study)._asdict().items()}
    wall = {name: round(hours / at_once, 3) for name, hours in bounds.items()} if at_once else None
    return {"source": cost.source, "trial_hours": bounds, "at_once": at_once, "hours": wall}


def _detectable(study: Study) -> float | None:
    """With 80 % power and the corrections of the plan, over the first baseline, from the report of what is there."""
    path = study.folder / "report" / "comparisons.json"
    if not path.is_file():
        return None
    rows = json.loads(path.read_text(encoding="utf-8"))
    own = [row for row in rows if (row["family"], row["baseline"]) == (rows[0]["family"], rows[0]["baseline"])]
    return max((row["detectable"] for row in own if row["detectable"] is not None), default=None)


def _lines(found: dict[str, Any]) -> list[str]:
    width = max(12, *(len(row["system"]) for row in found["systems"]))
    fresh = f", confirmed with {found['confirm_seeds']}" if found["confirm_seeds"] else ""
    lines = [
        f"study {found['study']}: task {found['task']}, model {found['model']}, seeds {found['seeds']}{fresh}",
        f"{'system':{width}} {'configurations':>16} {'runs':>6} {'instances':>12}",
    ]
    for row in found["systems"]:
        whole = row["of"] == row["configurations"]
        count = row["configurations"] if whole else f"{row['configurations']} of {row['of']}"
        lines.append(f"{row['system']:{width}} {count:>16} {row['runs']:6} {_number(row['instances']):>12}")
    total = sum(row["configurations"] for row in found["systems"])
    each, instances = found["training"], found["instances"]
    whole = sum(row["instances"] for row in found["systems"]) if instances else None
    lines.append(f"{'in all':{width}} {total:16} {found['runs']:6} {_number(whole):>12}")
    if each["epochs"]:
        lines.append(f"training: {each['epochs']:g} epochs; instances a run: {_number(each['instances'], _UNPREPARED)}")
    if instances:
        together, without = (_bounds(instances[name]) for name in ("shared", "unshared"))
        lines.append(f"instances to train: {without} without sharing, {together} with equal beginnings trained once")
    else:
        lines.append(f"instances to train: {_UNPREPARED}")
    rules = [f"proposed by {found['sampler']}", *(["raced"] if found["pruning"] else [])]
    if found["sampler"] != "grid" or found["pruning"]:
        rules.append(f"search.parallel = {found['parallel']} configurations a round, on which results depend")
    rules += [f"at most {value:g} {name.replace('_', ' ')}" for name, value in found["budgets"].items() if value]
    lines.append(f"search: {', '.join(rules)}")
    if any(found["budgets"].values()):
        lines.append("a budget of time makes the result depend on the machine's speed: not reproducible")
    lines.append(f"data: {found['data'] or _UNPREPARED}")
    lines += map(describe_overlap, found["overlaps"] or ())
    records, cost = found["records"], found["cost"]
    lines.append(f"records: {records['finished']} runs finished, {records['failed']} failed")
    unpriced = "unknown until a run is recorded, or --calibrate" if instances else _UNPREPARED
    lines.append(f"cost: {_cost(cost) if cost else unpriced}")
    effect = found["detectable"]
    told = (
        f"{effect:.4f} with 80 % power, from the report" if effect else "unknown until a first result tells the noise"
    )
    return [*lines, f"detectable effect: {told}"]


def _number(value: int | None, unknown: str = "unknown") -> str:
    return unknown if value is None else str(value)


def _cost(cost: dict[str, Any]) -> str:
    wall = f", {_bounds(cost['hours'])} hours with {cost['at_once']} at once" if cost["hours"] else ""
    return f"{_bounds(cost['trial_hours'])} trial hours{wall}, by {cost['source']}"


def _bounds(found: dict[str, Any]) -> str:
    low, high = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in found.values())
    return low if low == high else f"{low} to {high}"
