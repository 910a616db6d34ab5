"""The trials of one or several studies, which share the machines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from study.execution.checkpoint_evictor import CheckpointEvictor
from study.execution.progress import ProgressReporter
from study.folder.remote_records import RemoteRecords
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from study.tracking import WandbLogger
from study.utils.console import print_line
from study.utils.live_view import LiveView


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


class TrialRunner:
    """Starts the remaining trials of studies, ends them, and prints one line of progress for each.

    An earlier study has precedence: a trial of a later one starts only while no trial of the earlier ones can. So the
    earlier studies are finished first, and no core waits for the end of a search round.

    Args:
        studies: the studies, in the order of precedence. All of them need the same resources and have the same cache.
        view: the live view.
    """

    def __init__(self, studies: Sequence[StudyTrials], view: LiveView) -> None:
        self.studies, schedulers = tuple(studies), [each.scheduler for each in studies]
        self.progress, self.evictor = ProgressReporter(schedulers, view), CheckpointEvictor(schedulers, print_line)

    @property
    def is_finished(self) -> bool:
        """True if no trial is running and none is left to start."""
        return all(each.scheduler.is_finished for each in self.studies)

    def pop_request(self) -> tuple[StudyTrials, TrialRequest] | None:
        """Return the next trial to start and its study, or None while running trials must end first."""
        for each in self.studies:
            if not each.scheduler.is_finished and (request := each.scheduler.pop_request()):
                return each, request
        return None

    def start_trial(self, owner: StudyTrials, request: TrialRequest) -> None:
        """Report a trial that starts, also when it starts again."""
        self.progress.report_start(request)
        owner.on_trial_start()

    def end_trial(self, owner: StudyTrials, request: TrialRequest, entry: dict[str, Any]) -> None:
        """Hand a recorded trial to W&B and to the remote copy, and only then count it as ended."""
        run_id = request.trial.specification.id
        owner.wandb_logger.log_evaluation(run_id, request.split)
        if owner.remote_records:
            owner.remote_records.upload_evaluation(run_id, request.split)
        owner.scheduler.mark_ended(request)
        self.progress.report_trial(request, entry)
        self.evictor.on_trial_end(request)
        owner.on_trial_end()
