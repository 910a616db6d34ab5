"""Runs the trials of one or several opened studies on Ray."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from study.execution.progress import ProgressReporter
from study.records.remote import RecordUploader
from study.records.run_record import Split
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from study.tracking import WandbLogger
from study.utils.console import print_line
from study.utils.live_view import LiveView
from study.workflows.cleanup import CheckpointEvictor
from study.workflows.open_study import OpenStudy


@dataclass(frozen=True, eq=False)
class StudyTrials:
    """The trials of a study, and what to do when one ends.

    Attributes:
        opened: the study.
        scheduler: decides which trials run.
        wandb_logger: writes their runs to W&B.
        on_trial_start: called before each trial. By default nothing happens.
        on_trial_end: called after each trial. By default nothing happens.
    """

    opened: OpenStudy
    scheduler: BaseScheduler
    wandb_logger: WandbLogger
    on_trial_start: Callable[[], None] = lambda: None
    on_trial_end: Callable[[], None] = lambda: None


def run_trials(studies: Sequence[StudyTrials], view: LiveView) -> None:
    """Run the remaining trials as one pool, and print one line of progress for each.

    Args:
        studies: the studies, in the order of precedence. All of them need the same resources and have the same cache.
        view: the live view.
    """
    if all(each.scheduler.is_finished for each in studies):
        return
    from study.execution.pool import PoolMember, TrialPool
    from study.execution.tuner import open_session, run_tuner, start_ray

    study, cluster = studies[0].opened.study, studies[0].opened.cluster
    schedulers = [each.scheduler for each in studies]
    progress, evictor = ProgressReporter(schedulers, view), CheckpointEvictor(schedulers, print_line)

    def make_member(each: StudyTrials) -> PoolMember:
        def handle_trial_start(request: TrialRequest) -> None:
            progress.report_start(request)
            each.on_trial_start()

        def handle_trial_end(request: TrialRequest, entry: dict[str, Any]) -> None:
            progress.report_trial(request, entry)
            evictor.on_trial_end(request)
            each.on_trial_end()

        return PoolMember(
            each.scheduler, each.wandb_logger, _make_save_copy(each.opened), handle_trial_start, handle_trial_end
        )

    with open_session() as folder:
        concurrent = start_ray(study, cluster, folder)
        precisions = dict.fromkeys(each.opened.study.training.precision for each in studies)
        progress.start_clock(concurrent)
        line = f"{concurrent} trials at once, {study.training.threads} thread(s) each, {', '.join(precisions)}"
        print_line(", ".join(filter(None, [line, progress.describe_time_left()])))
        pool = TrialPool([make_member(each) for each in studies], progress.report_precompute, progress.report_stretch)
        run_tuner(pool, cluster, concurrent, print_line)
        evictor.evict_unneeded()


def _make_save_copy(opened: OpenStudy) -> Callable[[str, Split], None]:
    if opened.remote_records is None:
        return lambda run_id, split: None
    uploader = RecordUploader(opened.remote_records, opened.study.folder, print_line)
    return uploader.upload
