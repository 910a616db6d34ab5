"""Keeps trials away from broken GPUs: actors of the driver take the shares that trials would take there.

Ray chooses the GPU of a trial, and cannot be told which one not to choose. So actors ask for the share of a trial on
the node until they hold all shares of the GPU. Actors that got another GPU are kept until then, or Ray would choose the
same one again; while another trial still runs on the broken GPU, they are ended after a while.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import ray
from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from study.execution.slots import Node, count_shares, count_trials_per_node
from trainables.worker.gpu_errors import GpuFaultError, GpuPlace

_PATIENCE_S = 30.0
"""Seconds without an answer of an actor after which no share is free, several times what a start takes; and seconds
until the next request, in which trials can take the shares of other GPUs."""


class _Holder:
    """Holds the share of a GPU with which it was started."""

    def get_gpus(self) -> list[str]:
        """Return Ray's ids of the process's GPUs."""
        ids: list[str] = ray.get_runtime_context().get_accelerator_ids()["GPU"]
        return ids


class _Request(NamedTuple):
    """An actor that was asked for its GPU."""

    actor: Any
    answer: "ray.ObjectRef[list[str]]"
    time: float


class _HeldGpu:
    """Actors on the way to hold all shares of a GPU.

    Args:
        place: the GPU.
        share: share that a trial takes of it.
    """

    def __init__(self, place: GpuPlace, share: float) -> None:
        self._place, self._share = place, share
        self._held: list[Any] = []
        self._elsewhere: list[Any] = []  # actors with another GPU of the node
        self._request: _Request | None = None
        self._start_time = 0.0  # of the next request

    @property
    def is_held(self) -> bool:
        """True if no trial can start there."""
        return len(self._held) == count_shares(1.0, self._share)

    def update(self) -> None:
        """Look at the actor that was asked last, and ask the next one; never waits."""
        now = time.monotonic()
        if self._request and ray.wait([self._request.answer], timeout=0)[0]:
            actor, answer, _ = self._request
            self._request = None
            try:
                (self._held if self._place.gpu in ray.get(answer) else self._elsewhere).append(actor)
            except ray.exceptions.RayError:  # the node is lost, or the process did not start
                self._start_time = now + _PATIENCE_S
        if self.is_held:
            self._elsewhere.clear()  # ends the actors
        elif self._request is None and now >= self._start_time:
            strategy = NodeAffinitySchedulingStrategy(self._place.node, soft=False)
            holder: Any = ray.remote(_Holder)
            actor = holder.options(num_cpus=0, num_gpus=self._share, scheduling_strategy=strategy).remote()
            self._request = _Request(actor, actor.get_gpus.remote(), now)
        elif self._request and self._elsewhere and now - self._request.time > _PATIENCE_S:
            self._request, self._start_time = None, now + _PATIENCE_S  # or it would take what becomes free now
            self._elsewhere.clear()

    def hurry(self) -> None:
        """Ask at once: a trial on this GPU has ended."""
        self._start_time = 0.0


class BrokenGpus(Callback):
    """Tune callback that avoids GPUs which have raised errors, as long as there is another one.

    Args:
        trial_resources: resources of one trial, by Ray's name.
        log: called with each line of progress.
        get_nodes: returns the nodes that can run trials.
        on_resize: called when there is a GPU less for trials.
    """

    def __init__(
        self,
        trial_resources: Mapping[str, float],
        log: Callable[[str], None],
        get_nodes: Callable[[], Iterable[Node]],
        on_resize: Callable[[], None],
    ) -> None:
        self._trial_resources, self._log = trial_resources, log
        self._get_nodes, self._on_resize = get_nodes, on_resize
        self._gpus: dict[GpuPlace, _HeldGpu] = {}

    def avoid(self, fault: GpuFaultError) -> bool:
        """Keep trials away from a GPU that has failed, unless it is the last one.

        Returns:
            True if trials were kept away already, so that only a trial that was there before can have met the fault.
        """
        if fault.place in self._gpus:
            self._gpus[fault.place].hurry()
            return True
        others = self._exclude(self._get_nodes(), {*self._gpus, fault.place})
        if any(count_trials_per_node(node, self._trial_resources) for node in others):
            self._log(f"{fault}; trials avoid this GPU from now on")
            self._gpus[fault.place] = _HeldGpu(fault.place, self._trial_resources["GPU"])
            self._on_resize()
        return False

    def exclude(self, found: Iterable[Node]) -> list[Node]:
        """Return nodes without their broken GPUs."""
        return self._exclude(found, self._gpus)

    @staticmethod
    def _exclude(found: Iterable[Node], broken: Iterable[GpuPlace]) -> list[Node]:
        counts = Counter(place.node for place in broken)
        return [
            {**node, "Resources": resources | {"GPU": max(0.0, resources.get("GPU", 0.0) - counts[node["NodeID"]])}}
            for node, resources in ((node, node["Resources"]) for node in found)
        ]

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Hold what has become free of the broken GPUs."""
        for gpu in self._gpus.values():
            gpu.update()
