"""Bridge between a runner of trials and Ray Tune: starts trials and reports their ends."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher

from records import run_record
from study.execution.failure import MAX_ATTEMPTS, MAX_NODE_LOSSES, TrialFailure, classify_failure
from study.execution.trainable import make_failed_record
from study.execution.trial_runner import StudyTrials, TrialRunner
from study.folder.provenance import get_commit, get_versions
from study.folder.run_name import format_run_name
from study.scheduling.trials import TrialRequest
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, MissingDifficultyScoresError, is_disk_full
from trainables.utils.files import make_temporary_path
from trainables.worker.gpu_errors import GpuFaultError
from trainables.worker.limits import StepLimits


class _Attempt(NamedTuple):
    """One Tune trial."""

    owner: StudyTrials
    request: TrialRequest
    limits: StepLimits
    is_first: bool
    machine_faults: int = 0  # attempts that faults of the machine ended
    node_losses: int = 0  # nodes and GPUs that were lost during an attempt


class StudySearcher(Searcher):
    """Passes the trials of studies to Tune when they can start, and records their results when they end.

    The driver alone writes to the folder of a study. It writes the record of a trial that ended, then hands it to W&B
    and to the remote copy, and only then counts the trial as ended. If the driver is killed before it has written the
    record, its next start repeats the trial from the last checkpoint: of a finished training only the evaluation.

    A trial that fails is attempted once more in another process, unless the failure would repeat. A trial that fails
    because of the machine is attempted `MAX_ATTEMPTS` times in total. Then the study stops, no fault of the machine is
    recorded, and rerunning the same command resumes.

    Args:
        runner: the trials.
        is_node_lost: returns whether the node of an ended trial was lost. Up to `MAX_NODE_LOSSES` times this does not
            count as a failure. If None, nodes are never lost.
        avoid_gpu: called with the fault of a broken GPU. It returns whether trials avoided the GPU before: then the
            fault of one that was there all the same does not count either. If None, no trial uses a GPU.
    """

    def __init__(
        self,
        runner: TrialRunner,
        is_node_lost: Callable[[Trial], bool] | None = None,
        avoid_gpu: Callable[[GpuFaultError], bool] | None = None,
    ) -> None:
        super().__init__(metric="metric", mode="max")
        self._runner, self._is_node_lost, self._avoid_gpu = runner, is_node_lost, avoid_gpu
        self._attempts: dict[str, _Attempt] = {}
        self._retries: deque[_Attempt] = deque()
        self._error: Exception | None = None

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        """Return the config of the next trial, None if it must wait, or FINISHED at the end of the study.

        Raises:
            Exception: an error from an earlier callback. Tune would turn it into text if it were raised there.
        """
        if self._error is not None:
            raise self._error
        if self._runner.is_finished:
            return str(Searcher.FINISHED)
        retry = self._retries.popleft() if self._retries else None
        popped = (retry.owner, retry.request) if retry else self._runner.pop_request()
        if popped is None:
            return None
        owner, request = popped
        run_id, study = request.trial.specification.id, owner.scheduler.study
        # All nodes see the cache. The name tells later starts whether this driver still runs.
        crash_file = make_temporary_path(study.cache_folder / "crash_reports" / run_id)
        environment, limit = request.trial.specification.environment, study.trial
        gpu = study.resources.gpu if environment and environment.device_type == "cuda" else None
        limits = StepLimits(minutes=limit.minutes, memory=limit.memory_bytes, gpu=gpu, crash_report=crash_file)
        attempt = retry or _Attempt(owner, request, limits, is_first=True)
        self._attempts[trial_id] = attempt._replace(limits=limits)
        self._runner.start_trial(owner, request)
        return {
            "trial": request.trial.model_dump_json(),
            "limits": limits.model_dump_json(),
            "labels": json.dumps(request.labels),
            "tracking": owner.wandb_logger.tracking.model_dump_json(),
            "commit": json.dumps(get_commit()),
            "shown": owner.wandb_logger.get_run_url(run_id) or "",
        }

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Pass on the progress of a step that ended."""
        if "parts" in result:
            self._runner.progress.report_precompute(result["parts"], result["total"])
        if "instances" in result:
            self._runner.progress.report_stretch(self._attempts[trial_id].request, result["instances"])
        if "rows" in result:
            owner, request, *_ = self._attempts[trial_id]
            owner.wandb_logger.log_rows(request.labels, json.loads(result["rows"]), result["start"])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Do nothing: the end of a trial goes to `handle_result` or `handle_failure`, see `TrialCallback`."""

    def handle_result(self, trial_id: str, record: str, scores: bytes) -> None:
        """Record the result of a finished trial and end the trial."""
        with self._capture_errors():
            attempt, entry = self._attempts.pop(trial_id), json.loads(record)
            run_record.write_run_record(attempt.owner.scheduler.folder, attempt.request.split, entry, scores)
            self._runner.end_trial(attempt.owner, attempt.request, entry)

    def handle_failure(self, trial: Trial) -> None:
        """Handle a failed attempt: retry it, or record the failure and end the trial."""
        with self._capture_errors():
            attempt = self._attempts.pop(trial.trial_id)
            failure, request = classify_failure(trial, attempt.limits), attempt.request
            folder = attempt.owner.scheduler.folder
            if self._is_place_lost(trial, failure) and attempt.node_losses < MAX_NODE_LOSSES:
                self._retries.append(attempt._replace(node_losses=attempt.node_losses + 1))
                return
            entry = run_record.read_run_record(folder, request.trial.specification.id, request.split)
            if entry is None or entry["state"] != "finished":  # else another agent of a sweep has finished the run
                is_scorer_missing = isinstance(failure.error, MissingDifficultyScoresError)  # its own run has failed
                is_scorer_missing = is_scorer_missing and attempt.owner.scheduler.scorer_failed
                if failure.is_machine_fault and not is_scorer_missing:
                    self._stop_or_retry(attempt, failure)
                    return
                provenance = {"versions": get_versions(request.trial), "commit": get_commit()}
                entry = failure.record or make_failed_record(request.trial, request.labels, failure.cause, provenance)
                run_record.write_run_record(folder, request.split, entry, None)
                if attempt.is_first and failure.is_retryable:
                    self._retries.append(attempt._replace(is_first=False))
                    return
            self._runner.end_trial(attempt.owner, attempt.request, entry)

    def _is_place_lost(self, trial: Trial, failure: TrialFailure) -> bool:
        """Return whether a trial ended because of a node or a GPU that is known to be lost."""
        if isinstance(failure.error, GpuFaultError) and failure.error.is_broken and self._avoid_gpu is not None:
            return self._avoid_gpu(failure.error)
        return self._is_node_lost is not None and self._is_node_lost(trial)

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
        message = f"{format_run_name(attempt.request.labels)}, {MAX_ATTEMPTS} attempts: {failure.cause}"
        remedy = {"remedy": failure.error.remedy} if isinstance(failure.error, GpuFaultError) else {}
        raise MachineError(message, **remedy) from failure.error

    @contextmanager
    def _capture_errors(self) -> Iterator[None]:
        """Keep an exception of the block until the next call of `suggest` raises it."""
        try:
            yield
        except Exception as error:
            self._error = self._error or error

    def save(self, checkpoint_path: str) -> None:
        """Save nothing: a scheduler is rebuilt from the study file and the run records."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


class TrialCallback(Callback):
    """Passes the ends of trials to the searcher, because Tune gives the reason of a failure only to callbacks.

    It removes the record and the scores from a result, because Tune would keep these megabytes in memory and in files.
    """

    def __init__(self, searcher: StudySearcher) -> None:
        self._searcher = searcher

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Pass on the record and the scores, which only the last result of a trial contains."""
        if "record" in result:
            self._searcher.handle_result(trial.trial_id, result.pop("record"), result.pop("scores"))

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Pass on a trial that failed."""
        self._searcher.handle_failure(trial)
