"""Trials that train nothing, in place of Ray Tune: their results are functions of their specification."""

import errno
import hashlib
import random
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from records.scores import encode_scores
from study.execution.failure import classify_failure
from study.execution.trial_runner import Attempt, TrialRunner
from study.folder.trial_record import make_record
from tests.simulation.checks import ViolationError
from tests.simulation.machine import Machine
from tests.simulation.schedules import Schedule
from trainables.specs.trial import TrialSpec

_CONCURRENT = 3
_QUERIES, _CANDIDATES = 6, 5
_MAX_ATTEMPTS = 500
_FAILING = 9
"""A run of as many fails on its own."""


class Trials:
    """The trials of all starts of a schedule.

    Attributes:
        n_attempts: attempts so far.
        recorded: studies, runs and splits with results that the driver has recorded.
    """

    def __init__(self, schedule: Schedule, machine: Machine) -> None:
        self._draw, self._machine = random.Random(schedule.seed), machine
        self._faults = {fault.at: fault.kind for fault in schedule.trials}
        self._may_repeat = bool(schedule.damages) or any(fault.kind == "second" for fault in schedule.faults)
        self.n_attempts, self.recorded = 0, set[tuple[str, str, str]]()

    def run(self, runner: TrialRunner, cluster: str | None) -> None:
        """Run the remaining trials, several at once, which end in an order that is drawn."""
        runner.progress.start_clock(_CONCURRENT)
        running = dict[str, tuple[Attempt, str]]()
        while not runner.is_finished:
            while len(running) < _CONCURRENT and not runner.is_finished:
                self.n_attempts += 1
                if self.n_attempts > _MAX_ATTEMPTS:
                    raise ViolationError(f"{_MAX_ATTEMPTS} attempts, and the study has not ended")
                attempt = runner.start_attempt(str(self.n_attempts))
                if attempt is None:
                    break
                self._check_is_new(attempt)
                running[str(self.n_attempts)] = attempt, self._faults.get(self.n_attempts, "")
            if not running:
                raise ViolationError("no trial runs, none can start, and the study is not finished")
            ready = [key for key, (_, fault) in running.items() if fault != "hang"] or [*running]
            key = self._draw.choice(ready)
            attempt, fault = running.pop(key)
            self._machine.spend(self._draw.uniform(1, 60))
            self._end(runner, key, attempt, fault)
        runner.evictor.evict_unneeded()

    def _end(self, runner: TrialRunner, key: str, attempt: Attempt, fault: str) -> None:
        trial, labels = attempt.request.trial, attempt.request.labels
        cause = _fail(trial)
        self._machine.n_happened += bool(fault)
        self._machine.n_errors += fault in ("crash", "error", "node")
        match fault:
            case "crash":
                failure = classify_failure(None, "its worker process has died", attempt.limits)
                runner.fail_attempt(key, failure)
            case "error":
                error = OSError(errno.EIO, "Input/output error", "prepared/queries.parquet")
                runner.fail_attempt(key, classify_failure(error, "", attempt.limits))
            case "node":
                failure = classify_failure(None, "its node has died", attempt.limits)
                runner.fail_attempt(key, failure, is_place_lost=True)
            case _ if cause is not None:
                runner.fail_attempt(key, classify_failure(cause, "", attempt.limits))
            case _:
                entry, scores = make_result(trial, labels)
                for _ in range(1 + (fault == "twice")):
                    runner.finish_attempt(key, entry, scores)
                self.recorded.add(_name_evaluation(attempt))

    def _check_is_new(self, attempt: Attempt) -> None:
        name = _name_evaluation(attempt)
        if name in self.recorded and not self._may_repeat:
            raise ViolationError(f"{' '.join(name)} is recorded, and runs again")


def _name_evaluation(attempt: Attempt) -> tuple[str, str, str]:
    request = attempt.request
    return attempt.owner.scheduler.study.name, request.trial.specification.id, request.split


def make_result(trial: TrialSpec, labels: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the record and the scores of a trial."""
    run, split = trial.specification, "dev" if trial.action == "train" else "test"
    scores, metric = _make_scores(run.id, split)
    summary = {"state": "finished", f"{split}/{trial.metric}": metric, "seconds": 36.0}
    entry = make_record(trial, labels, "finished", summary, {"damaged": []})
    if split == "dev":
        entry["history"] = [{"instances": 32, "train/loss": 0.5}]
    else:
        del entry["history"]
    return entry, scores


@cache
def _make_scores(run_id: str, split: str) -> tuple[bytes, float]:
    digest = hashlib.sha256(f"{run_id} {split}".encode()).digest()
    values = np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=(_QUERIES, _CANDIDATES)).round(3)
    names = {
        "split": split,
        "query_id": np.repeat([f"q{number}" for number in range(_QUERIES)], _CANDIDATES),
        "document_id": np.tile([f"d{number}" for number in range(_CANDIDATES)], _QUERIES),
    }
    relevant = np.tile(np.eye(1, _CANDIDATES, dtype=np.int8)[0], _QUERIES)
    metric = float((values.argmax(axis=1) == 0).mean())
    return encode_scores(pd.DataFrame({**names, "relevant": relevant, "score": values.ravel()})), metric


def _fail(trial: TrialSpec) -> Exception | None:
    """Return the error of a run that fails on its own, which depends on its configuration."""
    number = int(trial.specification.id, 16)
    return ValueError("boom") if number % _FAILING == 0 else None
