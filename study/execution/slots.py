"""Number of concurrent trials and their environment, on this machine or on a cluster.

On this machine, as many trials run at once as its cores and GPUs can hold without sharing a core. On a cluster, it is
the sum over its nodes.
"""

import os
from collections.abc import Callable
from pathlib import Path

from study.config.loader import Study
from study.execution.connect import connect_to_cluster, get_cluster_address
from trainables.specs import environment
from trainables.specs.base import BaseTrainingSettings, Environment
from trainables.utils.errors import UserError
from trainables.utils.system import count_cores


def connect_or_check(study: Study) -> str | None:
    """Connect to the study's cluster, or check that this machine has enough cores if there is none.

    Returns:
        The address of the cluster, or None if trials run on this machine.

    Raises:
        UserError: the cluster cannot be reached, the study requests more trials than the cores can hold, or Ray Tune
            refuses an environment variable.
    """
    cluster = get_cluster_address(study)
    check_environment_variables()
    if cluster is None:
        get_local_concurrency(study)
    else:
        connect_to_cluster(study, cluster)
    return cluster


def resolve_environment(
    study: Study, cluster: str | None, model: Path, log: Callable[[str], None]
) -> tuple[Environment, BaseTrainingSettings]:
    """Return the environment and the training settings of trials on the machines where they will run.

    Args:
        study: the study as the command line describes it.
        cluster: address of the cluster that this process is connected to, or None for this machine.
        model: folder of the model.
        log: called with a line if a node must be waited for.

    Raises:
        UserError: no machine can run a trial, or the nodes of a cluster differ.
    """
    device: environment.DeviceType = "cuda" if study.resources.gpu else "cpu"
    if cluster is None:
        return environment.detect_environment(device), environment.resolve_precision(study.training, device)
    from study.execution.nodes import probe_nodes  # imports ray

    node_info = probe_nodes(study, model, device, log)
    return node_info.environment, node_info.training


def get_local_concurrency(study: Study) -> int:
    """Return how many trials run at once on this machine, at least one.

    Raises:
        UserError: the cores hold fewer threads or trials. Threads that share a core are many times slower than trials
            that wait for their turn.
    """
    capacity, gpu_share = check_cores(study), study.resources.gpu
    if gpu_share:
        capacity = max(1, min(capacity, int(_count_gpus() / gpu_share)))
    return study.resources.concurrent or capacity


def check_environment_variables() -> None:
    """Raise UserError if an environment variable is set with which Ray Tune refuses to run."""
    if value := os.environ.get("TUNE_RESULT_DIR"):
        expected = "none, because Ray Tune refuses it: unset TUNE_RESULT_DIR"
        raise UserError("environment variable TUNE_RESULT_DIR", repr(value), expected)


def check_cores(study: Study) -> int:
    """Return how many trials the cores of this machine can run at once, at least one.

    Raises:
        UserError: one trial, or the requested number of trials, needs more cores than the machine has.
    """
    threads, requested = study.training.threads, study.resources.concurrent
    if threads > count_cores():
        expected = (
            f"at most {count_cores()}, the cores of this machine; or resources.address of a cluster that has more"
        )
        raise UserError("training.threads", threads, expected)
    capacity = count_cores() // threads
    if requested is not None and requested > capacity:
        cores = f"{count_cores()} cores of this machine with training.threads = {threads}"
        raise UserError("resources.concurrent", requested, f"at most {capacity}, what the {cores} can run")
    return capacity


def _count_gpus() -> int:
    import torch

    return torch.cuda.device_count()
