"""Bridge between a runner of trials and Ray Tune: starts trials and reports their ends."""

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ray.exceptions import RayTaskError
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher

from study.execution.failure import TrialFailure, classify_failure
from study.execution.trial_runner import TrialRunner
from study.folder.provenance import get_commit
from trainables.worker.gpu_errors import GpuFaultError


class StudySearcher(Searcher):
    """Passes the attempts of trials to Tune, and their results to the runner.

    Args:
        runner: the trials.
        is_node_lost: returns whether the node of an ended trial was lost. If None, nodes are never lost.
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
        attempt = self._runner.start_attempt(trial_id)
        if attempt is None:
            return None
        request, wandb_logger = attempt.request, attempt.owner.wandb_logger
        return {
            "trial": request.trial.model_dump_json(),
            "limits": attempt.limits.model_dump_json(),
            "labels": json.dumps(request.labels),
            "tracking": wandb_logger.tracking.model_dump_json(),
            "commit": json.dumps(get_commit()),
            "shown": wandb_logger.get_run_url(request.trial.specification.id) or "",
        }

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Pass on the progress of a step that ended."""
        if "parts" in result:
            self._runner.progress.report_precompute(result["parts"], result["total"])
        attempt = self._runner.get_attempt(trial_id)
        if attempt and "instances" in result:
            self._runner.progress.report_stretch(attempt.request, result["instances"])
        if attempt and "rows" in result:
            rows = json.loads(result["rows"])
            attempt.owner.wandb_logger.log_rows(attempt.request.labels, rows, result["start"])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Do nothing: the end of a trial goes to `handle_result` or `handle_failure`, see `TrialCallback`."""

    def handle_result(self, trial_id: str, record: str, scores: bytes) -> None:
        """Pass on the result of a finished trial."""
        with self._capture_errors():
            self._runner.finish_attempt(trial_id, json.loads(record), scores)

    def handle_failure(self, trial: Trial) -> None:
        """Pass on a failed attempt."""
        with self._capture_errors():
            if attempt := self._runner.get_attempt(trial.trial_id):
                failure = classify_failure(_load_exception(trial), _read_ray_error(trial), attempt.limits)
                self._runner.fail_attempt(trial.trial_id, failure, self._is_place_lost(trial, failure))

    def _is_place_lost(self, trial: Trial, failure: TrialFailure) -> bool:
        """Return whether a trial ended because of a node or a GPU that is known to be lost."""
        if isinstance(failure.error, GpuFaultError) and failure.error.is_broken and self._avoid_gpu is not None:
            return self._avoid_gpu(failure.error)
        return self._is_node_lost is not None and self._is_node_lost(trial)

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


def _load_exception(trial: Trial) -> Exception | None:
    """Return the exception of the trial's process, or None if the process ended without one."""
    error_file = trial.pickled_error_file
    if error_file is None or not Path(error_file).is_file():
        return None
    error = pickle.loads(Path(error_file).read_bytes())
    cause = error.cause if isinstance(error, RayTaskError) else None
    return cause if isinstance(cause, Exception) else None


def _read_ray_error(trial: Trial) -> str:
    """Return Ray's error text, or an empty string."""
    error_file = trial.error_file
    return Path(error_file).read_text(encoding="utf-8") if error_file is not None and Path(error_file).is_file() else ""
