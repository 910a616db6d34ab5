"""CUDA graphs: a capture records what is computed and leaves all memory as it was, a replay computes it again."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor, UntypedStorage
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from tests.pretend_gpu import counting, transfers
from tests.pretend_gpu.generators import default_generator

_capture: "CUDAGraph | None" = None
"""The graph that is captured now."""
_pools: dict[Any, WeakSet["CUDAGraph"]] = {}
"""Pool of memory -> graphs that share it."""


class _Operation(NamedTuple):
    """A function, and the tensors for its results."""

    compute: Callable[[], Any]
    results: list[Tensor]


class CUDAGraph:
    """Stands for torch.cuda.CUDAGraph.

    What a capture allocates has no values: each replay first fills all memory of the graph's pool with bytes that are
    no numbers.

    Attributes:
        kernels: captured kernels by name of the operation.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self.kernels = Counter[str]()
        self._operations: list[_Operation] = []
        self._own: dict[int, UntypedStorage] = {}  # by address: allocated during the capture
        self._before: dict[int, tuple[UntypedStorage, UntypedStorage]] = {}  # other memory, and its values
        self._pool: Any = None
        self._has_draws = self._is_captured = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **ignored: Any) -> None:
        global _capture
        if _capture or self._is_captured:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph, or another is being captured.")
        if torch.cuda.current_stream() == torch.cuda.default_stream():
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        self._pool = pool or torch.cuda.graph_pool_handle()
        self._state = default_generator.get_state()
        _capture, transfers.capture_error, counting.captured = self, "", self.kernels

    def capture_end(self) -> None:
        global _capture
        error = transfers.capture_error
        _capture, transfers.capture_error, counting.captured = None, None, None
        self._has_draws = not torch.equal(default_generator.get_state(), self._state)
        default_generator.set_state(self._state)
        with _disable_current_modes():
            for storage, values in self._before.values():
                storage.copy_(values)
        self._before.clear()
        if error:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
        self._forget_values()
        self._is_captured = True
        _pools.setdefault(self._pool, WeakSet()).add(self)

    def replay(self) -> None:
        if not self._is_captured or _capture:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        counting.note_kernel("graph")
        if self._has_draws:  # torch hands seed and offset of the generator to the graph
            counting.note_kernel("seed of a graph")
            counting.note_kernel("offset of a graph")
        with _disable_current_modes(), torch.no_grad():
            for graph in _pools[self._pool]:
                graph._forget_values()
            for operation in self._operations:
                for result, value in zip(operation.results, _list_tensors(operation.compute()), strict=True):
                    if value.untyped_storage().data_ptr() != result.untyped_storage().data_ptr():
                        result.copy_(value)

    def record(self, compute: Callable[[], Any], read: Iterable[Tensor], written: Iterable[Tensor]) -> Any:
        for storage in (each.untyped_storage() for each in written):
            if storage.data_ptr() not in self._own and storage.data_ptr() not in self._before:
                self._before[storage.data_ptr()] = storage, storage.clone()
        found = compute()
        results, taken = _list_tensors(found), {each.untyped_storage().data_ptr() for each in read}
        self._operations.append(_Operation(compute, results))
        self._own |= {
            storage.data_ptr(): storage
            for storage in (each.untyped_storage() for each in results)
            if storage.data_ptr() not in taken
        }
        return found

    def _forget_values(self) -> None:
        with _disable_current_modes():
            for storage in self._own.values():
                storage.fill_(255)


def is_capturing() -> bool:
    return _capture is not None


def compute(function: Callable[[], Any], arguments: Any, written: Iterable[Tensor] = ()) -> Any:
    """Return the result of a function of tensors, which may write some of them; a capture records the function."""
    return function() if _capture is None else _capture.record(function, _list_tensors(arguments), written)


def outside_capture(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the generator that raises an error during a capture."""

    def check_and_call(*args: Any, **kwargs: Any) -> Any:
        if _capture:
            raise RuntimeError("Cannot call a function of CUDAGeneratorImpl during CUDA graph capture.")
        return function(*args, **kwargs)

    return check_and_call


def _list_tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Tensor)]
