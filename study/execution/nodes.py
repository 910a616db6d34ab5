"""Nodes of a Ray cluster: which can run trials, how many, and whether their environments agree.

The bits of a run depend on the device, the instruction set and the library versions of its node. So the nodes are
probed and not the driver's machine, which needs neither a GPU nor a free core.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from study.config.loader import Study
from study.execution.slots import Node, count_trials_per_node, get_trial_resources
from study.utils import error_text
from trainables.specs.environment import DeviceType, detect_environment, resolve_precision
from trainables.specs.run_spec import BaseTrainingSettings, Environment
from trainables.utils.errors import UserError

Answer = TypeVar("Answer")
_AUTOSCALER_TIMEOUT_S = 900.0
"""Seconds that a cluster has to add a node if none of its nodes can run a trial."""
_PROBE_TIMEOUT_S = 300.0
"""Seconds that a node has to answer. Its first task imports torch."""


class NodeInfo(NamedTuple):
    """Answer of a probed node."""

    environment: Environment
    training: BaseTrainingSettings
    unseen_folders: list[str]
    """Keys of the folders and files that the node cannot see."""


def _get_task_options(study: Study) -> dict[str, Any]:
    resources = get_trial_resources(study)
    return {"num_cpus": resources["CPU"], "num_gpus": resources.get("GPU", 0)}


def find_eligible_nodes(trial_resources: Mapping[str, float]) -> list[Node]:
    """Return the nodes that are alive and can run at least one trial."""
    nodes: list[Node] = ray.nodes()  # type: ignore[no-untyped-call]
    register_hosts(nodes)
    return [node for node in nodes if node["Alive"] and count_trials_per_node(node, trial_resources)]


def register_hosts(nodes: Iterable[Node]) -> None:
    """Register the names and addresses of nodes, so that `redact` removes them from published texts."""
    keys = ("NodeName", "NodeManagerHostname", "NodeManagerAddress")
    error_text.HOSTS.update(str(node[key]) for node in nodes for key in keys if node.get(key))


def map_on_cluster(study: Study, function: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]]) -> list[Answer]:
    """Call a function once for each tuple of arguments, as Ray tasks with the resources of a trial.

    A task that is killed is not repeated, since it would then not run together with the others.

    Returns:
        The results, in the order of the arguments.

    Raises:
        Exception: the exception that the function raised.
    """
    task = ray.remote(function).options(max_retries=0, **_get_task_options(study))
    return _get_answers([task.remote(*each) for each in arguments])


def probe_nodes(study: Study, model: Path, device: DeviceType, log: Callable[[str], None]) -> NodeInfo:
    """Return the environment and resolved training settings that all eligible nodes have in common.

    Raises:
        UserError: no node can run a trial, their environments differ, or not all of them see a folder.
    """
    trial_resources = get_trial_resources(study)
    nodes = find_eligible_nodes(trial_resources) or _wait_for_autoscaler(study, trial_resources, log)
    study.cache_folder.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=study.cache_folder, prefix=".probe-") as probe_file:
        paths = {"cache.folder": probe_file.name, f"model.name {study.model.name}": str(model)}
        # A task sees a GPU only if it requests a share of it. Cores need not be free for a probe.
        options = _get_task_options(study) | {"num_cpus": 0}
        answers = [
            _probe_node.options(
                **options, scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(device, study.training, paths)
            for node in nodes
        ]
        done, pending = ray.wait(answers, num_returns=len(answers), timeout=_PROBE_TIMEOUT_S)
        if pending:
            found = f"{len(pending)} of the {len(nodes)} nodes that can run a trial did not answer"
            raise UserError("resources", found, "nodes that are available to the study")
        node_infos: list[NodeInfo] = _get_answers(done)
    _reject_unshared_folders(node_infos)
    _reject_heterogeneous([info.environment for info in node_infos])
    return node_infos[0]


@ray.remote
def _probe_node(device: DeviceType, training: BaseTrainingSettings, paths: dict[str, str]) -> NodeInfo:
    unseen = [key for key, path in paths.items() if not Path(path).exists()]
    return NodeInfo(detect_environment(device), resolve_precision(training, device), unseen)


def _get_answers(references: "Sequence[ray.ObjectRef[Answer]]") -> list[Answer]:
    """Return the results of tasks, or raise the exception that one of them raised."""
    try:
        answers: list[Answer] = ray.get([*references])
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    return answers


def _wait_for_autoscaler(study: Study, trial_resources: Mapping[str, float], log: Callable[[str], None]) -> list[Node]:
    """Request a node from an autoscaler with a task that needs one, and wait for it."""
    description = ", ".join(f"{name} {amount:g}" for name, amount in trial_resources.items())
    log(
        f"no node of the cluster can run a trial ({description}); "
        f"waiting {_AUTOSCALER_TIMEOUT_S / 60:.0f} minutes for one to join"
    )
    _request_resources.options(**_get_task_options(study)).remote()
    deadline = time.monotonic() + _AUTOSCALER_TIMEOUT_S
    while not (nodes := find_eligible_nodes(trial_resources)):
        if time.monotonic() > deadline:
            raise UserError("resources", f"no node of the cluster has {description}", "what at least one node has")
        time.sleep(1)
    return nodes


@ray.remote
def _request_resources() -> None:
    """Do nothing: only the task's resources matter."""


def _reject_unshared_folders(node_infos: list[NodeInfo]) -> None:
    counts = Counter(key for info in node_infos for key in info.unseen_folders)
    for key, count in sorted(counts.items()):
        found = f"{count} of the {len(node_infos)} nodes that can run a trial do not see it"
        raise UserError(key, found, "a folder on a disk that all nodes share, or the same on each of them")


def _reject_heterogeneous(environments: list[Environment]) -> None:
    counts = Counter(environments)
    if len(counts) == 1:
        return
    dumps = [environment.model_dump() for environment in counts]
    differing = [name for name in dumps[0] if len({dump[name] for dump in dumps}) > 1]
    kinds = (
        f"{count} with " + ", ".join(f"{name} {getattr(environment, name)}" for name in differing)
        for environment, count in counts.most_common()
    )
    expected = "nodes of one kind; start those of other kinds with ray start --num-cpus=0"
    raise UserError("resources", f"nodes that can run a trial differ: {'; '.join(kinds)}", expected)
