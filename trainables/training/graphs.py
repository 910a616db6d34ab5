"""Training steps on a GPU as CUDA graphs: all kernels of a step are started at once.

A graph repeats the same kernels on the same memory, so there is one for each shape of a batch. The first step of a
shape runs as usual, which prepares torch and its libraries; the second one is captured. A graph takes nothing from the
host but the arrays of its batch and the state of the GPU's generator. All graphs use the same memory, one after
another: what lasts longer than a step, such as weights and states of the optimizer, must exist before the first
capture.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from trainables.models.packing import DeviceArrays

MOST_GRAPHS = 64
"""Graphs that a training keeps; further shapes run as usual."""


class _StepGraph(NamedTuple):
    """A captured step, the memory of its arrays, and the loss that it writes."""

    graph: torch.cuda.CUDAGraph
    memory: Tensor
    loss: Tensor


class StepGraphs:
    """The graphs of one training."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._seen = set[int]()  # hashes: numbers that differ in every step make as many keys
        self._graphs = dict[tuple[object, ...], _StepGraph]()

    @contextmanager
    def use_stream(self) -> Iterator[None]:
        """Run everything inside the block on the stream of the graphs.

        Autograd remembers the stream on which it first met a weight, so all steps belong there, captured or not.
        """
        outside = torch.cuda.current_stream()
        self._stream.wait_stream(outside)
        try:
            with torch.cuda.stream(self._stream):
                yield
        finally:
            outside.wait_stream(self._stream)

    def run(self, arrays: DeviceArrays, numbers: tuple[float, ...], step: Callable[[], Tensor]) -> Tensor:
        """Run a step, and return its loss.

        Args:
            arrays: all arrays that the step reads on the device; none of them has been read yet.
            numbers: all numbers of the host that the step uses and that may differ in another step.
            step: changes the weights by a batch and returns its loss. Its kernels follow from the shapes of the arrays
                and from the numbers.
        """
        key = (arrays.shapes, numbers)
        found = self._graphs.get(key)
        if found is None and (hash(key) not in self._seen or len(self._graphs) >= MOST_GRAPHS):
            self._seen.add(hash(key))
            return step()
        if found is None:
            found = self._graphs[key] = self._capture(arrays.copy_to_gpu(), step)
        else:
            arrays.copy_to_gpu(found.memory)
        found.graph.replay()
        return found.loss.clone()

    def _capture(self, memory: Tensor, step: Callable[[], Tensor]) -> _StepGraph:
        """Record a step without running it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            loss = step()
        return _StepGraph(graph, memory, loss)
