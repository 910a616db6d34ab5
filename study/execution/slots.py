"""Where a study's trials run, and how many at once: on this machine as many as its cores and GPUs hold without sharing
a core, on a cluster as many as its nodes hold."""

from collections.abc import Callable
from pathlib import Path

from study.config.loader import Study
from study.execution import connect as joining
from trainables.specs import environment
from trainables.specs.base import CommonTraining, Environment
from trainables.utils.errors import UserError
from trainables.utils.system import cores


def ready(study: Study) -> None:
    """Joins the study's cluster; without one, checks that this machine holds what is asked for.

    Raises:
        UserError: there is no way into the cluster, or more trials are asked for than the cores hold.
    """
    cluster = joining.address(study)
    if cluster is None:
        places(study)
    else:
        joining.join(study, cluster)


def resolved(study: Study, model: Path, say: Callable[[str], None]) -> tuple[Environment, CommonTraining]:
    """Environment and training settings of trials where they will run.

    Raises:
        UserError: there is no such place, or the nodes of a cluster differ.
    """
    device: environment.Device = "cuda" if study.resources.gpu else "cpu"
    if joining.address(study) is None:
        return environment.current(device), environment.resolved(study.training, device)
    from study.execution import nodes  # it loads ray

    kind = nodes.survey(study, model, device, say)
    return kind.environment, kind.training


def places(study: Study) -> int:
    """Trials at once, at least one.

    Raises:
        UserError: the cores hold fewer threads or trials: threads that wait for each other's core are many times slower
            than trials that wait for their turn.
    """
    room, share = check_cores(study), study.resources.gpu
    if share:
        room = max(1, min(room, int(_gpus() / share)))
    return study.resources.concurrent or room


def check_cores(study: Study) -> int:
    """Trials at once that the cores of this machine hold, at least one.

    Raises:
        UserError: a trial, or as many as are asked for, takes more cores than there are.
    """
    threads, wanted = study.training.threads, study.resources.concurrent
    if threads > cores():
        expected = f"at most {cores()}, the cores of this machine; or resources.address of a cluster that has more"
        raise UserError("training.threads", threads, expected)
    room = cores() // threads
    if wanted is not None and wanted > room:
        where = f"{cores()} cores of this machine with training.threads = {threads}"
        raise UserError("resources.concurrent", wanted, f"at most {room}, what the {where} hold")
    return room


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()
