"""One invocation of a study, from its settings to the printed table."""

import json
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from study import plan, record
from study.campaign import Campaign, Configuration, Errand, Resolved
from study.config import Study
from study.housekeeping import Budget, clean
from study.places import places
from study.preparation import check, described
from study.tracking import Tracking, mirror, mirror_plan, mirrored
from trainables import environment, weights
from trainables.data.prepared import prepare
from trainables.errors import UserError


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
    if study.resources.address is None:
        places(study)
    clean(study)
    path = weights.folder(study.model.name)
    weights.check(path, study.model)
    digest = weights.files_digest(path)
    device: environment.Device = "cuda" if study.resources.gpu else "cpu"
    here = environment.current(device)
    study = study.model_copy(update={"training": environment.resolved(study.training, device)})
    prepared = prepare(study.task, study.cache, say)
    resolved = Resolved(prepared.fingerprint, digest, path, here)
    _check_recorded(folder, resolved)
    check(study, prepared)
    study = study.model_copy(update={"task": prepared.settings})  # from here on without paths
    declared, plan_hash = plan.settle(study, digest, folder, described(prepared))
    say(f"study {study.name}, plan {plan_hash} version {declared['version']}, results in {folder}")
    campaign = Campaign(study, resolved, folder, plan_hash)
    tracking = Tracking(mode=study.tracking.mode, project=study.project, folder=folder)
    mirror_plan(tracking, declared, plan_hash)
    if not campaign.finished:
        _execute(study, campaign, tracking)
    _mirror_missing(campaign.configurations, tracking)
    _analyse(study)
    _refuse_incomplete(campaign)
    say(f"{time.monotonic() - started:.0f} s in all; W&B {study.tracking.mode}, project {study.project}")


def say(line: str) -> None:
    """One line of progress."""
    print(line, flush=True)


class Progress:
    """Prints a line an ended errand, with an estimate of the time left."""

    def __init__(self, campaign: Campaign, metric: str) -> None:
        self._metric, self._done = metric, 0
        runs = [run for configuration in campaign.configurations for run in configuration.runs]
        splits: tuple[record.Split, record.Split] = ("dev", "test")
        before = sum(record.finished(campaign.folder, run.id, split) for run in runs for split in splits)
        self._total, self._before = campaign.runs_planned, before
        self.begin()

    def begin(self) -> None:
        """Starts the clock of the estimate."""
        self._started = time.monotonic()

    def features(self, done: int, total: int) -> None:
        """Progress of the frozen layers' outputs."""
        if done % 10 == 0:
            say(f"frozen layers: {done} of {total} parts of the candidates")

    def errand(self, errand: Errand, entry: dict[str, Any] | None) -> None:
        """An errand ended."""
        self._done += 1
        labels, count = errand.labels, self._before + self._done
        settings = [f"{name} {labels[name]:g}" for name in ("epsilon", "switch") if labels[name]]
        seed = [] if labels["seed"] is None else [f"seed {labels['seed']}"]
        name = " ".join([labels["variant"], *settings, *seed])
        elapsed = time.monotonic() - self._started
        left = elapsed / self._done * max(0, self._total - count) / 60
        say(f"{count:3}/{self._total}  {name:40} {self._result(errand, entry)}  about {left:.0f} min left")
        for line in (entry or {}).get("damaged", []):
            say(f"{'':9}{line}")

    def _result(self, errand: Errand, entry: dict[str, Any] | None) -> str:
        if entry is None or entry["state"] != "finished":
            return f"FAILED: {entry['summary']['error'] if entry else 'no record'}"
        key = f"{errand.split}/{self._metric}"
        summary = entry["summary"]
        seconds = summary.get("seconds", summary.get("test/seconds", 0.0))
        reused = summary.get("instances_reused", 0)
        shared = f", {reused} instances shared" if reused else ""
        return f"{key} {summary[key]:.4f}  {seconds:.0f} s{shared}"


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
        for name, configuration in campaign.chosen().items()
        if all(record.finished(campaign.folder, run.id, "test") for run in configuration.runs)
    }
    missing = sorted({configuration.name for configuration in campaign.configurations} - complete)
    if missing:
        raise RuntimeError(f"no complete test result of {', '.join(missing)}")


def _execute(study: Study, campaign: Campaign, tracking: Tracking) -> None:
    import ray

    from study import execute

    progress, budget = Progress(campaign, study.analysis.metric), Budget(campaign, say)

    def ended(errand: Errand, entry: dict[str, Any] | None) -> None:
        progress.errand(errand, entry)
        budget.keep()

    concurrent = execute.start(study)
    try:
        threads = study.training.threads
        say(f"{concurrent} trials at once, {threads} thread(s) each, {study.training.precision}")
        execute.features(campaign.example(), study.resources.gpu, progress.features)
        progress.begin()
        execute.run(campaign, tracking, concurrent, ended)
    finally:
        ray.shutdown()


def _mirror_missing(configurations: list[Configuration], tracking: Tracking) -> None:
    """What was recorded but, after a kill, never reached W&B."""
    splits: tuple[record.Split, record.Split] = ("dev", "test")
    for run in (run for configuration in configurations for run in configuration.runs):
        for split in splits:
            if record.read(tracking.folder, run.id, split) and not mirrored(tracking, run.id, split):
                mirror(tracking, run.id, split)


def _analyse(study: Study) -> None:
    from analysis import results
    from analysis.report import write_report

    folder, offline = study.folder, study.tracking.mode == "offline"
    found = results.read(folder / "wandb") if offline else results.read_records(folder)
    report = write_report(found, folder / "report")
    entries = [record.read(folder, path.name) for path in (folder / "runs").iterdir()]
    summaries = [entry["summary"] for entry in entries if entry and entry["state"] == "finished"]
    say(report.text)
    trained, reused = (sum(s.get(f"instances_{key}", 0) for s in summaries) for key in ("trained", "reused"))
    seconds = [summary["seconds"] for summary in summaries if summary.get("instances_trained")]
    if seconds:
        say(f"{trained} instances trained, {trained + reused} without sharing; a run took {fmean(seconds):.0f} s")
    say(f"report: {folder / 'report' / 'report.html'}")
