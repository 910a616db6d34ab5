"""A campaign's errands as Ray Tune trials, and the frozen layers' features as Ray tasks before them."""

import json
import logging
import os
import shutil
from collections.abc import Callable
from typing import Any

# Read by Ray when it is imported: no tables or logs of its own, no usage report, no metric from unfinished trials.
os.environ |= {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
}

import ray
from ray import tune
from ray.tune.search import Searcher

from study import record
from study.campaign import Campaign, Errand
from study.config import Study
from study.places import places
from study.tracking import Tracking
from study.trial import Trial, failed_entry
from trainables.job import Job

_OBJECT_STORE_BYTES = 200_000_000
"""Data travels through files; Ray's own share of the memory can be small."""

Report = Callable[[Errand, "dict[str, Any] | None"], None]


class CampaignSearcher(Searcher):
    """Hands a campaign's errands to Tune as they become possible, and tells it which have ended."""

    def __init__(self, campaign: Campaign, tracking: Tracking, report: Report) -> None:
        super().__init__(metric="metric", mode="max")
        self._campaign, self._tracking, self._report = campaign, tracking, report
        self._trials: dict[str, Errand] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        """The next errand's configuration; None while it must wait; FINISHED at the end of the study."""
        if self._campaign.finished:
            return str(Searcher.FINISHED)
        errand = self._campaign.next()
        if errand is None:
            return None
        self._trials[trial_id] = errand
        labels = json.dumps(errand.labels)
        return {"job": errand.job.model_dump_json(), "labels": labels, "tracking": self._tracking.model_dump_json()}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """An errand ended; a process that died without a word gets its failure recorded here."""
        errand = self._trials.pop(trial_id)
        run_id = errand.job.specification.id
        entry = record.read(self._tracking.folder, run_id, errand.split)
        if entry is None:
            entry = failed_entry(errand.job, errand.labels, "the trial's process ended without a word")
            record.write(self._tracking.folder, errand.split, entry, None)
        self._campaign.done(errand)
        self._report(errand, entry)

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: a campaign is rebuilt from the study file and the records."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


def start(study: Study) -> int:
    """Starts Ray, or joins the cluster at `resources.address`; returns how many trials run at once."""
    address, threads, share = study.resources.address, study.training.threads, study.resources.gpu
    if address is None:
        concurrent = places(study)
        ray.init(
            address="local",
            num_cpus=concurrent * threads,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
        )
        return concurrent
    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    room = int(resources["CPU"]) // threads
    if share:
        room = min(room, int(resources.get("GPU", 0) / share))
    return study.resources.concurrent or max(1, room)


@ray.remote
def _compute_features(job: Job, part: int) -> None:
    from trainables.run import compute_features

    compute_features(job, part)


@ray.remote
def _missing_features(job: Job) -> list[int]:
    from trainables.run import Data

    return Data(job).features.missing()


def features(job: Job, gpu: float, progress: Callable[[int, int], None]) -> None:
    """Computes what the frozen layers make of every pair, as far as it is not there yet; a task takes this share of a
    GPU."""
    model, training = job.specification.model, job.specification.training
    if model is None or training is None or not model.frozen_layers:
        return
    missing = ray.get(_missing_features.options(num_cpus=training.threads).remote(job))
    waiting = [_compute_features.options(num_cpus=training.threads, num_gpus=gpu).remote(job, part) for part in missing]
    while waiting:
        progress(len(missing) - len(waiting), len(missing))
        done, waiting = ray.wait(waiting)
        try:
            ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error


def run(campaign: Campaign, tracking: Tracking, concurrent: int, report: Report) -> None:
    """Runs what is left of the campaign."""
    if campaign.finished:
        return
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a failure is in its record, and reported in one line
    threads = campaign.study.training.threads
    scratch = tracking.folder / ".tune"
    shutil.rmtree(scratch, ignore_errors=True)
    tune.Tuner(
        tune.with_resources(Trial, {"cpu": threads, "gpu": campaign.study.resources.gpu}),
        tune_config=tune.TuneConfig(
            search_alg=CampaignSearcher(campaign, tracking, report),
            num_samples=-1,
            max_concurrent_trials=concurrent,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name="trials",
            storage_path=str(scratch),
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=1),
        ),
    ).fit()
    shutil.rmtree(scratch, ignore_errors=True)
    if not campaign.finished:  # Tune takes the first Ctrl-C for itself and returns
        raise KeyboardInterrupt
