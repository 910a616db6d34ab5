"""Monitors the nodes of a cluster during a study and reports lost, resumed and joined ones.

A run on a lost node has not failed: it starts again on another node, from its last checkpoint. A lost node that answers
again is used again. Tune itself would report a node that vanished without notice as a failure of its trials.
"""

import json
import math
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import ray
from ray.tune import Callback
from ray.tune.experiment import Trial

from study.execution import nodes
from study.execution.slots import Node
from study.folder.run_name import format_run_name

_POLL_INTERVAL_S = 1.0
"""Seconds between two looks at the cluster."""
_CONNECT_TIMEOUT_S = 3.0
"""Seconds within which a working node normally answers."""
_CONNECT_ATTEMPTS = 3
"""Failed attempts in a row after which a node is lost: 10 to 19 seconds, as in the cluster itself."""
_RETRY_INTERVAL_S = 5.0
"""Seconds between two attempts."""
_MAX_CHECKS = 256
"""Nodes that are asked at the same time."""
_RECHECK_INTERVAL_S = 10.0
"""Seconds after which a node that did not answer is checked again."""


class NodeMonitor(Callback):
    """Tune callback that detects lost nodes and adapts the number of concurrent trials.

    Args:
        trial_resources: resources of one trial, by Ray's name.
        log: called with each line of progress.
        on_resize: called when nodes have joined or were lost.
    """

    def __init__(
        self, trial_resources: Mapping[str, float], log: Callable[[str], None], on_resize: Callable[[], None]
    ) -> None:
        self._trial_resources, self._log, self._on_resize = trial_resources, log, on_resize
        self._known_nodes = {node["NodeID"]: node for node in nodes.find_eligible_nodes(trial_resources)}
        self._lost_nodes: dict[str, float] = {}  # lost node -> time of its last check
        self._silent_nodes: dict[str, float] = {}  # node that did not answer -> time of that check
        self._unreported_losses: dict[str, list[str]] = {}  # lost node -> names of its runs
        self._trial_nodes: dict[str, ray.ObjectRef[str]] = {}  # trial -> id of its node
        self._displaced_runs: set[str] = set()  # names of unfinished runs that lost their node
        self._resumed_runs: list[str] = []  # names; reported after the loss of their node
        self._last_poll = 0.0

    @property
    def living_nodes(self) -> list[Node]:
        """Nodes that can run trials."""
        return [node for name, node in self._known_nodes.items() if name not in self._lost_nodes]

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Check the cluster, at most once a second, and report what changed."""
        if time.monotonic() - self._last_poll < _POLL_INTERVAL_S:
            return
        self._last_poll = time.monotonic()
        listed = {node["NodeID"]: node for node in nodes.find_eligible_nodes(self._trial_resources)}
        for node in self._known_nodes.keys() - listed.keys() - self._lost_nodes.keys():
            self._mark_lost(node)
        self._recheck_lost_nodes(listed)
        living = {node: facts for node, facts in listed.items() if node not in self._lost_nodes}
        joined = len(living.keys() - self._known_nodes.keys())
        if self._unreported_losses:
            self._log_losses(len(living) - joined)
            self._log_resumed()
        if joined:
            self._log(f"{_format_count(joined, 'node')} joined ({len(living)} in total)")
        if living.keys() != self._known_nodes.keys():
            self._known_nodes = living
            self._on_resize()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Ask the trial's process for its node. It answers before it starts to train."""
        actor = trial.temporary_state.ray_actor
        assert actor is not None
        self._trial_nodes[trial.trial_id] = actor.__ray_call__.remote(_get_node_id)
        if _get_run_name(trial) in self._displaced_runs:
            self._resumed_runs.append(_get_run_name(trial))
            if not self._unreported_losses:
                self._log_resumed()

    def is_node_lost(self, trial: Trial) -> bool:
        """Return whether a trial ended because its node is lost.

        The loss is reported a moment later, together with the other runs on that node. All nodes are checked together,
        so that nodes that are lost together cost the time of one.
        """
        node = self._find_node(trial)
        if node is None or not self._is_silent(node):
            return False
        self._displaced_runs.add(_get_run_name(trial))
        self._mark_lost(node).append(_get_run_name(trial))
        self._last_poll = time.monotonic()  # wait for the other runs on this node before reporting
        return True

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Report a run that finished although it lost a node."""
        self._trial_nodes.pop(trial.trial_id, None)
        if _get_run_name(trial) in self._displaced_runs:
            self._displaced_runs.remove(_get_run_name(trial))
            self._log_resumed()
            self._log(f"{_get_run_name(trial)}: finished on another node after node loss")

    def _find_node(self, trial: Trial) -> str | None:
        """Return the id of the trial's node, or None if the process ended before it answered."""
        answer = self._trial_nodes.pop(trial.trial_id, None)
        try:
            return None if answer is None else ray.get(answer, timeout=_CONNECT_TIMEOUT_S)
        except ray.exceptions.RayError:
            return None

    def _is_silent(self, node: str) -> bool:
        """Return whether a node does not answer, now or in a check of all nodes a moment ago."""
        now = time.monotonic()
        if now - self._silent_nodes.get(node, -math.inf) > _RECHECK_INTERVAL_S:
            own = {node: self._known_nodes.get(node)}
            is_lost = node in self._lost_nodes  # then it is not waited for
            silent = find_silent_nodes(own if is_lost else own | self._known_nodes, 1 if is_lost else _CONNECT_ATTEMPTS)
            self._silent_nodes.pop(node, None)
            self._silent_nodes |= dict.fromkeys(silent, time.monotonic())
        return node in self._silent_nodes

    def _mark_lost(self, node: str) -> list[str]:
        self._lost_nodes[node] = time.monotonic()
        return self._unreported_losses.setdefault(node, [])

    def _recheck_lost_nodes(self, listed: Mapping[str, Node]) -> None:
        now = time.monotonic()
        due = {
            node: listed[node]
            for node, checked_at in self._lost_nodes.items()
            if node in listed and now - checked_at > _RECHECK_INTERVAL_S
        }
        silent = find_silent_nodes(due, 1)
        for node in due:
            self._lost_nodes[node] = time.monotonic()
            if node not in silent:
                del self._lost_nodes[node]

    def _log_losses(self, n_left: int) -> None:
        runs = [name for names in self._unreported_losses.values() for name in names]
        effect = f"rescheduling from last checkpoint: {'; '.join(runs)}" if runs else "no run was affected"
        self._log(f"lost {_format_count(len(self._unreported_losses), 'node')} ({n_left} left); {effect}")
        self._unreported_losses = {}

    def _log_resumed(self) -> None:
        for name in self._resumed_runs:
            self._log(f"{name}: resumed on another node")
        self._resumed_runs = []


def _get_node_id(_: object) -> str:
    node_id: str = ray.get_runtime_context().get_node_id()
    return node_id


def find_silent_nodes(nodes: Mapping[str, Node | None], attempts: int) -> set[str]:
    """Return the ids of the nodes that answer none of so many connection attempts. All are asked at the same time."""
    if not nodes:
        return set()
    with ThreadPoolExecutor(min(len(nodes), _MAX_CHECKS)) as pool:
        answers = pool.map(lambda node: _is_reachable(node, attempts), nodes.values())
        return {name for name, is_reachable in zip(nodes, answers, strict=True) if not is_reachable}


def _is_reachable(node: Node | None, attempts: int) -> bool:
    """Return whether a node answers at least one of so many connection attempts."""
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
