"""Run of a whole study, from its settings to the printed report."""

import os
import time
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from study.config.loader import Study
from study.execution.progress import ProgressReporter
from study.records.remote import RecordUploader
from study.records.run_record import SPLITS, Split
from study.records.run_store import RunStore
from study.records.search_log import read_search_log, write_search_log
from study.scheduling.budget import ElapsedTime, find_exhausted_budget
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.sweep_trials import read_frozen_ids, read_sweep_trials
from study.scheduling.trials import TrialRequest
from study.tracking import Tracking, WandbLogger
from study.tracking.backfill import backfill_evaluations
from study.tracking.payload import FINDINGS_FILE
from study.utils.console import print_line
from study.utils.error_text import IncompleteError
from study.utils.live_view import LiveView
from study.workflows.cleanup import CheckpointEvictor
from study.workflows.open_study import OpenStudy, open_study
from study.workflows.query_attributes import write_query_attributes
from trainables.utils import interruption
from trainables.utils.files import write_json

if TYPE_CHECKING:
    from analysis.report import Report


def run_study(study: Study, start_time: float) -> "Report":
    """Run everything in the study that is not finished, then analyse the records and write the report.

    Args:
        study: the study as the command line describes it.
        start_time: `time.monotonic()` at the start of the command.

    Returns:
        The report, after it has been written and printed.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
        IncompleteError: a system has no complete test result.
    """
    opened = open_study(study)
    clock = ElapsedTime(opened.study.folder, start_time, print_line)
    scheduler = _make_scheduler(opened, clock)
    with closing(WandbLogger(make_tracking(opened.study), print_line)) as wandb_logger, LiveView() as view:
        _run_study_trials(opened, scheduler, clock, wandb_logger, view)
        report = _publish_results(opened, scheduler, wandb_logger, view)
    upload_records(opened)
    clock.save()
    _raise_if_incomplete(scheduler)
    seconds, mode = time.monotonic() - start_time, opened.study.tracking.mode
    print_line(f"{seconds:.0f} s in total; W&B {mode}, project {opened.study.project}")
    return report


def _make_scheduler(opened: OpenStudy, clock: ElapsedTime) -> StudyScheduler:
    """Return the scheduler of the study, which continues from its run records and its search log."""
    study = opened.study
    run_store = RunStore(study.folder)
    return StudyScheduler(
        study,
        opened.resolved,
        run_store,
        opened.plan_hash,
        lambda: find_exhausted_budget(study, clock, run_store),
        read_search_log(study.folder),
        read_sweep_trials(study, print_line),
    )


def _run_study_trials(
    opened: OpenStudy, scheduler: StudyScheduler, clock: ElapsedTime, wandb_logger: WandbLogger, view: LiveView
) -> None:
    """Run the trials of the study. After each, save what a later start needs."""
    folder, remote_records = opened.study.folder, opened.remote_records
    if remote_records:  # before any work, because a place that cannot be written to is a mistake
        remote_records.upload_all(folder, opened.study.tracking.mode)
    n_proposed, frozen_ids = 0, read_frozen_ids(folder)

    def on_trial_end() -> None:
        nonlocal n_proposed, frozen_ids
        clock.save()
        if remote_records and read_frozen_ids(folder) != frozen_ids:  # the upload must precede the first test score
            frozen_ids = read_frozen_ids(folder)
            remote_records.upload_study(folder)
        if len(scheduler.configurations) > n_proposed:
            n_proposed = len(scheduler.configurations)
            write_search_log(folder, scheduler.build_search_log())

    wandb_logger.log_document("plan")
    run_trials(opened, scheduler, wandb_logger, view, on_trial_end)
    write_search_log(folder, scheduler.build_search_log())
    wandb_logger.log_document("search")
    _log_exhausted_budgets(scheduler)


def _publish_results(
    opened: OpenStudy, scheduler: StudyScheduler, wandb_logger: WandbLogger, view: LiveView
) -> "Report":
    """Write the query attributes and the report, and bring everything to W&B. Return the report."""
    write_query_attributes(opened.study, opened.resolved, scheduler.scorer.runs[0].id)
    wandb_logger.log_document("queries")
    backfill_evaluations(
        wandb_logger, scheduler.store, (run.id for item in scheduler.configurations for run in item.runs)
    )
    with view.show_activity("report"):
        report = _write_report(opened.study)
    wandb_logger.log_document("report")
    flush_wandb(wandb_logger, view)
    return report


def upload_records(opened: OpenStudy) -> None:
    """Upload what the remote copy lacks. A failure is printed, since the study's folder has everything."""
    if opened.remote_records:
        uploader = RecordUploader(opened.remote_records, opened.study.folder, print_line)
        uploader.upload_all(opened.study.tracking.mode)


def _raise_if_incomplete(scheduler: StudyScheduler) -> None:
    """Check that every system has a complete test result: a missing one is an error, not a finding.

    Raises:
        IncompleteError: a system has none.
    """
    complete = {
        name
        for name, configuration in scheduler.select_for_test().items()
        if all(scheduler.store.is_finished(run.id, "test") for run in configuration.runs)
    }
    missing = sorted({configuration.name for configuration in scheduler.configurations} - complete)
    if missing:
        runs = {run.id for item in scheduler.configurations if item.name in missing for run in item.runs}
        summaries = (scheduler.store.get_summary(run_id, split) for run_id in sorted(runs) for split in SPLITS)
        causes = dict.fromkeys(summary["error"] for summary in summaries if summary and "error" in summary)
        raise IncompleteError(f"no complete test result of {', '.join(missing)}", list(causes))


def _log_exhausted_budgets(scheduler: StudyScheduler) -> None:
    """Print which proposals were not made because a time budget was exhausted."""
    for name, search in scheduler.searches.items():
        if search.stopped_by:
            n_proposed = len(search.configurations)
            print_line(f"{search.stopped_by} exhausted: {n_proposed} of {search.n_requested} proposals of {name} made")


def make_tracking(study: Study) -> Tracking:
    """Return where the study's runs are shown.

    A sweep's agent passes the owner of the project in WANDB_ENTITY.
    """
    return Tracking(
        mode=study.tracking.mode,
        project=study.project,
        entity=study.tracking.entity or os.environ.get("WANDB_ENTITY"),
        folder=study.folder,
    )


def run_trials(
    opened: OpenStudy,
    scheduler: BaseScheduler,
    wandb_logger: WandbLogger,
    view: LiveView,
    on_trial_end: Callable[[], None] = lambda: None,
) -> None:
    """Run the remaining trials of a scheduler on Ray and print one line of progress for each.

    Args:
        opened: the study.
        scheduler: decides which trials run.
        wandb_logger: writes their runs to W&B.
        view: the live view.
        on_trial_end: called after each trial. By default nothing happens.
    """
    if scheduler.is_finished:
        return
    import ray

    from study.execution.tuner import run_tuner, start_ray

    study, cluster = opened.study, opened.cluster
    progress, evictor = ProgressReporter(scheduler, view), CheckpointEvictor(scheduler, print_line)
    uploader = RecordUploader(opened.remote_records, study.folder, print_line) if opened.remote_records else None

    def save_copy(run_id: str, split: Split) -> None:
        if uploader:
            uploader.upload(run_id, split)

    def handle_trial_end(request: TrialRequest, entry: dict[str, Any]) -> None:
        progress.report_trial(request, entry)
        evictor.on_trial_end(request)
        on_trial_end()

    try:
        concurrent = start_ray(study, cluster)
        threads = study.training.threads
        print_line(f"{concurrent} trials at once, {threads} thread(s) each, {study.training.precision}")
        progress.restart_clock()
        run_tuner(
            scheduler,
            wandb_logger,
            cluster,
            concurrent,
            save_copy,
            progress.report_start,
            handle_trial_end,
            progress.report_precompute,
            print_line,
        )
        evictor.evict_unneeded()
    finally:
        if not interruption.is_interrupted():  # after a signal, all of Ray's processes are killed at once
            ray.shutdown()


def flush_wandb(wandb_logger: WandbLogger, view: LiveView) -> None:
    """Wait until W&B has everything. An unavailable server does not stop the study.

    Args:
        wandb_logger: writes the runs to W&B.
        view: the live view.

    Raises:
        RuntimeError: W&B's offline files cannot be written.
    """
    total = len(wandb_logger.pending)
    if wandb_logger.flush(lambda left: view.set_progress("W&B", total - left, total)):
        return
    if not wandb_logger.is_online:
        raise RuntimeError(f"cannot write W&B's files: {wandb_logger.failure_reason}")
    print_line(
        f"{wandb_logger.pending_text} not yet uploaded to W&B; "
        f"to upload, run python -m study.sync {wandb_logger.tracking.folder}"
    )


def _write_report(study: Study) -> "Report":
    from analysis.export.wandb_summary import build_wandb_summary
    from analysis.readers.results import read_records
    from analysis.report import write_report

    folder = study.folder
    report = write_report(read_records(folder), folder / "report")
    write_json(folder / FINDINGS_FILE, build_wandb_summary(report.analysis, study.resources.gpu or 1.0))
    print_line(report.text)
    print_line(f"report: {folder / 'report' / 'report.html'}")
    return report
