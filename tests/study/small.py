"""Real studies of the tiny world: real schedulers, trials, training and records, one after the other without Ray."""

import json
import random
from pathlib import Path
from typing import Any

from records import run_record as record
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.execution.checkpoint_evictor import CheckpointEvictor
from study.execution.trainable import StudyTrainable, TrialError
from study.folder.run_store import RunStore
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import PlannedConfiguration, ResolvedInputs, TrialRequest
from study.tracking import Tracking
from tests.trainables.small import BATCH_SIZE, FROZEN, TRAINING, World
from trainables.models import pretrained as weights
from trainables.specs import environment
from trainables.specs.trial import Collection

BATCHES = 6
SETTINGS: dict[str, Any] = {
    "name": "tiny",
    "seeds": [1, 2],
    "training": {**TRAINING, "instances": BATCHES * BATCH_SIZE, "threads": 1},
    "analysis": {"metric": "R5@1"},
    "tracking": {"mode": "disabled"},
}


def study(world: World, place: Path, folder: Path, **changes: Any) -> Study:
    """A study of the tiny world in `place`, its cache in `folder`."""
    made = {
        **SETTINGS,
        "task": world.prepared.settings.model_dump(),
        "model": {"name": str(world.bert), "max_length": 32, **FROZEN},
        "output": {"folder": str(place)},
        **changes,
    }
    return get_study_class().model_validate({**made, "cache": {"folder": str(folder), **changes.get("cache", {})}})


def scheduler(world: World, made: Study, collections: tuple[Collection, ...] = ()) -> StudyScheduler:
    """Its scheduler."""
    path, there = weights.resolve_model_path(made.model.name), environment.detect_environment()
    resolved = ResolvedInputs(
        world.prepared.fingerprint,
        weights.hash_model(path, made.model),
        path,
        there,
        world.prepared.domains,
        collections=collections,
        folder_digest=weights.hash_module_files(path),
    )
    return StudyScheduler(made, resolved, RunStore(made.folder), "plan-hash")


def carry_out(request: TrialRequest, folder: Path) -> None:
    """Runs a trial in this process and records its end, as the driver does; raises again what a run failed by."""
    tracking = Tracking(mode="disabled", project="tiny", folder=folder)
    labels, job = json.dumps(request.labels), request.trial.model_dump_json()
    trial = StudyTrainable(config={"trial": job, "labels": labels, "tracking": tracking.model_dump_json()})
    try:
        while not (result := trial.step())["done"]:
            pass
    except TrialError as failed:
        record.write_run_record(folder, request.split, failed.record, None)
        raise failed.error from None
    record.write_run_record(folder, request.split, json.loads(result["record"]), result["scores"])


def conduct(begun: StudyScheduler, order: random.Random | None = None, stop_after: int | None = None) -> list[str]:
    """Runs a scheduler's requests in one process, in the scheduler's order or in one drawn; returns what was said."""
    said: list[str] = []
    budget, started, running = CheckpointEvictor([begun], said.append), 0, []
    while not begun.is_finished and (stop_after is None or started < stop_after):
        while len(running) < (3 if order else 1) and (request := begun.pop_request()) is not None:
            running.append(request)
        request = running.pop(order.randrange(len(running)) if order else 0)
        started += 1
        carry_out(request, begun.folder)
        begun.mark_ended(request)
        budget.on_trial_end(request)
    budget.evict_unneeded()
    return said


def table(begun: StudyScheduler) -> dict[str, Any]:
    """Reads weights and metric of every run of a study, and the test metric of the chosen ones."""
    found = {}
    for item in begun.configurations:
        for run in item.runs:
            for split in ("dev", "test"):
                entry = record.read_run_record(begun.folder, run.id, split)
                if entry is not None:
                    summary = entry["summary"]
                    found[item.name, run.id, split] = (summary.get("weights"), summary.get(f"{split}/R5@1"))
    return found


def totals(begun: StudyScheduler, configurations: list[PlannedConfiguration] | None = None) -> tuple[int, int]:
    """Instances trained, and instances that would have been without sharing."""
    runs = [run for item in configurations or begun.configurations for run in item.runs]
    summaries = [entry["summary"] for run in runs if (entry := record.read_run_record(begun.folder, run.id))]
    trained = sum(summary["instances_trained"] for summary in summaries)
    return trained, trained + sum(summary["instances_reused"] for summary in summaries)
