"""Preview of a study: its runs, shared training, cost and minimum detectable effects.

It loads neither torch nor ray, except with --estimate-cost, which trains for a minute.
"""

import math
from collections.abc import Callable
from typing import Any

from records.plan import Plan, PlannedFamily
from records.plan_file import PLAN_FILE
from records.run_record import Split
from study.config.schema import Study
from study.config.spaces import count_configurations
from study.config.systems import get_systems
from study.config.training_length import resolve_length
from study.execution.connect import get_cluster_address
from study.execution.slots import check_cores, check_environment_variables, get_local_concurrency
from study.folder.run_store import RunStore
from study.plan.analysis_plan import build_plan, check_changes, check_folder
from study.plan.collections import find_collections
from study.plan.cost_estimate import START_AND_REPORT, Cost, estimate_cost_from_rates, estimate_cost_from_records
from study.plan.run_counts import SystemRuns, count_runs
from study.plan.shared_training import bound_instances_with_sharing, bound_instances_without_sharing
from study.workflows.seed_preview import build_seed_rows, find_detectable_effects, format_seed_table
from trainables.exchange.head_form import check_model
from trainables.metrics import LOWER_IS_BETTER, get_measure
from trainables.models.pretrained import find_local_model, hash_model
from trainables.specs.environment import ROCM_DEVICE, count_gpus
from trainables.specs.plugin import Throughput
from trainables.text.text_overlap import describe_overlap

Row = dict[str, Any]
_UNPREPARED = "unknown until --prepare"
_MIN_SEEDS = 3
"""Fewest seeds of the test scores without a warning."""
_FEW_SEEDS = ("decide next to nothing", "says nothing about other seeds")
"""What is wrong with two seeds, and with one."""


class Preview(dict[str, Any]):
    """Preview of a study: plain data, shown as the text of --dry-run."""

    def __str__(self) -> str:
        return "\n".join(_format_lines(self))

    def __repr__(self) -> str:
        return str(self)


def build_preview(
    study: Study,
    estimate_cost: bool = False,
    log: Callable[[str], None] = lambda line: None,
    records: str | None = None,
) -> Preview:
    """Return the preview of a study. Unknown values are None.

    Args:
        study: the study as the command line describes it.
        estimate_cost: True to train for a minute in order to estimate the cost.
        log: called with a line for each step of that minute.
        records: folder, file of scores or archive:NAME of an earlier study, which say what differences this one shows.
            If None, those of the study's own folder.

    Returns:
        Keys are study, task, candidates (of dev and test queries, in words; empty for sentence encoders), label_noise
            (in words; None without), model, seeds, confirm_seeds, group_size, systems (one row for each), runs,
            training, instances (bounds), sampler, round_size, pruning, budgets, data, queries, overlaps, records, cost
            (hours), metric, unit, families (of the plan's comparisons), problems (that would stop a start on this
            machine), fresh_seeds (see `seed_preview.build_seed_rows`) and detectable (see
            `seed_preview.find_detectable_effects`).

    Raises:
        UserError: the local files of the model cannot be trained; this machine has too few cores; training is too short
            for its evaluations; the study does not fit its prepared data; or the study cannot start, because its
            folder has results of other settings or other data. With `estimate_cost`, also if the task or the model is
            not what the study says; with `records`, if they have no scores of the study's comparisons.
    """
    if (path := find_local_model(study.model.name)) is not None:
        check_model(path, study.model)
    cluster = get_cluster_address(study)
    check_environment_variables()
    if cluster is None:
        check_cores(study)
    problems = list[str]()
    if cluster is None and study.resources.gpu and not count_gpus() and not ROCM_DEVICE.exists():
        problems.append(f"resources.gpu: {study.resources.gpu:g}, but this machine shows no NVIDIA GPU")
    measured: list[Throughput] = []
    if estimate_cost:
        from study.workflows.study_throughput import measure_study_throughput

        measured = measure_study_throughput(study, log)
    data, run_store, epochs = study.study_type.trainable.data_backend, RunStore(study.folder), study.training.epochs
    prepared = data.find_prepared_data(study.task, study.cache_folder)
    description = data.describe_data(prepared) if prepared else None
    if prepared and description:
        study = resolve_length(study, prepared)
        data.check_data(study, prepared)
        has_plan = (study.folder / PLAN_FILE).is_file()  # without one, the model need not be read
        digest = hash_model(path, study.model) if has_plan and path is not None else None
        if (portable := find_collections(study)) is not None:
            check_changes(portable.model_copy(update={"task": prepared.settings}), digest, description)
    else:
        check_folder(study, study.folder)
    is_length_known = study.training.epochs is None and study.scorer_training.epochs is None
    counts = count_runs(study)
    splits = prepared.read_metadata()["splits"] if prepared else {}
    queries = {split: numbers["queries"] for split, numbers in splits.items()} or None
    states = [run_store.get_state(run_id) for run_id in run_store.list_run_ids()]
    where = "this machine" if cluster is None else "the cluster"
    cost = _estimate_recorded_cost(run_store)
    if measured and queries:
        cost = estimate_cost_from_rates(study, measured, queries, where)
    bounds = None
    if is_length_known:
        unshared, shared = bound_instances_without_sharing(study), bound_instances_with_sharing(study)
        bounds = {"unshared": unshared._asdict(), "shared": shared._asdict()}
    document = build_plan(study, model_digest="")  # what is read of it does not depend on the model
    plan = Plan.model_validate(document)
    values: dict[str, Any] = {
        "study": study.name,
        "task": study.task.name,
        "candidates": plan.candidates,
        "label_noise": study.task.describe_label_noise(),
        "model": study.model.name,
        "seeds": list(study.seeds),
        "confirm_seeds": list(study.confirm.seeds),
        "group_size": study.confirm.group_size,
        "systems": [_build_row(study, row) for row in counts],
        "runs": sum(row.n_runs for row in counts),
        "training": {"epochs": epochs, "instances": study.training.instances if is_length_known else None},
        "instances": bounds,
        "sampler": study.search.sampler,
        "round_size": study.search.round_size,
        "pruning": study.search.pruning,
        "budgets": {"hours": study.search.hours, "gpu_hours": study.search.gpu_hours},
        "data": prepared.fingerprint if prepared else None,
        "queries": queries,
        "overlaps": description.get("overlaps", []) if description else None,
        "records": {state: states.count(state) for state in ("finished", "failed")},
        "cost": _estimate_hours(study, cost, counts, len(measured)) if cost and is_length_known else None,
        "metric": study.analysis.metric,
        "unit": plan.unit,
        "families": document["families"],
        "problems": problems,
        "fresh_seeds": build_seed_rows(study, cost),
        "detectable": find_detectable_effects(study, plan, queries, records),
    }
    return Preview(values)


def _build_row(study: Study, counts: SystemRuns) -> Row:
    name, each = counts.system, counts.instances
    return {
        "system": f"{name} order" if name in study.reference_rankings else name,
        "configurations": counts.configurations,
        "of": count_configurations(study, name) if name in get_systems(study) else 1,
        "runs": counts.n_runs,
        "instances": None if each is None else counts.n_runs * each,
    }


def _estimate_recorded_cost(run_store: RunStore) -> Cost | None:
    entries, tests = _read_summaries(run_store, "dev"), _read_summaries(run_store, "test")
    trained = [(entry.get("instances_trained", 0), entry["seconds"]) for entry in entries if "seconds" in entry]
    return estimate_cost_from_records(trained, [entry["test/seconds"] for entry in tests if "test/seconds" in entry])


def _read_summaries(run_store: RunStore, split: Split) -> list[dict[str, Any]]:
    """Return the summaries of the finished evaluations of a split."""
    ids = [run_id for run_id in run_store.list_run_ids(split) if run_store.is_finished(run_id, split)]
    return [summary for run_id in ids if (summary := run_store.get_summary(run_id, split))]


def _estimate_hours(study: Study, cost: Cost, counts: list[SystemRuns], n_measured: int) -> dict[str, Any]:
    """Return the estimated hours of the study; `n_measured` runs were measured at once, none if it is 0."""
    runs, tests = sum(row.n_runs for row in counts), sum(row.tests for row in counts)
    at_once = n_measured or (
        get_local_concurrency(study) if get_cluster_address(study) is None else study.resources.concurrent
    )
    instances = bound_instances_with_sharing(study)._asdict()
    bounds = {name: round(cost.estimate_hours(runs, tests, count), 3) for name, count in instances.items()}
    wall = {name: round(estimate_wall_hours(hours, at_once), 3) for name, hours in bounds.items()} if at_once else None
    parts = {
        name: round(seconds / 60 / (at_once or 1), 2)
        for name, seconds in cost.list_parts(runs, tests, instances["high"]).items()
        if seconds
    }
    return {"source": cost.source, "trial_hours": bounds, "at_once": at_once, "hours": wall, "minutes_of_parts": parts}


def estimate_wall_hours(trial_hours: float, at_once: int, studies: int = 1) -> float:
    """Return the hours until the last report, with the start and the reports of so many studies."""
    return trial_hours / at_once + studies * START_AND_REPORT / 3600


def _format_lines(preview: dict[str, Any]) -> list[str]:
    width = max(12, *(len(row["system"]) for row in preview["systems"]))
    fresh = f", confirmed with {preview['confirm_seeds']}" if preview["confirm_seeds"] else ""
    if preview["group_size"]:
        fresh += f" in groups of {preview['group_size']}, until all is decided"
    lines = [
        f"study {preview['study']}: task {preview['task']}, model {preview['model']}, seeds {preview['seeds']}{fresh}",
        *([f"dev and test candidates: {preview['candidates']}"] if preview["candidates"] else []),
        *([f"label noise: {preview['label_noise']}"] if preview["label_noise"] else []),
        f"{'system':{width}} {'configurations':>16} {'runs':>6} {'instances':>12}",
    ]
    for row in preview["systems"]:
        has_all = row["of"] == row["configurations"]
        count = row["configurations"] if has_all else f"{row['configurations']} of {row['of']}"
        lines.append(f"{row['system']:{width}} {count:>16} {row['runs']:6} {_format_number(row['instances']):>12}")
    total = sum(row["configurations"] for row in preview["systems"])
    training, instances = preview["training"], preview["instances"]
    all_instances = sum(row["instances"] for row in preview["systems"]) if instances else None
    lines.append(f"{'total':{width}} {total:16} {preview['runs']:6} {_format_number(all_instances):>12}")
    if training["epochs"]:
        count = _format_number(training["instances"], _UNPREPARED)
        lines.append(f"training: {training['epochs']:g} epochs; instances per run: {count}")
    if instances:
        lines.append(f"instances to train: {_format_sharing(**instances)}")
    else:
        lines.append(f"instances to train: {_UNPREPARED}")
    rules = [f"proposed by {preview['sampler']}", *(["raced"] if preview["pruning"] else [])]
    if preview["sampler"] != "grid" or preview["pruning"]:
        rules.append(f"search.round_size = {preview['round_size']} configurations a round, on which results depend")
    rules += [f"at most {value:g} {name.replace('_', ' ')}" for name, value in preview["budgets"].items() if value]
    lines.append(f"search: {', '.join(rules)}")
    if (tested := len(preview["confirm_seeds"] or preview["seeds"])) < _MIN_SEEDS:
        lines.append(
            f"warning: {tested} seed{'s' * (tested != 1)} on test {_FEW_SEEDS[tested == 1]}; take at least {_MIN_SEEDS}"
        )
    if any(preview["budgets"].values()):
        lines.append("the result depends on the machine's speed and is not reproducible, because a time budget is set")
    lines += [_format_family(PlannedFamily.model_validate(family)) for family in preview["families"]]
    lines.append(f"data: {preview['data'] or _UNPREPARED}")
    lines += map(describe_overlap, preview["overlaps"] or ())
    records, cost = preview["records"], preview["cost"]
    lines.append(f"records: {records['finished']} runs finished, {records['failed']} failed")
    unpriced = "unknown until a run is recorded, or --estimate-cost" if instances else _UNPREPARED
    lines.append(f"cost: {_format_cost(cost) if cost else unpriced}")
    metric, own = preview["metric"], len(preview["confirm_seeds"] or preview["seeds"])
    largest = math.inf if metric in LOWER_IS_BETTER else get_measure(metric).max_value
    lines += format_seed_table(own, preview["fresh_seeds"], preview["detectable"], largest, preview["unit"])
    return lines + [f"a start here would fail: {problem}" for problem in preview["problems"]]


def _format_family(family: PlannedFamily) -> str:
    within = f" by {len(family.metrics)} metrics" if family.metrics else ""
    count = len(family.comparisons) * max(1, len(family.metrics))
    return f"comparisons, {family.name}: {family.format_pairs()}{within} ({family.correction} for {count})"


def _format_sharing(unshared: dict[str, int], shared: dict[str, int]) -> str:
    if shared["low"] == shared["high"]:
        return f"{format_bounds(unshared)} without sharing, {shared['low']} if common first segments are trained once"
    saved = unshared["low"] - shared["low"]
    return f"at most {unshared['high']}; training common first segments once saves up to {saved} of them"


def _format_number(value: int | None, unknown: str = "unknown") -> str:
    return unknown if value is None else str(value)


def _format_cost(cost: dict[str, Any]) -> str:
    if not cost["hours"]:
        return f"{format_duration(cost['trial_hours'])} of trials, by {cost['source']}"
    parts = {"start and report": START_AND_REPORT / 60, **cost["minutes_of_parts"]}
    named = ", ".join(f"{name} {minutes:.1f}" for name, minutes in parts.items())
    wall, trials = format_duration(cost["hours"]), format_duration(cost["trial_hours"])
    return f"{wall} with {cost['at_once']} at once ({trials} of trials), by {cost['source']}; minutes: {named}"


def format_duration(hours: dict[str, float]) -> str:
    """Format the bounds low and high of a duration in minutes, or in hours from two hours on."""
    if hours["high"] >= 2:
        return f"{format_bounds(hours)} hours"
    low, high = (f"{60 * value:.1f}" for value in hours.values())
    return f"{low if low == high else f'{low} to {high}'} minutes"


def format_bounds(bounds: dict[str, Any]) -> str:
    """Format the bounds low and high of a number; equal ones once."""
    low, high = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in bounds.values())
    return low if low == high else f"{low} to {high}"
