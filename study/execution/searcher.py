"""Bridge between a scheduler and Ray Tune: starts trials and reports their ends."""

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
from study.records import run_record
from study.records.provenance import get_commit, get_versions
from study.records.remote import download_result
from study.records.run_name import format_run_name
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from study.tracking import WandbLogger
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, MissingDifficultyScoresError, is_disk_full
from trainables.worker.crash_report import CRASH_REPORT_FILE
from trainables.worker.limits import StepLimits

MAX_ATTEMPTS = 3
"""Attempts of a trial that faults of the machine end."""
_MAX_NODE_LOSSES = 10
"""Lost nodes that do not count as attempts of a trial.

Cloud nodes can be taken away at any time. A trial that loses ten nodes has probably brought them down itself, for
example by using all of their memory."""

TrialEndCallback = Callable[[TrialRequest, "dict[str, Any] | None"], None]
"""Called with a trial that ended and its run record, if there is one."""


class _Attempt(NamedTuple):
    """One Tune trial."""

    request: TrialRequest
    limits: StepLimits
    previous_record: dict[str, Any] | None  # run record of an earlier attempt
    is_first: bool
    machine_faults: int = 0  # attempts that faults of the machine ended
    node_losses: int = 0  # nodes that were lost during an attempt


class StudySearcher(Searcher):
    """Passes the trials of a scheduler to Tune when they can start, and reports back when they end.

    A trial that fails is attempted once more in another process, unless the failure would repeat. A trial that fails
    because of the machine is attempted `MAX_ATTEMPTS` times in total. Then the study stops without a record of this
    trial, and rerunning the same command resumes.

    Args:
        scheduler: decides which trials run.
        wandb_logger: writes their runs to W&B.
        on_trial_end: called for each trial that ended for good.
        on_precompute: called with the finished and the total number of parts of the frozen layers' outputs.
        is_node_lost: returns whether the node of an ended trial was lost. Up to `_MAX_NODE_LOSSES` times this does not
            count
        as a failure. If None, nodes are never lost.
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
        """Return the config of the next trial, None if it must wait, or FINISHED at the end of the study.

        Raises:
            Exception: an error from an earlier callback. Tune would turn it into text if it were raised there.
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
        crash_file = run_record.get_run_folder(self._tracking.folder, run_id) / CRASH_REPORT_FILE
        limits = StepLimits(minutes=study.trial.minutes, memory=study.trial.memory_bytes, crash_report=crash_file)
        previous_record = run_record.read_run_record(self._tracking.folder, run_id, request.split)
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
        """Pass on the progress of a step that ended."""
        self._last_step_times[trial_id] = time.monotonic()
        if "parts" in result:
            self._on_precompute(result["parts"], result["total"])
        if "rows" in result:
            request = self._attempts[trial_id].request
            self._wandb_logger.log_rows(request.labels, json.loads(result["rows"]), result["start"])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Handle a successful end. Failed trials go to `handle_failure`, where Tune gives the reason."""
        if not error:
            with self._capture_errors():
                failure = TrialFailure("the trial ended without a record", is_retryable=True, is_machine_fault=True)
                self._handle_end(self._attempts.pop(trial_id), failure)

    def handle_failure(self, trial: Trial) -> None:
        """Handle a failed attempt: retry it, or record the failure and end the trial."""
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
        entry = run_record.read_run_record(folder, request.trial.specification.id, request.split)
        if entry is None or entry["state"] != "finished":
            if failure.is_machine_fault and not self._is_caused_by_scorer(failure):
                self._stop_or_retry(attempt, failure)
                return
            if entry is None or entry == attempt.previous_record:
                entry = make_failed_record(
                    request.trial, request.labels, failure.cause, {"versions": get_versions(), "commit": get_commit()}
                )
                run_record.write_run_record(folder, request.split, entry, None)
            if attempt.is_first and failure.is_retryable:
                self._retries.append(attempt._replace(is_first=False))
                return
        self._wandb_logger.log_evaluation(request.trial.specification.id, request.split)
        self._scheduler.mark_ended(request)
        self._on_trial_end(request, entry)

    def _stop_or_retry(self, attempt: _Attempt, failure: TrialFailure) -> None:
        """Retry a trial that the machine ended, or stop the study after too many attempts.

        Raises:
            Exception: the trial's own error if it names a file.
            MachineError: any other fault of the machine.
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
        """Return whether difficulty scores are missing because the scoring run itself failed."""
        return isinstance(failure.error, MissingDifficultyScoresError) and self._scheduler.scorer_failed

    @contextmanager
    def _capture_errors(self) -> Iterator[None]:
        """Keep an exception of the block until the next call of `suggest` raises it."""
        try:
            yield
        except Exception as error:
            self._error = error

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: a scheduler is rebuilt from the study file and the run records."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


class FailureCallback(Callback):
    """Passes failed trials to the searcher, because Tune gives the reason only to callbacks."""

    def __init__(self, searcher: StudySearcher) -> None:
        self._searcher = searcher

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Pass on a trial that failed."""
        self._searcher.handle_failure(trial)
