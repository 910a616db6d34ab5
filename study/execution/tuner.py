"""A campaign's errands as Ray Tune trials."""

import logging
import os
import secrets
import shutil
from collections.abc import Callable
from math import ceil
from typing import Any

import ray
from ray import tune
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import ConcurrencyLimiter

from study.config.loader import Study
from study.execution import nodes
from study.execution.connect import address, starting
from study.execution.node_monitor import Watch
from study.execution.searcher import CampaignSearcher, Failures, Report
from study.execution.slots import places
from study.execution.trainable import Trial
from study.scheduling.scheduler import Work
from study.tracking import Scribe
from trainables.utils.files import temporary_name

_OBJECT_STORE_BYTES = 200_000_000
"""Data travels through files; Ray's own share of the memory can be small."""


def start(study: Study) -> int:
    """Starts Ray, unless this process has joined a cluster; returns how many trials run at once."""
    if address(study) is not None:
        return nodes.at_once(study)
    concurrent = places(study)
    # A token of this study's own: Ray would leave one in the home, where clusters that are started later find it.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with starting():
        ray.init(
            address="local",
            num_cpus=concurrent * study.training.threads,
            resources={name: ceil(amount * concurrent) for name, amount in study.resources.custom.items()},
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=_OBJECT_STORE_BYTES,
        )
    return concurrent


class _Kept(FIFOScheduler):
    """Keeps the processes of idle places, and forgets trials that have ended.

    Tune by itself ends all but one of the processes, and a new one loads libraries for 10 seconds or more: trials that
    are shorter than that would from then on run one after the other, since Tune gives up a process that is starting as
    soon as another one is free. It keeps all trials, and writes all of them down every few seconds.
    """

    def __init__(self, places: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places = places

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Every trial asks for the same resources, so one group of the cache serves all."""
        if self._places:
            tune_controller._actor_cache.increase_max(trial.placement_group_factory, by=self._places)
            self._places = 0
        _forget_ended(tune_controller)


def _forget_ended(tune_controller: Any) -> None:
    """A study's records are its results."""
    for trial in [trial for trial in tune_controller._trials if trial.is_finished()]:
        tune_controller._trials.remove(trial)
        tune_controller._trial_metadata.pop(trial.trial_id, None)
        for name in ("_live_trials", "_stopped_trials", "_failed_trials", "_trials_to_cache"):
            getattr(tune_controller, name).discard(trial)


class _Silent(TrialProgressCallback):
    """Replaces a callback of Tune's that prints nothing here either but remembers every trial."""

    def log_result(self, *_: Any, **__: Any) -> None:
        """Prints and keeps nothing."""

    def on_trial_complete(self, *_: Any, **__: Any) -> None:
        """The same."""


def run(
    campaign: Work,
    scribe: Scribe,
    concurrent: int,
    report: Report,
    parts: Callable[[int, int], None],
    say: Callable[[str], None],
) -> None:
    """Runs what is left of the campaign.

    Args:
        campaign: what has to run.
        scribe: writes its runs to W&B.
        concurrent: trials at once; on a cluster this follows its nodes, unless the study names a number.
        report: told of each errand that ended.
        parts: told how many parts of the frozen layers' outputs are there, and of how many.
        say: told of nodes that were lost or have joined.
    """
    if campaign.finished:
        return
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a failure is in its record, and reported in one line
    ray._private.worker._worker_logs_enabled = False  # the same, said once more with the addresses of this machine
    study = campaign.study
    scratch = temporary_name(campaign.folder / "tune")  # others may be at work on the same study

    def resize(room: int) -> None:
        if study.resources.concurrent is None:
            limited.max_concurrent = room

    watch = Watch(nodes.need(study), say, resize) if address(study) is not None else None
    searcher = CampaignSearcher(campaign, scribe, report, parts, watch.lost if watch else None)
    limited = ConcurrencyLimiter(searcher, max_concurrent=concurrent)
    taken = {"cpu": study.training.threads, "gpu": study.resources.gpu, **study.resources.custom}
    tune.Tuner(
        tune.with_resources(Trial, taken),
        tune_config=tune.TuneConfig(search_alg=limited, num_samples=-1, scheduler=_Kept(concurrent), reuse_actors=True),
        run_config=tune.RunConfig(
            name="trials",
            storage_path=str(scratch),
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # the storage of stages has the states
            failure_config=tune.FailureConfig(max_failures=0),  # the searcher tries again, and knows when that is vain
            callbacks=[_Silent(), Failures(searcher), *([watch] if watch else [])],
        ),
    ).fit()
    shutil.rmtree(scratch, ignore_errors=True)
    if not campaign.finished:  # Tune takes SIGUSR1 for itself and returns
        raise KeyboardInterrupt
