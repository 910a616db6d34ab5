"""One invocation of a study, from its settings to the printed table."""

import json
import time
from pathlib import Path
from typing import Any

from study import changes, plan, record, searchlog
from study.archive import Archive
from study.budgets import Clock, spent
from study.campaign import Campaign
from study.config import Study
from study.configuration import Errand, Resolved
from study.housekeeping import Budget, check_writable, clean
from study.ledger import Ledger
from study.places import ready
from study.preparation import check, described
from study.progress import Progress, say
from study.resolution import resolve
from study.tracking import Tracking, mirror, mirror_plan, mirror_search, mirrored
from trainables.errors import UserError
from trainables.limits import check as check_limits


def conduct(study: Study, started: float) -> None:
    """Runs whatever of the study is not done yet, then analyses and reports.

    Args:
        study: what was asked for.
        started: `time.monotonic()` when the command began.

    Raises:
        UserError: the model, the task or the folder is not what the study says.
    """
    folder = study.folder
    plan.check_folder(study, folder)
    check_limits(study.trial.memory)
    ready(study)
    check_writable(study)
    clean(study)
    archive = Archive(study.records) if study.records else None
    if archive:
        say(f"{len(archive.join(folder, study.name))} runs taken from {study.records}")
    study, resolved, prepared = resolve(study, say)
    _check_recorded(folder, resolved)
    check(study, prepared)
    study = study.model_copy(update={"task": prepared.settings})  # from here on without paths
    declared, plan_hash = _settled(study, resolved.model_digest, folder, described(prepared))
    say(f"study {study.name}, plan {plan_hash} version {declared['version']}, results in {folder}")
    clock = Clock(folder, started)
    ledger = Ledger(folder)
    campaign = Campaign(study, resolved, ledger, plan_hash, lambda: spent(study, clock, ledger), searchlog.read(folder))
    if archive:
        archive.publish(folder)
    tracking = Tracking(mode=study.tracking.mode, project=study.project, folder=folder, records=study.records)
    mirror_plan(tracking, declared, plan_hash)
    if not campaign.finished:
        _execute(study, campaign, tracking, clock)
    log = campaign.log()
    searchlog.write(folder, log)
    mirror_search(tracking, study.name, plan_hash, log)
    _say_not_done(campaign)
    _mirror_missing(campaign, tracking)
    _analyse(study)
    if archive:
        archive.complete(folder, study.tracking.mode)
        archive.publish(folder)
    clock.keep()
    _refuse_incomplete(campaign)
    say(f"{time.monotonic() - started:.0f} s in all; W&B {study.tracking.mode}, project {study.project}")


def _settled(study: Study, digest: str, folder: Path, data: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The plan in force; says what is new about it, or why it cannot be new."""
    differences = changes.since(folder, plan.declared(study, digest, data))
    try:
        declared, plan_hash = plan.settle(study, digest, folder, data)
    except UserError as error:
        found = f"test scores of this study as it was before: {'; '.join(differences)}"
        raise UserError(
            str(folder), found, "the earlier values, or another output.folder for the changed study"
        ) from error
    if differences:
        say(f"plan version {declared['version']}: {'; '.join(differences)}; finished runs are kept")
    return declared, plan_hash


def _check_recorded(folder: Path, resolved: Resolved) -> None:
    """Refuses to add to test scores that came from other data, another model or another environment."""
    for path in folder.glob("runs/*/test.json"):
        specification = json.loads(path.read_text(encoding="utf-8"))["config"]["specification"]
        if specification["system"] == "cross-encoder":
            found = (specification["data"], specification["model"]["name"], specification["environment"])
            here = (resolved.fingerprint, resolved.model_digest, resolved.environment.model_dump(mode="json"))
            if found != here:
                what = "test scores from other data, another model, other libraries or another processor"
                raise UserError(str(folder), what, "another output.folder, or what they were made with")


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


def _execute(study: Study, campaign: Campaign, tracking: Tracking, clock: Clock) -> None:
    import ray

    from study import execute

    progress, budget, proposed = Progress(campaign, study.analysis.metric), Budget(campaign, say), 0

    def ended(errand: Errand, entry: dict[str, Any] | None) -> None:
        nonlocal proposed
        progress.errand(errand, entry)
        budget.keep()
        clock.keep()
        if len(campaign.configurations) > proposed:
            proposed = len(campaign.configurations)
            searchlog.write(campaign.folder, campaign.log())

    concurrent = execute.start(study)
    try:
        threads = study.training.threads
        say(f"{concurrent} trials at once, {threads} thread(s) each, {study.training.precision}")
        progress.begin()
        execute.run(campaign, tracking, concurrent, ended, progress.parts, say)
    finally:
        ray.shutdown()


def _mirror_missing(campaign: Campaign, tracking: Tracking) -> None:
    """What was recorded but, after a kill, never reached W&B."""
    for run in (run for configuration in campaign.configurations for run in configuration.runs):
        for split in record.SPLITS:
            if campaign.ledger.state(run.id, split) and not mirrored(tracking, run.id, split):
                mirror(tracking, run.id, split)


def _analyse(study: Study) -> None:
    from analysis import results
    from analysis.report import write_report

    folder, offline = study.folder, study.tracking.mode == "offline"
    found = results.read(folder / "wandb") if offline else results.read_records(folder)
    report = write_report(found, folder / "report")
    say(report.text)
    say(f"report: {folder / 'report' / 'report.html'}")
