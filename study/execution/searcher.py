"""The bridge between a campaign and Ray Tune's loop: errands out, their ends back in."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher

from study.execution.failure import TrialFailure, classify_failure
from study.execution.trainable import make_failed_record
from study.records import run_record as record
from study.records.provenance import get_commit, get_versions
from study.records.remote import download_result
from study.records.run_name import format_run_name
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from study.tracking import WandbLogger
from study.utils.error_text import is_disk_full
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, MissingDifficultyScoresError
from trainables.worker.crash_report import CRASH_REPORT_FILE
from trainables.worker.limits import StepLimits

MAX_ATTEMPTS = 3
"""Of an errand that the machine's faults end."""
_MAX_NODE_LOSSES = 10
"""Nodes that an errand may lose without being tried for it: those of a cloud are taken away at any time, but one that
loses ten has brought them down itself, as a run does that takes all of a node's memory."""

TrialEndCallback = Callable[[TrialRequest, "dict[str, Any] | None"], None]


class _Attempt(NamedTuple):
    """One trial of Tune's."""

    request: TrialRequest
    limits: StepLimits
    previous_record: dict[str, Any] | None  # the record of an earlier try
    is_first: bool
    machine_faults: int = 0  # tries that the machine ended
    node_losses: int = 0  # nodes that were lost under it


class StudySearcher(Searcher):
    """Hands a campaign's errands to Tune as they become possible, and tells it which have ended.

    An errand whose trial fails is tried once more, in another process, unless it would only fail again. One that fails
    by the machine's fault is tried `TRIES` times in all and recorded as nothing; then the study stops, and the same
    command goes on.

    Args:
        campaign: decides what runs.
        scribe: writes to W&B.
        report: told of each errand that ended.
        parts: told how many parts of the frozen layers' outputs are there, and of how many.
        lost: whether the node of a trial that ended was lost: then it has not failed, up to `_LOSSES` times.
    """

    def __init__(
        self,
        scheduler: BaseScheduler,
        wandb_logger: WandbLogger,
        on_trial_end: TrialEndCallback,
        on_precompute: Callable[[int, int], None],
        is_node_lost: Callable[[Trial], bool] | None = None,
    ) -> None:
        super().__init__(metric="metric", mode="max")
        self._scheduler, self._on_trial_end, self._on_precompute, self._is_node_lost = (
            scheduler,
            on_trial_end,
            on_precompute,
            is_node_lost,
        )
        self._wandb_logger, self._tracking = wandb_logger, wandb_logger.tracking
        self._attempts: dict[str, _Attempt] = {}
        self._last_step_times: dict[str, float] = {}
        self._retries: deque[_Attempt] = deque()
        self._error: Exception | None = None

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        """The next errand's configuration; None while it must wait; FINISHED at the end of the study.

        Raises:
            Exception: what went wrong when an errand's end was noted; raised there, Tune would make a text of it.
        """
        if self._error is not None:
            raise self._error
        if self._scheduler.is_finished:
            return str(Searcher.FINISHED)
        retry = self._retries.popleft() if self._retries else None
        request = retry.request if retry else self._scheduler.pop_request()
        if request is None:
            return None
        run_id, study = request.trial.specification.id, self._scheduler.study
        crash_file = record.get_run_folder(self._tracking.folder, run_id) / CRASH_REPORT_FILE
        limits = StepLimits(minutes=study.trial.minutes, memory=study.trial.memory_bytes, crash_report=crash_file)
        previous_record = record.read_run_record(self._tracking.folder, run_id, request.split)
        attempt = retry or _Attempt(request, limits, previous_record, is_first=True)
        self._attempts[trial_id] = attempt._replace(limits=limits, previous_record=previous_record)
        self._last_step_times[trial_id] = time.monotonic()
        return {
            "job": request.trial.model_dump_json(),
            "limits": limits.model_dump_json(),
            "labels": json.dumps(request.labels),
            "tracking": self._tracking.model_dump_json(),
            "commit": json.dumps(get_commit()),
            "shown": self._wandb_logger.get_run_url(run_id) or "",
        }

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """A step ended."""
        self._last_step_times[trial_id] = time.monotonic()
        if "parts" in result:
            self._on_precompute(result["parts"], result["total"])
        if "rows" in result:
            request = self._attempts[trial_id].request
            self._wandb_logger.log_rows(request.labels, json.loads(result["rows"]), result["start"])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """An errand ended well. Of one that failed Tune tells more a moment later: `Failures`."""
        if not error:
            with self._capture_errors():
                failure = TrialFailure("the trial ended without a record", is_retryable=True, is_machine_fault=True)
                self._handle_end(self._attempts.pop(trial_id), failure)

    def handle_failure(self, trial: Trial) -> None:
        """A try failed: there is a record of it, of the trial's own or else written here, and another try or an end."""
        with self._capture_errors():
            attempt = self._attempts.pop(trial.trial_id)
            if self._is_node_lost is not None and self._is_node_lost(trial) and attempt.node_losses < _MAX_NODE_LOSSES:
                self._retries.append(attempt._replace(node_losses=attempt.node_losses + 1))
                return
            step_seconds = time.monotonic() - self._last_step_times[trial.trial_id]
            self._handle_end(attempt, classify_failure(trial, attempt.limits, step_seconds))

    def _handle_end(self, attempt: _Attempt, failure: TrialFailure) -> None:
        request, folder = attempt.request, self._tracking.folder
        download_result(self._tracking.folder, self._tracking.records, request.trial.specification.id, request.split)
        entry = record.read_run_record(folder, request.trial.specification.id, request.split)
        if entry is None or entry["state"] != "finished":
            if failure.is_machine_fault and not self._is_caused_by_scorer(failure):
                self._stop_or_retry(attempt, failure)
                return
            if entry is None or entry == attempt.previous_record:
                entry = make_failed_record(
                    request.trial, request.labels, failure.cause, {"versions": get_versions(), "commit": get_commit()}
                )
                record.write_run_record(folder, request.split, entry, None)
            if attempt.is_first and failure.is_retryable:
                self._retries.append(attempt._replace(is_first=False))
                return
        self._wandb_logger.log_evaluation(request.trial.specification.id, request.split)
        self._scheduler.mark_ended(request)
        self._on_trial_end(request, entry)

    def _stop_or_retry(self, attempt: _Attempt, failure: TrialFailure) -> None:
        """Tries an errand that the machine ended once more.

        Raises:
            Exception: the machine has ended too many tries: what the trial raised where that names a file, else a
                MachineError.
        """
        if attempt.machine_faults + 1 < MAX_ATTEMPTS:
            self._retries.append(attempt._replace(machine_faults=attempt.machine_faults + 1))
            return
        if isinstance(failure.error, OSError | DamagedError) or (
            failure.error is not None and is_disk_full(failure.error)
        ):
            raise failure.error
        raise MachineError(
            f"{format_run_name(attempt.request.labels)}: {failure.cause}, {MAX_ATTEMPTS} times"
        ) from failure.error

    def _is_caused_by_scorer(self, failure: TrialFailure) -> bool:
        """Whether there are no difficulties because the run that makes them failed by itself."""
        return isinstance(failure.error, MissingDifficultyScoresError) and self._scheduler.scorer_failed

    @contextmanager
    def _capture_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._error = error

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: a campaign is rebuilt from the study file and the records."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


class FailureCallback(Callback):
    """Hands the searcher what Tune tells only its callbacks: the trial that failed, and with it the reason."""

    def __init__(self, searcher: StudySearcher) -> None:
        self._searcher = searcher

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Tune gives a trial up."""
        self._searcher.handle_failure(trial)
