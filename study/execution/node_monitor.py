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
from study.records.run_name import run_name

_BEAT = 1.0
"""Seconds between two looks at the cluster."""
_KNOCK = 3.0
"""Seconds in which a living node answers, as a rule."""
_MISSES = 3
"""Knocks in a row without an answer after which a node is lost: 10 to 19 seconds, as the cluster itself takes."""
_PAUSE = 5.0
"""Seconds between two of them."""
_RETURN = 10.0
"""Seconds after which a lost node that the cluster still lists is knocked at again."""


class Watch(Callback):
    """Tune calls it around every trial.

    Args:
        wanted: what a trial takes, by resource.
        say: prints a line.
        resize: told how many trials the cluster holds, whenever nodes have joined or were lost.
    """

    def __init__(self, wanted: Mapping[str, float], say: Callable[[str], None], resize: Callable[[int], None]) -> None:
        self._wanted, self._say, self._resize = wanted, say, resize
        self._known = {node["NodeID"]: node for node in nodes.fitting(wanted)}
        self._gone: dict[str, float] = {}  # lost node -> when it was last knocked at
        self._untold: dict[str, list[str]] = {}  # lost node -> its runs
        self._asked: dict[str, ray.ObjectRef[str]] = {}  # trial -> the node that it runs on
        self._moving: set[str] = set()  # names of runs whose node was lost, until they end
        self._resumed: list[str] = []  # those that go on; said once it is said that their node was lost
        self._looked = 0.0

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Looks at the cluster."""
        if time.monotonic() - self._looked < _BEAT:
            return
        self._looked = time.monotonic()
        listed = {node["NodeID"]: node for node in nodes.fitting(self._wanted)}
        for node in self._known.keys() - listed.keys() - self._gone.keys():
            self._lose(node)
        for node in self._gone.keys() & listed.keys():
            self._try_again(node, listed[node])
        living = {node: facts for node, facts in listed.items() if node not in self._gone}
        joined = len(living.keys() - self._known.keys())
        if self._untold:
            self._tell(len(living) - joined)
            self._tell_resumed()
        if joined:
            self._say(f"{_count(joined, 'node')} joined, {len(living)} in all")
        if living.keys() != self._known.keys():
            self._known = living
            self._resize(nodes.room(self._wanted, living.values()))

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Asks the trial's process where it is; it answers before it begins to train."""
        actor = trial.temporary_state.ray_actor
        assert actor is not None
        self._asked[trial.trial_id] = actor.__ray_call__.remote(_node)
        if _name(trial) in self._moving:
            self._resumed.append(_name(trial))
            if not self._untold:
                self._tell_resumed()

    def lost(self, trial: Trial) -> bool:
        """Whether the node of a trial whose process ended was lost; what else was on it is told with it."""
        node = self._node_of(trial)
        if node is None or _answers(self._known.get(node), 1 if node in self._gone else _MISSES):
            return False
        self._moving.add(_name(trial))
        self._lose(node).append(_name(trial))
        self._looked = time.monotonic()  # what else was on the node is known in a moment
        return True

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A run that lost its node has ended all the same."""
        self._asked.pop(trial.trial_id, None)
        if _name(trial) in self._moving:
            self._moving.remove(_name(trial))
            self._tell_resumed()
            self._say(f"{_name(trial)} recovered: it ended although its node was lost")

    def _node_of(self, trial: Trial) -> str | None:
        """None where its process ended before it could say."""
        answer = self._asked.pop(trial.trial_id, None)
        try:
            return None if answer is None else ray.get(answer, timeout=_KNOCK)
        except ray.exceptions.RayError:
            return None

    def _lose(self, node: str) -> list[str]:
        self._gone[node] = time.monotonic()
        return self._untold.setdefault(node, [])

    def _try_again(self, node: str, facts: nodes.Node) -> None:
        if time.monotonic() - self._gone[node] > _RETURN:
            self._gone[node] = time.monotonic()
            if _answers(facts, 1):
                del self._gone[node]

    def _tell(self, left: int) -> None:
        runs = [name for names in self._untold.values() for name in names]
        on_it = f"on it: {'; '.join(runs)}; to go on elsewhere from the last state" if runs else "no run was on it"
        self._say(f"{_count(len(self._untold), 'node')} lost, {left} left; {on_it}")
        self._untold = {}

    def _tell_resumed(self) -> None:
        for name in self._resumed:
            self._say(f"{name} goes on, on another node")
        self._resumed = []


def _node(_: object) -> str:
    found: str = ray.get_runtime_context().get_node_id()
    return found


def _answers(node: nodes.Node | None, times: int) -> bool:
    """Whether a node is there: one of so many knocks is answered."""
    for count in range(times if node else 0):
        time.sleep(_PAUSE if count else 0)
        with suppress(OSError):
            assert node is not None
            socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), timeout=_KNOCK).close()
            return True
    return False


def _name(trial: Trial) -> str:
    return run_name(json.loads(trial.config["labels"]))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
