"""Starts Ray, and runs trials with Ray Tune."""

import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.execution import class_cache
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import ConcurrencyLimiter

from study.config.loader import Study
from study.execution import nodes
from study.execution.broken_gpus import BrokenGpus
from study.execution.connect import configure_ray_start
from study.execution.node_monitor import NodeMonitor
from study.execution.searcher import StudySearcher, TrialCallback
from study.execution.slots import (
    Node,
    compute_capacity,
    count_local_gpus,
    get_local_concurrency,
    get_trial_resources,
    spread_over_gpus,
)
from study.execution.trainable import StudyTrainable
from study.execution.trial_runner import TrialRunner
from study.utils.console import print_line
from trainables.utils import interruption
from trainables.utils.errors import MachineError
from trainables.utils.files import make_temporary_path

_OBJECT_STORE_BYTES = 200_000_000
"""Size of Ray's object store, which only holds results until the driver has fetched them; other data are files."""
_MAX_TEMPORARY_PATH = 26
"""Length of a temporary folder beyond which the paths of Ray's sockets in it could be too long for a system."""


@contextmanager
def open_session() -> Iterator[Path]:
    """Open a session of Ray, which is shut down at the end of the block.

    Yields:
        A folder for the files of Ray, which is removed at the end. Ray lets everyone write to the folders that it
        makes, so only the owner can enter this one.
    """
    parent = os.environ.get("RAY_TMPDIR") or ("/tmp" if sys.platform == "darwin" else tempfile.gettempdir())
    parent = parent if len(os.fsencode(parent)) <= _MAX_TEMPORARY_PATH else "/tmp"
    os.makedirs(parent, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir=parent))
    interruption.remove_when_killed(folder)
    try:
        yield folder
    finally:
        if not interruption.is_interrupted():  # after a signal, all of Ray's processes are killed at once
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


def start_ray(study: Study, cluster: str | None, folder: Path) -> int:
    """Start Ray, unless this process is connected to a cluster, and return how many trials run at once.

    Args:
        study: the study that will run there.
        cluster: address of the cluster that this process is connected to, or None.
        folder: folder of the session, for the files of Ray.

    Raises:
        MachineError: Ray's processes did not start in time.
    """
    class_cache.ENV_VARS_TO_PROPAGATE.clear()  # Ray writes what Tune propagates to its logs: credentials among them
    if cluster is not None:
        resources = get_trial_resources(study)
        return study.resources.concurrent or compute_capacity(resources, nodes.find_eligible_nodes(resources))
    concurrent = get_local_concurrency(study)
    # Use a new token: Ray would store one in the home folder, where clusters that are started later would find it.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with configure_ray_start():
        try:
            ray.init(
                address="local",
                num_cpus=concurrent * study.training.threads,
                num_gpus=count_local_gpus() if study.resources.gpu else None,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                object_store_memory=_OBJECT_STORE_BYTES,
                _temp_dir=str(folder / "r"),
            )
        except Exception as error:
            if "timed out during startup" in str(error):  # Ray's limit is half a minute and cannot be set
                raise MachineError("Ray did not start within its time limit; this machine is too busy") from error
            raise
    return concurrent


class _KeepActorsAliveScheduler(FIFOScheduler):
    """Keeps idle actors alive and forgets trials that have ended.

    By default Tune keeps only one idle actor, and starting a new one takes 10 seconds or more (imports). Tune stops an
    actor that is starting as soon as another one is free, so short trials would run one after the other. Tune also
    keeps every trial, and saves all of them every few seconds.
    """

    def __init__(self, n_actors: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._n_actors = n_actors

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """Enlarge the cache of actors. All trials need the same resources, so one group is enough."""
        if self._n_actors:
            tune_controller._actor_cache.increase_max(trial.placement_group_factory, by=self._n_actors)
            self._n_actors = 0
        _forget_ended(tune_controller)


def _forget_ended(tune_controller: Any) -> None:
    """Remove ended trials from Tune's controller: the results of a study are its run records."""
    for trial in [trial for trial in tune_controller._trials if trial.is_finished()]:
        tune_controller._trials.remove(trial)
        tune_controller._trial_metadata.pop(trial.trial_id, None)
        for name in ("_live_trials", "_stopped_trials", "_failed_trials", "_trials_to_cache"):
            getattr(tune_controller, name).discard(trial)


class _SilentProgressCallback(TrialProgressCallback):
    """Replaces a Tune callback that prints nothing here either, but keeps every trial."""

    def log_result(self, *_: Any, **__: Any) -> None:
        """Print and keep nothing."""

    def on_trial_complete(self, *_: Any, **__: Any) -> None:
        """Print and keep nothing."""


def run_trials(runner: TrialRunner, cluster: str | None) -> None:
    """Run the remaining trials.

    Raises:
        KeyboardInterrupt: Tune returned before the end, for example after SIGUSR1.
    """
    study, progress = runner.studies[0].scheduler.study, runner.progress
    with open_session() as folder:
        concurrent = start_ray(study, cluster, folder)
        precisions = dict.fromkeys(each.scheduler.study.training.precision for each in runner.studies)
        progress.start_clock(concurrent)
        line = f"{concurrent} trials at once, {study.training.threads} thread(s) each, {', '.join(precisions)}"
        print_line(", ".join(filter(None, [line, progress.describe_time_left()])))
        _run_tuner(runner, cluster, concurrent)
        runner.evictor.evict_unneeded()


def _run_tuner(runner: TrialRunner, cluster: str | None, concurrent: int) -> None:
    """Run the trials, as many at once as given; on a cluster as many as its nodes hold, unless the study says."""
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # failures are recorded and reported in one line
    ray._private.worker._worker_logs_enabled = False  # repeats failures with addresses of this machine
    first = runner.studies[0].scheduler
    study = first.study  # all studies need the same resources
    scratch = make_temporary_path(first.folder / "tune")  # other processes may work on the same study

    resources = get_trial_resources(study)
    wanted = min(concurrent, runner.progress.n_remaining)
    resources = spread_over_gpus(resources, nodes.find_eligible_nodes(resources), wanted)

    def get_nodes() -> list[Node]:
        return monitor.living_nodes if monitor else nodes.find_eligible_nodes(resources)

    def resize() -> None:
        """Adapt the number of trials; an autoscaler adds nodes for as many as the study asks for on a cluster."""
        if study.resources.concurrent is None or cluster is None:
            capacity = compute_capacity(resources, gpus.exclude(get_nodes()) if gpus else get_nodes())
            limiter.max_concurrent = min(capacity, study.resources.concurrent or capacity)

    monitor = NodeMonitor(resources, print_line, resize) if cluster is not None else None
    gpus = BrokenGpus(resources, print_line, get_nodes, resize) if "GPU" in resources else None
    searcher = StudySearcher(runner, monitor.is_node_lost if monitor else None, gpus.avoid if gpus else None)
    limiter = ConcurrencyLimiter(searcher, max_concurrent=concurrent)
    tune.Tuner(
        tune.with_resources(StudyTrainable, tune.PlacementGroupFactory([resources])),
        tune_config=tune.TuneConfig(
            search_alg=limiter, num_samples=-1, scheduler=_KeepActorsAliveScheduler(concurrent), reuse_actors=True
        ),
        run_config=tune.RunConfig(
            name="trials",
            storage_path=str(scratch),
            verbose=0,
            # The checkpoint storage has the checkpoints; those of Tune would contain the last result with its scores.
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            failure_config=tune.FailureConfig(max_failures=0),  # the searcher retries, where that may help
            callbacks=[_SilentProgressCallback(), TrialCallback(searcher), *filter(None, (monitor, gpus))],
        ),
    ).fit()
    shutil.rmtree(scratch, ignore_errors=True)
    if not runner.is_finished:  # Tune handles SIGUSR1 itself and returns
        raise KeyboardInterrupt
