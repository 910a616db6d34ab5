"""Drives a scheduler as Tune would, with records written by hand.

No model is trained: a run's metric is a pure function of its labels.
"""

import hashlib
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from records import run_record as record
from study.config.loader import Study
from study.config.study_class import get_study_class
from study.folder.run_store import RunStore
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import PlannedConfiguration, ResolvedInputs, TrialRequest
from trainables.specs.run_spec import Environment

Labels = dict[str, Any]
Metric = Callable[[Labels], float | None]
SEEDS = (1, 2)
TRIALS = {"LS": 3, "WSLS": 2, "T-LS": 5, "T-WSLS": 3}
RESOLVED = ResolvedInputs(
    fingerprint="fingerprint",
    model_digest="sha256:0",
    model_path=Path("/nowhere"),
    environment=Environment(device="cpu", instruction_set="any", torch="1", transformers="1", numpy="1"),
)
STUDY = get_study_class().model_validate(
    {
        "name": "small",
        "seeds": SEEDS,
        "training": {"instances": 64, "batch_size": 32, "negatives": 1, "precision": "fp32"},
        "search": {"round_size": 2, "n_configurations": TRIALS},
    }
)


def quality(labels: Labels) -> float:
    """Any number from 0 to 1 in steps of 0.1, so that means are often tied."""
    name = repr([labels[key] for key in ("variant", "epsilon", "switch", "seed")])
    return hashlib.sha256(name.encode()).digest()[0] % 11 / 10


def scheduler(folder: Path, study: Study = STUDY) -> StudyScheduler:
    return StudyScheduler(study, RESOLVED, RunStore(folder), "plan-hash")


@contextmanager
def empty_folder() -> Iterator[Path]:
    """A fresh one for every example of a property."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def ended(request: TrialRequest, metric: Metric) -> dict[str, Any]:
    """The record of a trial, `metric` being None where it fails."""
    value = metric(request.labels)
    summary = {"error": "boom"} if value is None else {f"{request.split}/R10@1": value}
    state = "failed" if value is None else "finished"
    return {"id": request.trial.specification.id, "state": state, "summary": summary}


def record_end(folder: Path, request: TrialRequest, metric: Metric) -> None:
    """Writes the record of a trial."""
    record.write_run_record(folder, request.split, ended(request, metric), None)


def drive(
    scheduler: StudyScheduler,
    metric: Metric = quality,
    order: random.Random | None = None,
    concurrent: int = 3,
    stop_after: int | None = None,
    watch: Callable[[list[TrialRequest]], None] = lambda _: None,
) -> list[TrialRequest]:
    """Runs a scheduler as Tune would, requests ending in a random order; returns them in the order they started."""
    order, started, running = order or random.Random(0), [], []
    while not scheduler.is_finished and (stop_after is None or len(started) < stop_after):
        while len(running) < concurrent and (request := scheduler.pop_request()) is not None:
            started.append(request)
            running.append(request)
        watch(running)
        assert running, "nothing runs, nothing can start, and the study is not finished"
        ended = running.pop(order.randrange(len(running)))
        record_end(scheduler.folder, ended, metric)
        scheduler.mark_ended(ended)
    return started


def names(requests: list[TrialRequest]) -> list[tuple[str, str]]:
    return sorted((request.trial.specification.id, request.trial.action) for request in requests)


def decisions(scheduler: StudyScheduler) -> list[tuple[str, str]]:
    """Configurations by system, in the order of proposal within each."""
    found = [(item.name, item.id) for item in scheduler.configurations]
    return sorted(found, key=lambda pair: pair[0])


def by_hand(scheduler: StudyScheduler, metric: Metric = quality) -> dict[str, PlannedConfiguration]:
    """The oracle: of each system the complete configuration with the best mean, the first of several."""
    best: dict[str, tuple[float, PlannedConfiguration]] = {}
    for item in scheduler.configurations:
        values = [metric(scheduler.make_labels(item, run)) for run in item.runs]
        if None in values:
            continue
        mean = sum(values) / len(values)
        if item.name not in best or mean > best[item.name][0] + 1e-12:
            best[item.name] = mean, item
    return {name: item for name, (_, item) in best.items()}
