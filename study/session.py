"""One invocation of a study, from its settings to the printed table."""

import time
from collections.abc import Callable
from statistics import fmean
from typing import Any

from study import record, searchlog, swept
from study.budgets import Clock, spent
from study.campaign import Campaign
from study.config import Study
from study.configuration import Errand
from study.housekeeping import Budget
from study.ledger import Ledger
from study.opening import opened
from study.progress import Progress, say
from study.tracking import Tracking, mirror, mirror_plan, mirror_search, mirrored
from study.work import Work


def conduct(study: Study, started: float) -> None:
    """Runs whatever of the study is not done yet, then analyses and reports.

    Args:
        study: what was asked for.
        started: `time.monotonic()` when the command began.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
    """
    study, resolved, declared, plan_hash, archive = opened(study)
    folder = study.folder
    clock = Clock(folder, started)
    ledger = Ledger(folder)
    before, others = searchlog.read(folder), swept.read(study, say)
    campaign = Campaign(study, resolved, ledger, plan_hash, lambda: spent(study, clock, ledger), before, others)
    if archive:
        archive.publish(folder)
    tracking = Tracking(mode=study.tracking.mode, project=study.project, folder=folder, records=study.records)
    mirror_plan(tracking, declared, plan_hash)
    proposed = 0

    def ended() -> None:
        nonlocal proposed
        clock.keep()
        if len(campaign.configurations) > proposed:
            proposed = len(campaign.configurations)
            searchlog.write(folder, campaign.log())

    carry_out(campaign, tracking, ended)
    log = campaign.log()
    searchlog.write(folder, log)
    mirror_search(tracking, study.name, plan_hash, log)
    _say_not_done(campaign)
    mirror_missing(campaign, tracking)
    _analyse(study, ledger)
    if archive:
        archive.complete(folder, study.tracking.mode)
        archive.publish(folder)
    clock.keep()
    _refuse_incomplete(campaign)
    say(f"{time.monotonic() - started:.0f} s in all; W&B {study.tracking.mode}, project {study.project}")


def _refuse_incomplete(campaign: Campaign) -> None:
    """A system without a complete test result is a fault, not an answer."""
    complete = {
        name
        for name, configuration in campaign.tested().items()
        if all(campaign.ledger.finished(run.id, "test") for run in configuration.runs)
    }
    missing = sorted({configuration.name for configuration in campaign.configurations} - complete)
    if missing:
        raise RuntimeError(f"no complete test result of {', '.join(missing)}")


def _say_not_done(campaign: Campaign) -> None:
    """What a budget of time left out."""
    for name, hunt in campaign.hunts.items():
        if hunt.stopped:
            made = len(hunt.configurations)
            say(f"{hunt.stopped} is spent: {made} of {hunt.wanted} proposals of {name} were made")


def carry_out(work: Work, tracking: Tracking, after: Callable[[], None] = lambda: None) -> None:
    """Runs what is left of some work on Ray, with a line of progress an errand.

    Args:
        work: what has to run.
        tracking: where its runs are mirrored to.
        after: called after each errand.
    """
    if work.finished:
        return
    import ray

    from study import execute

    study = work.study
    progress, budget = Progress(work, study.analysis.metric), Budget(work, say)

    def ended(errand: Errand, entry: dict[str, Any] | None) -> None:
        progress.errand(errand, entry)
        budget.keep()
        after()

    concurrent = execute.start(study)
    try:
        threads = study.training.threads
        say(f"{concurrent} trials at once, {threads} thread(s) each, {study.training.precision}")
        progress.begin()
        execute.run(work, tracking, concurrent, ended, progress.parts, say)
    finally:
        ray.shutdown()


def mirror_missing(work: Work, tracking: Tracking) -> None:
    """What was recorded but, after a kill, never reached W&B."""
    for run in (run for configuration in work.configurations for run in configuration.runs):
        for split in record.SPLITS:
            if work.ledger.state(run.id, split) and not mirrored(tracking, run.id, split):
                mirror(tracking, run.id, split)


def _analyse(study: Study, ledger: Ledger) -> None:
    from analysis import results
    from analysis.report import write_report

    folder, offline = study.folder, study.tracking.mode == "offline"
    found = results.read(folder / "wandb") if offline else results.read_records(folder)
    report = write_report(found, folder / "report")
    finished = (run_id for run_id in ledger.ids() if ledger.finished(run_id))
    summaries = [summary for run_id in finished if (summary := ledger.summary(run_id))]
    say(report.text)
    trained, reused = (sum(s.get(f"instances_{key}", 0) for s in summaries) for key in ("trained", "reused"))
    seconds = [summary["seconds"] for summary in summaries if summary.get("instances_trained")]
    if seconds:
        say(f"{trained} instances trained, {trained + reused} without sharing; a run took {fmean(seconds):.0f} s")
    say(f"report: {folder / 'report' / 'report.html'}")
