"""One start of a study: from its settings to the printed report."""

import os
import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from analysis.export.report_folder import PAGE
from records.plan import Plan
from records.plan_file import PLAN_FILE, read_plan
from records.run_record import SPLITS
from records.search_log import read_searches, write_search_log
from study.config.loader import Study
from study.execution.trial_runner import StudyTrials, TrialRunner
from study.folder.run_store import RunStore
from study.scheduling.budget import ElapsedTime, find_exhausted_budget
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.sweep_trials import read_frozen_ids, read_sweep_trials
from study.tracking import Tracking, WandbLogger
from study.tracking.payload import FINDINGS_FILE
from study.utils.console import print_line
from study.utils.error_text import IncompleteError
from study.utils.live_view import LiveView
from study.workflows.keep_models import keep_models
from study.workflows.open_study import OpenStudy, open_study
from study.workflows.query_attributes import write_query_attributes
from trainables.utils.errors import UserError
from trainables.utils.files import write_json

if TYPE_CHECKING:
    from analysis.report import Report


class StudySession:
    """One start of a study, which continues from its run records and its search log.

    Args:
        opened: the study.
        start_time: `time.monotonic()` at the start of the command.

    Attributes:
        opened: the study.
        scheduler: decides which trials run.
        wandb_logger: writes the runs to W&B; to be closed at the end.
    """

    def __init__(self, opened: OpenStudy, start_time: float) -> None:
        self.opened, self._study = opened, opened.study
        self._clock = ElapsedTime(self._study.folder, start_time, print_line)
        run_store = RunStore(self._study.folder)
        sweep_params = read_sweep_trials(self._study, print_line)
        if sweep_params and self._study.reuses_search_seeds:
            raise UserError(
                "confirm.seeds",
                list(self._study.confirm.seeds),
                f"seeds that are not among seeds, because the study chooses from {len(sweep_params)} configurations of "
                "W&B sweeps",
            )
        is_sequential = self._study.confirm.group_size is not None
        self.scheduler = StudyScheduler(
            self._study,
            opened.resolved,
            run_store,
            opened.plan_hash,
            lambda: find_exhausted_budget(self._study, self._clock, run_store),
            read_searches(self._study.folder),
            sweep_params,
            Plan.model_validate(read_plan(self._study.folder / PLAN_FILE).document) if is_sequential else None,
        )
        self.wandb_logger = WandbLogger(make_tracking(self._study), print_line)
        self._n_proposed, self._frozen_ids, self._has_started = 0, read_frozen_ids(self._study.folder), False
        self._n_looks = 0

    @property
    def trials(self) -> StudyTrials:
        """The trials of the study."""
        copy = self.opened.remote_records
        return StudyTrials(self.scheduler, self.wandb_logger, copy, self._log_plans, self._save_progress)

    def upload_earlier_records(self) -> None:
        """Upload what earlier starts have left, before any work: a place that cannot be written to is a mistake."""
        if remote_records := self.opened.remote_records:
            remote_records.upload_all(self._study.tracking.mode)

    def publish_results(self, view: LiveView, is_brief: bool = False) -> "Report":
        """Keep the chosen models, write the search log, the query attributes and the report, and bring all to W&B.

        The weights of the models stay in the study's folder.
        """
        keep_models(self.scheduler, print_line)
        self._log_plans()
        self._write_search_log()
        self.wandb_logger.log_document("search")
        self._report_exhausted_budgets()
        write_query_attributes(self._study, self.opened.resolved, self.scheduler.scorer.runs[0].id)
        self.wandb_logger.log_document("queries")
        runs = (run.id for item in self.scheduler.configurations for run in item.runs)
        self.wandb_logger.log_missing_evaluations(self.scheduler.store, runs)
        with view.show_activity("report"):
            report = _write_report(self._study)
        page = report.folder / PAGE
        print_line(f"{report.conclusion}\nreport: {page}" if is_brief else report.text)
        self.wandb_logger.log_document("report")
        return report

    def finish(self, view: LiveView) -> None:
        """Wait for the uploads, and end the start of the study.

        Raises:
            RuntimeError: W&B's offline files cannot be written.
        """
        flush_wandb(self.wandb_logger, view)
        self.wandb_logger.close()
        upload_records(self.opened)
        self._clock.save()

    def find_missing_results(self) -> tuple[list[str], list[str]]:
        """Return the systems without a complete test result, and the distinct causes of their failed runs."""
        scheduler = self.scheduler
        complete = {
            name
            for name, configuration in scheduler.select_for_test().items()
            if all(scheduler.store.is_finished(run.id, "test") for run in configuration.runs)
        }
        missing = sorted({configuration.name for configuration in scheduler.configurations} - complete)
        runs = {run.id for item in scheduler.configurations if item.name in missing for run in item.runs}
        summaries = (scheduler.store.get_summary(run_id, split) for run_id in sorted(runs) for split in SPLITS)
        causes = dict.fromkeys(summary["error"] for summary in summaries if summary and "error" in summary)
        return missing, list(causes)

    def _log_plans(self) -> None:
        """Bring the plans to W&B, once. This starts the process that writes to W&B."""
        if not self._has_started:
            self._has_started = True
            self.wandb_logger.log_document("plan")
            self.wandb_logger.log_document("suite")

    def _save_progress(self) -> None:
        """Save after a trial what a later start needs."""
        folder, remote_records = self._study.folder, self.opened.remote_records
        self._clock.save()
        self._report_looks()
        if remote_records and read_frozen_ids(folder) != self._frozen_ids:  # to be uploaded before any test score
            self._frozen_ids = read_frozen_ids(folder)
            remote_records.upload_study()
        if len(self.scheduler.configurations) > self._n_proposed:
            self._n_proposed = len(self.scheduler.configurations)
            self._write_search_log()

    def _write_search_log(self) -> None:
        write_search_log(self._study.folder, self.scheduler.build_search_log())

    def _report_looks(self) -> None:
        """Print which comparisons each new look of a sequential confirmation has decided."""
        looks = self.scheduler.looks
        taken = looks.taken if looks else []
        for number, look in enumerate(taken[self._n_looks :], start=self._n_looks + 1):
            decided = sum(c.is_decided for c in look.comparisons)
            counts = f"{decided} of {len(look.comparisons)} comparisons decided"
            end = "; the confirmation stops" if looks and looks.is_over and look is taken[-1] else ""
            print_line(f"look {number}, {look.seeds} fresh seeds: {counts}{end}")
        self._n_looks = len(taken)

    def _report_exhausted_budgets(self) -> None:
        """Print which proposals were not made because a time budget was exhausted."""
        for name, search in self.scheduler.searches.items():
            if search.stopped_by:
                n_proposed = len(search.configurations)
                print_line(
                    f"{search.stopped_by} exhausted: {n_proposed} of {search.n_requested} proposals of {name} made"
                )


def run_study(study: Study, start_time: float) -> "Report":
    """Run everything in the study that is not finished, then analyse the records and write the report.

    Returns:
        The report, after it has been written and printed.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
        IncompleteError: a system has no complete test result.
    """
    session = StudySession(open_study(study), start_time)
    with closing(session.wandb_logger), LiveView() as view:
        session.upload_earlier_records()
        run_trials([session.trials], session.opened.cluster, view)
        report = session.publish_results(view)
        session.finish(view)
    missing, causes = session.find_missing_results()
    if missing:  # a missing result is an error, not a finding
        raise IncompleteError(f"no complete test result of {', '.join(missing)}", causes)
    seconds, mode = time.monotonic() - start_time, study.tracking.mode
    print_line(f"{seconds:.0f} s in total; W&B {mode}, project {study.project}")
    return report


def run_trials(studies: Sequence[StudyTrials], cluster: str | None, view: LiveView) -> None:
    """Run the remaining trials of studies, in the order of precedence; nothing if there are no studies."""
    if not studies:
        return
    runner = TrialRunner(studies, view)
    if not runner.is_finished:
        from study.execution import tuner  # imports ray

        tuner.run_trials(runner, cluster)


def make_tracking(study: Study) -> Tracking:
    """Return where the study's runs are shown.

    A sweep's agent passes the owner of the project in WANDB_ENTITY.
    """
    return Tracking(
        mode=study.tracking.mode,
        project=study.project,
        entity=study.tracking.entity or os.environ.get("WANDB_ENTITY"),
        group=study.tracking.group,
        folder=study.folder,
        plugins=study.plugins,
    )


def upload_records(opened: OpenStudy) -> None:
    """Upload what the remote copy lacks. A failure is printed, since the study's folder has everything."""
    if opened.remote_records:
        opened.remote_records.upload_rest(opened.study.tracking.mode)


def flush_wandb(wandb_logger: WandbLogger, view: LiveView) -> None:
    """Wait until W&B has everything. An unavailable server does not stop the study.

    Raises:
        RuntimeError: W&B's offline files cannot be written.
    """
    total = len(wandb_logger.pending)
    if wandb_logger.flush(lambda left: view.set_progress("W&B", total - left, total)):
        return
    if wandb_logger.tracking.mode != "online":
        raise RuntimeError(f"cannot write W&B's files: {wandb_logger.failure_reason}")
    print_line(
        f"{wandb_logger.pending_text} not yet uploaded to W&B; "
        f"to upload, run {shlex.join(['python', '-m', 'study.sync', str(wandb_logger.tracking.folder)])}"
    )


def _write_report(study: Study) -> "Report":
    from analysis.export.wandb_summary import build_wandb_summary
    from analysis.readers.study_reader import read_records
    from analysis.report import write_report

    folder = study.folder
    report = write_report(read_records(folder), folder / "report")
    write_json(folder / FINDINGS_FILE, build_wandb_summary(report.analysis, study.resources.gpu or 1.0))
    return report
