"""One invocation of a study, from its settings to the printed table."""

import os
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from study.config.loader import Study
from study.execution.progress import Progress
from study.records import search_log as searchlog
from study.records.run_record import SPLITS
from study.records.run_store import Ledger
from study.scheduling import sweep_trials as swept
from study.scheduling.budget import Clock, spent
from study.scheduling.scheduler import Work
from study.scheduling.study_scheduler import Campaign
from study.scheduling.trials import Errand
from study.tracking import Scribe, Tracking
from study.tracking.missing import write_missing
from study.tracking.payload import FINDINGS
from study.utils.console import say
from study.utils.error_text import IncompleteError
from study.workflows import query_attributes as queries
from study.workflows.cleanup import Budget
from study.workflows.open_study import opened
from trainables.utils import interruption
from trainables.utils.files import write_json


def conduct(study: Study, started: float) -> None:
    """Runs whatever of the study is not done yet, then analyses and reports.

    Args:
        study: what was asked for.
        started: `time.monotonic()` when the command began.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
    """
    begun = opened(study)
    study, plan_hash, archive = begun.study, begun.plan_hash, begun.archive
    folder = study.folder
    clock = Clock(folder, started, say)
    ledger = Ledger(folder)
    before, others = searchlog.read(folder), swept.read(study, say)
    campaign = Campaign(study, begun.resolved, ledger, plan_hash, lambda: spent(study, clock, ledger), before, others)
    if archive:
        archive.publish(folder)
    proposed, closed = 0, swept.closed(folder)

    def ended() -> None:
        nonlocal proposed, closed
        clock.keep()
        if archive and swept.closed(folder) != closed:  # before the first test score gets there
            closed = swept.closed(folder)
            archive.publish(folder)
        if len(campaign.configurations) > proposed:
            proposed = len(campaign.configurations)
            searchlog.write(folder, campaign.log())

    with closing(Scribe(tracking(study), say)) as scribe:
        scribe.document("plan")
        carry_out(campaign, scribe, ended)
        searchlog.write(folder, campaign.log())
        scribe.document("search")
        _say_not_done(campaign)
        queries.write(study, begun.resolved, campaign.scorer.runs[0].id)
        scribe.document("queries")
        write_missing(scribe, ledger, (run.id for item in campaign.configurations for run in item.runs))
        if not scribe.live:
            settle(scribe)  # the report is made from these files
        _analyse(study)
        scribe.document("report")
        settle(scribe)
    if archive:
        archive.complete(folder, study.tracking.mode)
        archive.publish(folder)
    clock.keep()
    _refuse_incomplete(campaign)
    say(f"{time.monotonic() - started:.0f} s in all; W&B {study.tracking.mode}, project {study.project}")


def _refuse_incomplete(campaign: Campaign) -> None:
    """A system without a complete test result is a fault, not an answer.

    Raises:
        IncompleteError: there is one.
    """
    complete = {
        name
        for name, configuration in campaign.tested().items()
        if all(campaign.ledger.finished(run.id, "test") for run in configuration.runs)
    }
    missing = sorted({configuration.name for configuration in campaign.configurations} - complete)
    if missing:
        runs = {run.id for item in campaign.configurations if item.name in missing for run in item.runs}
        found = (campaign.ledger.summary(run_id, split) for run_id in sorted(runs) for split in SPLITS)
        causes = dict.fromkeys(summary["error"] for summary in found if summary and "error" in summary)
        raise IncompleteError(f"no complete test result of {', '.join(missing)}", list(causes))


def _say_not_done(campaign: Campaign) -> None:
    """What a budget of time left out."""
    for name, hunt in campaign.hunts.items():
        if hunt.stopped:
            made = len(hunt.configurations)
            say(f"{hunt.stopped} is spent: {made} of {hunt.wanted} proposals of {name} were made")


def tracking(study: Study) -> Tracking:
    """Where the study's runs are shown; an agent of a sweep names whose project it is in the environment."""
    return Tracking(
        mode=study.tracking.mode,
        project=study.project,
        entity=study.tracking.entity or os.environ.get("WANDB_ENTITY"),
        folder=study.folder,
        records=study.records,
    )


def carry_out(work: Work, scribe: Scribe, after: Callable[[], None] = lambda: None) -> None:
    """Runs what is left of some work on Ray, with a line of progress an errand.

    Args:
        work: what has to run.
        scribe: writes its runs to W&B.
        after: called after each errand.
    """
    if work.finished:
        return
    import ray

    from study.execution import tuner as execute

    study = work.study
    progress, budget = Progress(work, study.analysis.metric), Budget(work, say)

    def ended(errand: Errand, entry: dict[str, Any] | None) -> None:
        progress.errand(errand, entry)
        budget.after(errand)
        after()

    try:
        concurrent = execute.start(study)
        threads = study.training.threads
        say(f"{concurrent} trials at once, {threads} thread(s) each, {study.training.precision}")
        progress.begin()
        execute.run(work, scribe, concurrent, ended, progress.parts, say)
        budget.keep()
    finally:
        if not interruption.asked():  # then all of Ray's processes are ended at once
            ray.shutdown()


def settle(scribe: Scribe) -> None:
    """Waits for W&B; a server that is away keeps no study from its end.

    Raises:
        RuntimeError: W&B's files cannot be written.
    """
    if scribe.settle():
        return
    if not scribe.live:
        raise RuntimeError(f"W&B's files cannot be written: {scribe.reason}")
    say(f"W&B lacks {scribe.lacking}; python -m study.sync {scribe.tracking.folder} uploads them")


def _analyse(study: Study) -> None:
    from analysis.export.wandb_summary import findings
    from analysis.readers.results import read_records
    from analysis.readers.source import load
    from analysis.report import write_report

    folder = study.folder
    found = load(folder, say=say) if study.tracking.mode == "offline" else read_records(folder)
    report = write_report(found, folder / "report")
    write_json(folder / FINDINGS, findings(report.analysis, study.resources.gpu or 1.0))
    say(report.text)
    say(f"report: {folder / 'report' / 'report.html'}")
