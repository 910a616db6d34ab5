"""Watches the nodes of a cluster while a study runs: says what a lost node took with it and that it went on elsewhere.

A run whose node is lost has not failed: it starts again on another node, from its last state in the storage of stages.
A lost node that answers again counts again. Tune itself calls a node that vanished without notice a failure of its
trials.
"""

import json
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import ray
from ray.tune import Callback
from ray.tune.experiment import Trial

from study.execution import nodes
from study.records.run_name import format_run_name

_POLL_INTERVAL_S = 1.0
"""Seconds between two looks at the cluster."""
_CONNECT_TIMEOUT_S = 3.0
"""Seconds in which a living node answers, as a rule."""
_CONNECT_ATTEMPTS = 3
"""Knocks in a row without an answer after which a node is lost: 10 to 19 seconds, as the cluster itself takes."""
_RETRY_INTERVAL_S = 5.0
"""Seconds between two of them."""
_RECHECK_INTERVAL_S = 10.0
"""Seconds after which a lost node that the cluster still lists is knocked at again."""


class NodeMonitor(Callback):
    """Tune calls it around every trial.

    Args:
        wanted: what a trial takes, by resource.
        say: prints a line.
        resize: told how many trials the cluster holds, whenever nodes have joined or were lost.
    """

    def __init__(
        self, trial_resources: Mapping[str, float], log: Callable[[str], None], on_resize: Callable[[int], None]
    ) -> None:
        self._trial_resources, self._log, self._on_resize = trial_resources, log, on_resize
        self._known_nodes = {node["NodeID"]: node for node in nodes.find_eligible_nodes(trial_resources)}
        self._lost_nodes: dict[str, float] = {}  # lost node -> when it was last knocked at
        self._unreported_losses: dict[str, list[str]] = {}  # lost node -> its runs
        self._trial_nodes: dict[str, ray.ObjectRef[str]] = {}  # trial -> the node that it runs on
        self._displaced_runs: set[str] = set()  # names of runs whose node was lost, until they end
        self._resumed_runs: list[str] = []  # those that go on; said once it is said that their node was lost
        self._last_poll = 0.0

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Looks at the cluster."""
        if time.monotonic() - self._last_poll < _POLL_INTERVAL_S:
            return
        self._last_poll = time.monotonic()
        listed = {node["NodeID"]: node for node in nodes.find_eligible_nodes(self._trial_resources)}
        for node in self._known_nodes.keys() - listed.keys() - self._lost_nodes.keys():
            self._mark_lost(node)
        for node in self._lost_nodes.keys() & listed.keys():
            self._recheck_lost_node(node, listed[node])
        living = {node: facts for node, facts in listed.items() if node not in self._lost_nodes}
        joined = len(living.keys() - self._known_nodes.keys())
        if self._unreported_losses:
            self._log_losses(len(living) - joined)
            self._log_resumed()
        if joined:
            self._log(f"{_format_count(joined, 'node')} joined, {len(living)} in all")
        if living.keys() != self._known_nodes.keys():
            self._known_nodes = living
            self._on_resize(nodes.compute_capacity(self._trial_resources, living.values()))

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Asks the trial's process where it is; it answers before it begins to train."""
        actor = trial.temporary_state.ray_actor
        assert actor is not None
        self._trial_nodes[trial.trial_id] = actor.__ray_call__.remote(_get_node_id)
        if _get_run_name(trial) in self._displaced_runs:
            self._resumed_runs.append(_get_run_name(trial))
            if not self._unreported_losses:
                self._log_resumed()

    def is_node_lost(self, trial: Trial) -> bool:
        """Whether the node of a trial whose process ended was lost; what else was on it is told with it."""
        node = self._find_node(trial)
        if node is None or _is_reachable(
            self._known_nodes.get(node), 1 if node in self._lost_nodes else _CONNECT_ATTEMPTS
        ):
            return False
        self._displaced_runs.add(_get_run_name(trial))
        self._mark_lost(node).append(_get_run_name(trial))
        self._last_poll = time.monotonic()  # what else was on the node is known in a moment
        return True

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A run that lost its node has ended all the same."""
        self._trial_nodes.pop(trial.trial_id, None)
        if _get_run_name(trial) in self._displaced_runs:
            self._displaced_runs.remove(_get_run_name(trial))
            self._log_resumed()
            self._log(f"{_get_run_name(trial)} recovered: it ended although its node was lost")

    def _find_node(self, trial: Trial) -> str | None:
        """None where its process ended before it could say."""
        answer = self._trial_nodes.pop(trial.trial_id, None)
        try:
            return None if answer is None else ray.get(answer, timeout=_CONNECT_TIMEOUT_S)
        except ray.exceptions.RayError:
            return None

    def _mark_lost(self, node: str) -> list[str]:
        self._lost_nodes[node] = time.monotonic()
        return self._unreported_losses.setdefault(node, [])

    def _recheck_lost_node(self, node: str, facts: nodes.Node) -> None:
        if time.monotonic() - self._lost_nodes[node] > _RECHECK_INTERVAL_S:
            self._lost_nodes[node] = time.monotonic()
            if _is_reachable(facts, 1):
                del self._lost_nodes[node]

    def _log_losses(self, n_left: int) -> None:
        runs = [name for names in self._unreported_losses.values() for name in names]
        on_it = f"on it: {'; '.join(runs)}; to go on elsewhere from the last state" if runs else "no run was on it"
        self._log(f"{_format_count(len(self._unreported_losses), 'node')} lost, {n_left} left; {on_it}")
        self._unreported_losses = {}

    def _log_resumed(self) -> None:
        for name in self._resumed_runs:
            self._log(f"{name} goes on, on another node")
        self._resumed_runs = []


def _get_node_id(_: object) -> str:
    found: str = ray.get_runtime_context().get_node_id()
    return found


def _is_reachable(node: nodes.Node | None, attempts: int) -> bool:
    """Whether a node is there: one of so many knocks is answered."""
    for count in range(attempts if node else 0):
        time.sleep(_RETRY_INTERVAL_S if count else 0)
        with suppress(OSError):
            assert node is not None
            socket.create_connection(
                (node["NodeManagerAddress"], node["NodeManagerPort"]), timeout=_CONNECT_TIMEOUT_S
            ).close()
            return True
    return False


def _get_run_name(trial: Trial) -> str:
    return format_run_name(json.loads(trial.config["labels"]))


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
