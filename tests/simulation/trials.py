"""Trials that train nothing, in place of Ray Tune: their results are functions of their specification."""

import errno
import hashlib
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from records.run_record import Split, is_run_finished
from records.scores import encode_scores
from study.execution.failure import classify_failure
from study.execution.trial_runner import Attempt, TrialRunner
from study.folder.trial_record import make_record
from tests.simulation.checks import ViolationError
from tests.simulation.machine import Machine
from tests.simulation.schedules import Schedule
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.difficulty.cache import Action, get_difficulty_path, write_difficulties
from trainables.specs.checkpoint_chain import WEIGHTS_PREFIX, Checkpoint
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.training.checkpoints import CheckpointStore
from trainables.utils.errors import MissingDifficultyScoresError

_CONCURRENT = 3
_CANDIDATES = 5
_MAX_ATTEMPTS = 500
_FAILING = 15
"""A trained run of as many fails on its own."""


class Trials:
    """The trials of all starts of a schedule.

    Attributes:
        n_attempts: attempts so far.
        keeps_weights: whether the weights of chosen runs are there until the end.
        recorded: studies, runs and splits with results that the driver has recorded.
    """

    def __init__(self, schedule: Schedule, machine: Machine, queries: dict[Split, tuple[str, ...]]) -> None:
        self._queries, self._has_checkpoints = queries, bool({"cache", "models"} & schedule.study.keys())
        self._draw, self.machine = random.Random(schedule.seed), machine
        self._faults = {fault.at: fault.kind for fault in schedule.trials}
        self._may_repeat = bool(schedule.damages) or any(fault.kind == "second" for fault in schedule.faults)
        self.keeps_weights = not self._may_repeat and not schedule.changes  # those of earlier settings may be evicted
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
            self.machine.spend(self._draw.uniform(1, 60))
            self._end(runner, key, attempt, fault)
        runner.evictor.evict_unneeded()

    def _end(self, runner: TrialRunner, key: str, attempt: Attempt, fault: str) -> None:
        trial = attempt.request.trial
        cause = self._find_cause(attempt)
        self.machine.n_happened += bool(fault)
        self.machine.n_errors += fault in ("crash", "error", "node", "late")
        match fault:
            case "crash":
                failure = classify_failure(None, "its worker process has died", attempt.limits)
                runner.fail_attempt(key, failure)
            case "error":
                error = OSError(errno.EIO, "Input/output error", "prepared/queries.parquet")
                runner.fail_attempt(key, classify_failure(error, "", attempt.limits))
            case "node" | "late":
                failure = classify_failure(None, "its node has died", attempt.limits)
                runner.fail_attempt(key, failure, is_place_lost=True)
                if fault == "late" and cause is None:
                    self._finish(runner, key, attempt)
            case _ if cause is not None:
                runner.fail_attempt(key, classify_failure(cause, "", attempt.limits))
            case _:
                if trial.action == "train" and self._has_checkpoints:
                    self._write_checkpoints(attempt)
                if trial.saves_difficulty:
                    self._write_difficulties(attempt)
                for _ in range(1 + (fault == "twice")):
                    self._finish(runner, key, attempt)

    def _find_cause(self, attempt: Attempt) -> Exception | None:
        """Return the error of a trial that fails on its own, which depends on its configuration."""
        run, scheduler = attempt.request.trial.specification, attempt.owner.scheduler
        if run.curriculum and run.curriculum.scorer and not _get_difficulty_path(attempt, "train").is_file():
            if not scheduler.scorer_failed:
                raise ViolationError(f"{run.id} runs before the scoring run has ended")
            return MissingDifficultyScoresError("no difficulties by BERT_loss from the scoring run")
        is_trained = run.training is not None and run.training.instances > 0
        return ValueError("boom") if is_trained and int(run.id, 16) % _FAILING == 0 else None

    def _finish(self, runner: TrialRunner, key: str, attempt: Attempt) -> None:
        """Report the result of an attempt, and note whether the driver has recorded it."""
        request, folder = attempt.request, attempt.owner.scheduler.folder
        runner.finish_attempt(key, *make_result(request.trial, request.labels, self._queries[request.split]))
        with self.machine.stand_aside():
            if is_run_finished(folder, request.trial.specification.id, request.split):
                self.recorded.add(_name_evaluation(attempt))

    def _write_checkpoints(self, attempt: Attempt) -> None:
        """Write the checkpoints of a run that are not there, in the trial's process."""
        scheduler = attempt.owner.scheduler
        store = CheckpointStore(open_storage(scheduler.study.checkpoints_url))
        with self.machine.stand_aside():
            for key in scheduler.list_checkpoint_keys(attempt.request.trial.specification):
                store.save(key, Checkpoint(1, {f"{WEIGHTS_PREFIX}{key}": torch.zeros(1)}, []))

    def _write_difficulties(self, attempt: Attempt) -> None:
        """Write the difficulty scores of the scoring run's model, in the trial's process."""
        with self.machine.stand_aside():
            write_difficulties(_get_difficulty_path(attempt, attempt.request.trial.action), pd.DataFrame({"d": [0.5]}))

    def _check_is_new(self, attempt: Attempt) -> None:
        """Check that a trial has no result yet, and that the weights which it tests are there."""
        if self._may_repeat:
            return
        name, scheduler, run = _name_evaluation(attempt), attempt.owner.scheduler, attempt.request.trial.specification
        if name in self.recorded:
            raise ViolationError(f"{' '.join(name)} is recorded, and runs again")
        keys = scheduler.list_checkpoint_keys(run) if self._has_checkpoints and self.keeps_weights else ()
        if keys and (*name[:2], "dev") in self.recorded:
            with self.machine.stand_aside():
                if not open_storage(scheduler.study.checkpoints_url).exists(keys[-1]):
                    raise ViolationError(f"{' '.join(name)}: its weights are evicted, it trains again")


def _name_evaluation(attempt: Attempt) -> tuple[str, str, str]:
    request = attempt.request
    return attempt.owner.scheduler.study.name, request.trial.specification.id, request.split


def make_result(trial: TrialSpec, labels: dict[str, Any], queries: tuple[str, ...]) -> tuple[dict[str, Any], bytes]:
    """Return the record and the scores of a trial, which ranks these queries."""
    run, split = trial.specification, "dev" if trial.action == "train" else "test"
    scores, metric = _make_scores(run.id, split, queries)
    summary = {"state": "finished", f"{split}/{trial.metric}": metric, "seconds": 36.0}
    entry = make_record(trial, labels, "finished", summary, {"damaged": []})
    if split == "dev":
        entry["history"] = [{"instances": 32, "train/loss": 0.5}]
    else:
        del entry["history"]
    return entry, scores


@cache
def _make_scores(run_id: str, split: str, queries: tuple[str, ...]) -> tuple[bytes, float]:
    digest = hashlib.sha256(f"{run_id} {split}".encode()).digest()
    values = np.random.default_rng(int.from_bytes(digest[:8], "big")).normal(size=(len(queries), _CANDIDATES)).round(3)
    names = {
        "split": split,
        "query_id": np.repeat(queries, _CANDIDATES),
        "document_id": np.tile([f"d{number}" for number in range(_CANDIDATES)], len(queries)),
    }
    relevant = np.tile(np.eye(1, _CANDIDATES, dtype=np.int8)[0], len(queries))
    metric = float((values.argmax(axis=1) == 0).mean())
    return encode_scores(pd.DataFrame({**names, "relevant": relevant, "score": values.ravel()})), metric


def _get_difficulty_path(attempt: Attempt, action: Action) -> Path:
    """Return the path of the difficulty scores that the scoring run of a study computes."""
    scheduler = attempt.owner.scheduler
    curriculum = CurriculumSettings(score="BERT_loss", scorer=scheduler.scorer.runs[0].id)
    prepared = scheduler.study.cache_folder / "prepared" / scheduler.resolved.fingerprint
    return get_difficulty_path(prepared, curriculum, scheduler.resolved.model_digest, action)
