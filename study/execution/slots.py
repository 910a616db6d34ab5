"""Number of concurrent trials, on this machine or on a cluster.

On this machine, as many trials run at once as its cores and GPUs can hold without sharing a core. On a cluster, it is
the sum over its nodes.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from study.config.loader import Study
from study.execution.connect import connect_to_cluster, get_cluster_address
from trainables.utils.errors import UserError
from trainables.utils.system import count_cores

Node = Mapping[str, Any]
"""An entry of ray.nodes()."""
_ROUNDING = 1e-6
"""Tolerance for rounding: Ray counts resources in units of 0.0001."""


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
        check_cores(study)
    else:
        connect_to_cluster(study, cluster)
    return cluster


def get_trial_resources(study: Study) -> dict[str, float]:
    """Return the resources of one trial, by Ray's names. Resources with amount 0 are left out."""
    amounts = {"CPU": float(study.training.threads), "GPU": study.resources.gpu}
    return {name: amount for name, amount in amounts.items() if amount}


def count_shares(gpus: float, share: float) -> int:
    """Return how many trials fit on GPUs if each takes a share of one. A trial never spans two GPUs.

    Example:
        >>> count_shares(2.0, 0.4)
        4
    """
    whole = int(gpus)
    return whole * int(1 / share + _ROUNDING) + int((gpus - whole) / share + _ROUNDING)


def count_trials_per_node(node: Node, trial_resources: Mapping[str, float]) -> int:
    """Return how many trials fit on a node."""
    available = node["Resources"]
    return min(
        count_shares(available.get(name, 0.0), amount)
        if name == "GPU"
        else int(available.get(name, 0.0) / amount + _ROUNDING)
        for name, amount in trial_resources.items()
    )


def compute_capacity(trial_resources: Mapping[str, float], nodes: Iterable[Node]) -> int:
    """Return how many trials can run at once, at least one.

    A trial never spans two nodes, so this is the sum over the nodes.

    Example:
        >>> nodes = [{"Resources": {"CPU": 4.0}}, {"Resources": {"CPU": 3.0}}]
        >>> compute_capacity({"CPU": 2.0}, nodes)
        3
    """
    return max(1, sum(count_trials_per_node(node, trial_resources) for node in nodes))


def spread_over_gpus(trial_resources: Mapping[str, float], nodes: Sequence[Node], wanted: int) -> dict[str, float]:
    """Return the resources of a trial with the largest share of a GPU with which as many trials as wanted run at once.

    Ray fills one GPU before it uses the next. With a larger share, trials spread over the GPUs if there are fewer of
    them than places.

    Example:
        >>> spread_over_gpus({"GPU": 0.25}, [{"Resources": {"GPU": 2.0}}], wanted=3)
        {'GPU': 0.5}
    """
    for count in range(1, int(1 / trial_resources.get("GPU", 1.0)) + 1):
        share = math.floor(1e4 / count) / 1e4  # Ray rounds to this
        larger = {**trial_resources, "GPU": share}
        if "GPU" in trial_resources and compute_capacity(larger, nodes) >= wanted:
            return larger
    return {**trial_resources}


def get_local_concurrency(study: Study) -> int:
    """Return how many trials run at once on this machine, at least one, if `check_cores` accepts the study."""
    gpus = {"GPU": float(count_local_gpus())} if study.resources.gpu else {}
    capacity = compute_capacity(get_trial_resources(study), [{"Resources": {"CPU": float(count_cores()), **gpus}}])
    return min(study.resources.concurrent or capacity, capacity)


def check_environment_variables() -> None:
    """Raise UserError if an environment variable is set with which Ray Tune refuses to run."""
    if value := os.environ.get("TUNE_RESULT_DIR"):
        expected = "none, because Ray Tune refuses it: unset TUNE_RESULT_DIR"
        raise UserError("environment variable TUNE_RESULT_DIR", repr(value), expected)


def check_cores(study: Study) -> None:
    """Check that the cores of this machine can run the study's trials.

    Threads that share a core are many times slower than trials that wait for their turn.

    Raises:
        UserError: one trial, or the requested number of trials, needs more cores than the machine has.
    """
    cores, threads, requested = count_cores(), study.training.threads, study.resources.concurrent
    if threads > cores:
        expected = f"at most {cores}, the cores of this machine; or resources.address of a cluster that has more"
        raise UserError("training.threads", threads, expected)
    if requested is not None and requested > cores // threads:
        machine = f"{cores} cores of this machine with training.threads = {threads}"
        raise UserError("resources.concurrent", requested, f"at most {cores // threads}, what the {machine} can run")


def count_local_gpus() -> int:
    """Return the number of GPUs that torch sees; Ray asks a library that containers may lack."""
    import torch

    return torch.cuda.device_count()
