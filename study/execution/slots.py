"""Where a study's trials run, and how many at once: on this machine as many as its cores and GPUs hold without sharing
a core, on a cluster as many as its nodes hold."""

from collections.abc import Callable
from pathlib import Path

from study.config.loader import Study
from study.execution import connect as joining
from trainables.specs import environment
from trainables.specs.base import BaseTrainingSettings, Environment
from trainables.utils.errors import UserError
from trainables.utils.system import count_cores


def connect_or_check(study: Study) -> None:
    """Joins the study's cluster; without one, checks that this machine holds what is asked for.

    Raises:
        UserError: there is no way into the cluster, or more trials are asked for than the cores hold.
    """
    cluster = joining.get_cluster_address(study)
    if cluster is None:
        get_local_concurrency(study)
    else:
        joining.connect_to_cluster(study, cluster)


def resolve_environment(
    study: Study, model: Path, log: Callable[[str], None]
) -> tuple[Environment, BaseTrainingSettings]:
    """Environment and training settings of trials where they will run.

    Raises:
        UserError: there is no such place, or the nodes of a cluster differ.
    """
    device: environment.DeviceType = "cuda" if study.resources.gpu else "cpu"
    if joining.get_cluster_address(study) is None:
        return environment.detect_environment(device), environment.resolve_precision(study.training, device)
    from study.execution import nodes  # it loads ray

    node_info = nodes.probe_nodes(study, model, device, log)
    return node_info.environment, node_info.training


def get_local_concurrency(study: Study) -> int:
    """Trials at once, at least one.

    Raises:
        UserError: the cores hold fewer threads or trials: threads that wait for each other's core are many times slower
            than trials that wait for their turn.
    """
    capacity, gpu_share = check_cores(study), study.resources.gpu
    if gpu_share:
        capacity = max(1, min(capacity, int(_count_gpus() / gpu_share)))
    return study.resources.concurrent or capacity


def check_cores(study: Study) -> int:
    """Trials at once that the cores of this machine hold, at least one.

    Raises:
        UserError: a trial, or as many as are asked for, takes more cores than there are.
    """
    threads, requested = study.training.threads, study.resources.concurrent
    if threads > count_cores():
        expected = (
            f"at most {count_cores()}, the cores of this machine; or resources.address of a cluster that has more"
        )
        raise UserError("training.threads", threads, expected)
    capacity = count_cores() // threads
    if requested is not None and requested > capacity:
        where = f"{count_cores()} cores of this machine with training.threads = {threads}"
        raise UserError("resources.concurrent", requested, f"at most {capacity}, what the {where} hold")
    return capacity


def _count_gpus() -> int:
    import torch

    return torch.cuda.device_count()
