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
from study.execution.connect import configure_ray_start, get_cluster_address
from study.execution.node_monitor import NodeMonitor
from study.execution.searcher import FailureCallback, StudySearcher, TrialEndCallback
from study.execution.slots import get_local_concurrency
from study.execution.trainable import StudyTrainable
from study.scheduling.scheduler import BaseScheduler
from study.tracking import WandbLogger
from trainables.utils.files import make_temporary_path

_OBJECT_STORE_BYTES = 200_000_000
"""Data travels through files; Ray's own share of the memory can be small."""


def start_ray(study: Study) -> int:
    """Starts Ray, unless this process has joined a cluster; returns how many trials run at once."""
    if get_cluster_address(study) is not None:
        return nodes.get_cluster_concurrency(study)
    concurrent = get_local_concurrency(study)
    # A token of this study's own: Ray would leave one in the home, where clusters that are started later find it.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with configure_ray_start():
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


class _KeepActorsAliveScheduler(FIFOScheduler):
    """Keeps the processes of idle places, and forgets trials that have ended.

    Tune by itself ends all but one of the processes, and a new one loads libraries for 10 seconds or more: trials that
    are shorter than that would from then on run one after the other, since Tune gives up a process that is starting as
    soon as another one is free. It keeps all trials, and writes all of them down every few seconds.
    """

    def __init__(self, n_actors: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._n_actors = n_actors

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Every trial asks for the same resources, so one group of the cache serves all."""
        if self._n_actors:
            tune_controller._actor_cache.increase_max(trial.placement_group_factory, by=self._n_actors)
            self._n_actors = 0
        _forget_ended(tune_controller)


def _forget_ended(tune_controller: Any) -> None:
    """A study's records are its results."""
    for trial in [trial for trial in tune_controller._trials if trial.is_finished()]:
        tune_controller._trials.remove(trial)
        tune_controller._trial_metadata.pop(trial.trial_id, None)
        for name in ("_live_trials", "_stopped_trials", "_failed_trials", "_trials_to_cache"):
            getattr(tune_controller, name).discard(trial)


class _SilentProgressCallback(TrialProgressCallback):
    """Replaces a callback of Tune's that prints nothing here either but remembers every trial."""

    def log_result(self, *_: Any, **__: Any) -> None:
        """Prints and keeps nothing."""

    def on_trial_complete(self, *_: Any, **__: Any) -> None:
        """The same."""


def run_tuner(
    scheduler: BaseScheduler,
    wandb_logger: WandbLogger,
    concurrent: int,
    on_trial_end: TrialEndCallback,
    on_precompute: Callable[[int, int], None],
    log: Callable[[str], None],
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
    if scheduler.is_finished:
        return
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a failure is in its record, and reported in one line
    ray._private.worker._worker_logs_enabled = False  # the same, said once more with the addresses of this machine
    study = scheduler.study
    scratch = make_temporary_path(scheduler.folder / "tune")  # others may be at work on the same study

    def resize(capacity: int) -> None:
        if study.resources.concurrent is None:
            limiter.max_concurrent = capacity

    monitor = (
        NodeMonitor(nodes.get_trial_resources(study), log, resize) if get_cluster_address(study) is not None else None
    )
    searcher = StudySearcher(
        scheduler, wandb_logger, on_trial_end, on_precompute, monitor.is_node_lost if monitor else None
    )
    limiter = ConcurrencyLimiter(searcher, max_concurrent=concurrent)
    resources = {"cpu": study.training.threads, "gpu": study.resources.gpu, **study.resources.custom}
    tune.Tuner(
        tune.with_resources(StudyTrainable, resources),
        tune_config=tune.TuneConfig(
            search_alg=limiter, num_samples=-1, scheduler=_KeepActorsAliveScheduler(concurrent), reuse_actors=True
        ),
        run_config=tune.RunConfig(
            name="trials",
            storage_path=str(scratch),
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # the storage of stages has the states
            failure_config=tune.FailureConfig(max_failures=0),  # the searcher tries again, and knows when that is vain
            callbacks=[_SilentProgressCallback(), FailureCallback(searcher), *([monitor] if monitor else [])],
        ),
    ).fit()
    shutil.rmtree(scratch, ignore_errors=True)
    if not scheduler.is_finished:  # Tune takes SIGUSR1 for itself and returns
        raise KeyboardInterrupt
