"""The trials of one or several studies, which share the machines: which one starts, and what follows when it ends.

Nothing here depends on Ray, which runs the trials.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from records.run_record import read_run_record, write_run_record
from study.execution.checkpoint_evictor import CheckpointEvictor
from study.execution.failure import MAX_ATTEMPTS, MAX_NODE_LOSSES, TrialFailure
from study.execution.progress import ProgressReporter
from study.folder.provenance import get_commit, get_versions
from study.folder.remote_records import RemoteRecords
from study.folder.run_name import format_run_name
from study.folder.trial_record import make_failed_record
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from study.tracking import WandbLogger
from study.utils.console import print_line
from study.utils.live_view import LiveView
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, MissingDifficultyScoresError, is_disk_full
from trainables.utils.files import make_temporary_path
from trainables.worker.gpu_errors import GpuFaultError
from trainables.worker.limits import StepLimits


@dataclass(frozen=True, eq=False)
class StudyTrials:
    """The trials of a study, and what follows when one starts or ends.

    Attributes:
        wandb_logger: writes their runs to W&B.
        remote_records: copy of the recorded evaluations; None if the study has none.
        on_trial_start: called before each trial, also when it starts again.
        on_trial_end: called after each trial that ended for good.
    """

    scheduler: BaseScheduler
    wandb_logger: WandbLogger
    remote_records: RemoteRecords | None = None
    on_trial_start: Callable[[], None] = lambda: None
    on_trial_end: Callable[[], None] = lambda: None


class Attempt(NamedTuple):
    """One attempt of a trial, in a process of its own.

    Attributes:
        is_first: True if no attempt before has failed on its own.
        machine_faults: attempts before that faults of the machine have ended.
        node_losses: nodes and GPUs that were lost during attempts before.
    """

    owner: StudyTrials
    request: TrialRequest
    limits: StepLimits
    is_first: bool = True
    machine_faults: int = 0
    node_losses: int = 0


class TrialRunner:
    """Hands out the remaining trials of studies, records their results, and prints one line of progress for each.

    An earlier study has precedence: a trial of a later one starts only while no trial of the earlier ones can. So the
    earlier studies are finished first, and no core waits for the end of a search round.

    The driver alone writes to the folder of a study. It writes the record of a trial that ended, then hands it to W&B
    and to the remote copy, and only then counts the trial as ended. If the driver is killed before it has written the
    record, its next start repeats the trial from the last checkpoint: of a finished training only the evaluation.

    A trial that fails is attempted once more in another process, unless the failure would repeat. A trial that fails
    because of the machine is attempted `MAX_ATTEMPTS` times in total. Then the study stops, no fault of the machine is
    recorded, and rerunning the same command resumes. Up to `MAX_NODE_LOSSES` lost nodes do not count.

    Args:
        studies: the studies, in the order of precedence. All of them need the same resources and have the same cache.
        view: the live view.
    """

    def __init__(self, studies: Sequence[StudyTrials], view: LiveView) -> None:
        self.studies, schedulers = tuple(studies), [each.scheduler for each in studies]
        self.progress, self.evictor = ProgressReporter(schedulers, view), CheckpointEvictor(schedulers, print_line)
        self._attempts = dict[str, Attempt]()
        self._retries = deque[Attempt]()

    @property
    def is_finished(self) -> bool:
        """True if no trial is running and none is left to start."""
        return all(each.scheduler.is_finished for each in self.studies)

    def start_attempt(self, key: str) -> Attempt | None:
        """Return the next attempt, of a new trial or of one that failed; None while running trials must end first.

        Args:
            key: name of the attempt, by which its result is reported.
        """
        attempt = self._retries.popleft() if self._retries else self._pop_trial()
        if attempt is None:
            return None
        run, study = attempt.request.trial.specification, attempt.owner.scheduler.study
        # All nodes see the cache. The name tells later starts whether this driver still runs.
        crash_file = make_temporary_path(study.cache_folder / "crash_reports" / run.id)
        attempt = attempt._replace(limits=attempt.limits.model_copy(update={"crash_report": crash_file}))
        self._attempts[key] = attempt
        self.progress.report_start(attempt.request)
        attempt.owner.on_trial_start()
        return attempt

    def get_attempt(self, key: str) -> Attempt | None:
        """Return an attempt, or None if it has ended."""
        return self._attempts.get(key)

    def finish_attempt(self, key: str, entry: dict[str, Any], scores: bytes) -> None:
        """Write the record of a finished trial, and end the trial; nothing if the attempt has ended already."""
        attempt = self._attempts.pop(key, None)
        if attempt is None:
            return
        write_run_record(attempt.owner.scheduler.folder, attempt.request.split, entry, scores)
        self._end_trial(attempt.owner, attempt.request, entry)

    def fail_attempt(self, key: str, failure: TrialFailure, is_place_lost: bool = False) -> None:
        """Retry a failed trial, or write its record and end it; nothing if the attempt has ended already.

        Args:
            key: name of the attempt.
            failure: what ended it.
            is_place_lost: whether its node or its GPU is known to be lost.

        Raises:
            Exception: the machine is at fault too often: the trial's own error if it names a file.
            MachineError: the same, for any other error.
        """
        attempt = self._attempts.pop(key, None)
        if attempt is None:
            return
        request, scheduler = attempt.request, attempt.owner.scheduler
        if is_place_lost and attempt.node_losses < MAX_NODE_LOSSES:
            self._retries.append(attempt._replace(node_losses=attempt.node_losses + 1))
            return
        entry = read_run_record(scheduler.folder, request.trial.specification.id, request.split)
        if entry is None or entry["state"] != "finished":  # else another agent of a sweep has finished the run
            is_scorer_missing = isinstance(failure.error, MissingDifficultyScoresError)  # its own run has failed
            if failure.is_machine_fault and not (is_scorer_missing and scheduler.scorer_failed):
                self._stop_or_retry(attempt, failure)
                return
            provenance = {"versions": get_versions(request.trial), "commit": get_commit()}
            entry = failure.record or make_failed_record(request.trial, request.labels, failure.cause, provenance)
            write_run_record(scheduler.folder, request.split, entry, None)
            if attempt.is_first and failure.is_retryable:
                self._retries.append(attempt._replace(is_first=False))
                return
        self._end_trial(attempt.owner, request, entry)

    def _pop_trial(self) -> Attempt | None:
        for each in self.studies:
            if not each.scheduler.is_finished and (request := each.scheduler.pop_request()):
                study, environment = each.scheduler.study, request.trial.specification.environment
                gpu = study.resources.gpu if environment and environment.device_type == "cuda" else None
                limits = StepLimits(minutes=study.trial.minutes, memory=study.trial.memory_bytes, gpu=gpu)
                return Attempt(each, request, limits)
        return None

    def _end_trial(self, owner: StudyTrials, request: TrialRequest, entry: dict[str, Any]) -> None:
        """Hand a recorded trial to W&B and to the remote copy, and only then count it as ended."""
        run_id = request.trial.specification.id
        owner.wandb_logger.log_evaluation(run_id, request.split)
        if owner.remote_records:
            owner.remote_records.upload_evaluation(run_id, request.split)
        owner.scheduler.mark_ended(request)
        self.progress.report_trial(request, entry)
        self.evictor.on_trial_end(request)
        owner.on_trial_end()

    def _stop_or_retry(self, attempt: Attempt, failure: TrialFailure) -> None:
        """Retry a trial that the machine ended, or stop the study after too many attempts."""
        if attempt.machine_faults + 1 < MAX_ATTEMPTS:
            self._retries.append(attempt._replace(machine_faults=attempt.machine_faults + 1))
            return
        error = failure.error
        if error is not None and (isinstance(error, OSError | DamagedError) or is_disk_full(error)):
            raise error
        message = f"{format_run_name(attempt.request.labels)}, {MAX_ATTEMPTS} attempts: {failure.cause}"
        remedy = {"remedy": error.remedy} if isinstance(error, GpuFaultError) else {}
        raise MachineError(message, **remedy) from error
