"""The nodes of a Ray cluster, as a study sees them: which hold a trial, how many at once, and whether their bits agree.

A run's bits depend on the device, the instruction set and the versions of where it runs. So the nodes are asked, not
the driver's machine, which needs neither a GPU nor a core for trials.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from study.config.loader import Study
from study.utils import error_text as causes
from trainables.specs.base import BaseTrainingSettings, Environment
from trainables.specs.environment import DeviceType, detect_environment, resolve_precision
from trainables.utils.errors import UserError

Answer = TypeVar("Answer")
Node = Mapping[str, Any]
"""An entry of ray.nodes()."""

_AUTOSCALER_TIMEOUT_S = 900.0
"""Seconds that a cluster without a node that holds a trial has to grow one."""
_PROBE_TIMEOUT_S = 300.0
"""Seconds that a node has to answer; its first task imports torch."""
_ROUNDING = 1e-6
"""Ray counts resources in units of 0.0001."""


class NodeInfo(NamedTuple):
    """What a node answers."""

    environment: Environment
    training: BaseTrainingSettings
    unseen_folders: list[str]


def get_trial_resources(study: Study) -> dict[str, float]:
    """What a trial takes, by the names that Ray gives to resources."""
    resources = study.resources
    wanted = {"CPU": float(study.training.threads), "GPU": resources.gpu, **resources.custom}
    return {name: amount for name, amount in wanted.items() if amount}


def get_task_options(study: Study) -> dict[str, Any]:
    """The same as options of a Ray task."""
    return {"num_cpus": study.training.threads, "num_gpus": study.resources.gpu, "resources": study.resources.custom}


def count_trials_per_node(node: Node, trial_resources: Mapping[str, float]) -> int:
    """How many trials fit on a node."""
    offered = node["Resources"]
    return min(int(offered.get(name, 0.0) / amount + _ROUNDING) for name, amount in trial_resources.items())


def find_eligible_nodes(trial_resources: Mapping[str, float]) -> list[Node]:
    """The living nodes that hold at least one trial."""
    nodes: list[Node] = ray.nodes()  # type: ignore[no-untyped-call]
    register_hosts(nodes)
    return [node for node in nodes if node["Alive"] and count_trials_per_node(node, trial_resources)]


def register_hosts(nodes: Iterable[Node]) -> None:
    """Notes what nodes are called, so that nothing that is published names them."""
    facts = ("NodeName", "NodeManagerHostname", "NodeManagerAddress")
    causes.HOSTS.update(str(node[name]) for node in nodes for name in facts if node.get(name))


def compute_capacity(trial_resources: Mapping[str, float], nodes: Iterable[Node]) -> int:
    """Trials at once, at least one: each node's own number added up, for no trial is spread over two nodes."""
    return max(1, sum(count_trials_per_node(node, trial_resources) for node in nodes))


def get_cluster_concurrency(study: Study) -> int:
    """Trials at once on the cluster: as many as its nodes hold, unless the study names a number."""
    trial_resources = get_trial_resources(study)
    return study.resources.concurrent or compute_capacity(trial_resources, find_eligible_nodes(trial_resources))


def map_on_cluster(study: Study, function: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]]) -> list[Answer]:
    """Calls a function on the cluster with each of the arguments, each call with what a trial takes.

    Raises:
        Exception: what the function raised.
    """
    task = ray.remote(function).options(**get_task_options(study))
    try:
        answers: list[Answer] = ray.get([task.remote(*each) for each in arguments])
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    return answers


def probe_nodes(study: Study, model: Path, device: DeviceType, log: Callable[[str], None]) -> NodeInfo:
    """What all nodes that hold a trial have in common: their environment, and the training settings that it resolves.

    Args:
        study: what was asked for.
        model: the model's folder.
        device: what trials run on.
        say: told when there is something to wait for.

    Raises:
        UserError: no node holds a trial, their environments differ, or a folder is not seen by all.
    """
    trial_resources = get_trial_resources(study)
    nodes = find_eligible_nodes(trial_resources) or _wait_for_autoscaler(study, trial_resources, log)
    with _create_probe_files(study) as probe_files:
        paths = {**probe_files, f"model.name {study.model.name}": str(model)}
        answers = [
            _probe_node.options(**_pin_to_node(node, study)).remote(device, study.training, paths) for node in nodes
        ]
        done, pending = ray.wait(answers, num_returns=len(answers), timeout=_PROBE_TIMEOUT_S)
        if pending:
            found = f"{len(pending)} of the {len(nodes)} nodes that hold a trial did not answer"
            raise UserError("resources", found, "nodes that are free for the study")
        node_infos = [_get_node_info(answer) for answer in done]
    _reject_unshared_folders(node_infos)
    _reject_heterogeneous([kind.environment for kind in node_infos])
    return node_infos[0]


def _pin_to_node(node: Node, study: Study) -> dict[str, Any]:
    """A GPU is seen only by who takes a share of it; cores need not be free to look at them."""
    strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    return {"num_cpus": 0, "num_gpus": study.resources.gpu, "scheduling_strategy": strategy}


@ray.remote
def _probe_node(device: DeviceType, training: BaseTrainingSettings, paths: dict[str, str]) -> NodeInfo:
    unseen = [key for key, path in paths.items() if not Path(path).exists()]
    return NodeInfo(detect_environment(device), resolve_precision(training, device), unseen)


def _get_node_info(answer: "ray.ObjectRef[NodeInfo]") -> NodeInfo:
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error


def _wait_for_autoscaler(study: Study, trial_resources: Mapping[str, float], log: Callable[[str], None]) -> list[Node]:
    """Asks an autoscaler for a node, by a task that needs one."""
    description = ", ".join(f"{name} {amount:g}" for name, amount in trial_resources.items())
    log(
        f"no node of the cluster holds a trial ({description}); "
        f"waiting {_AUTOSCALER_TIMEOUT_S / 60:.0f} minutes for one to join"
    )
    _request_resources.options(**get_task_options(study)).remote()
    deadline = time.monotonic() + _AUTOSCALER_TIMEOUT_S
    while not (nodes := find_eligible_nodes(trial_resources)):
        if time.monotonic() > deadline:
            raise UserError("resources", f"no node of the cluster has {description}", "what at least one node has")
        time.sleep(1)
    return nodes


@ray.remote
def _request_resources() -> None:
    """Only its resources matter."""


@contextmanager
def _create_probe_files(study: Study) -> Iterator[dict[str, str]]:
    """A fresh file in each folder that trials read or write, by the folder's key."""
    folders = {"cache.folder": study.cache}
    if study.output.records is None:
        folders["output.folder"] = study.folder
    probe_files = {key: folder / f".seen-{uuid4().hex}" for key, folder in folders.items()}
    try:
        for mark in probe_files.values():
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        yield {key: str(mark) for key, mark in probe_files.items()}
    finally:
        for mark in probe_files.values():
            mark.unlink(missing_ok=True)


def _reject_unshared_folders(node_infos: list[NodeInfo]) -> None:
    counts = Counter(key for kind in node_infos for key in kind.unseen_folders)
    for key, count in sorted(counts.items()):
        found = f"{count} of the {len(node_infos)} nodes that hold a trial do not see it"
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
    expected = (
        "one kind: a resource that only its nodes were started with, e.g. {amx = 0.01} for --resources '{\"amx\": 1}'"
    )
    raise UserError("resources.custom", f"nodes that hold a trial differ: {'; '.join(kinds)}", expected)
