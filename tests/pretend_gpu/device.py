"""Tensors on the device, and the operations on them, which the processor computes."""

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._library.custom_ops import OPDEFS
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tests.pretend_gpu import USERS, graphs, transfers
from tests.pretend_gpu.attention import OPERATIONS
from tests.pretend_gpu.counting import note_kernel
from tests.pretend_gpu.generators import check_generator, use_generator

DEVICE = torch.device("cuda", 0)
_LARGE = 1 << 30
"""Bytes of a tensor from which on it counts as memory of the device."""
_FREE = {"_unsafe_view", "_reshape_alias", "is_same_size", "_local_scalar_dense", "lift_fresh"}
"""Operations without a kernel, in addition to views and empty tensors."""
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
_TAKING_NUMBERS = {"fill_", "masked_fill", "masked_fill_", "where"}
"""Operations that take a single number of the host, in addition to elementwise ones."""
_WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "bincount"}
_WAITING |= {"_unique", "_unique2", "unique_dim", "unique_consecutive"}
_NOT_DETERMINISTIC = {"histc", "kthvalue", "median", "nanmedian", "put_", "cumsum"}
"""Operations of floating-point numbers without a deterministic kernel."""


class DeviceTensor(Tensor):
    """A tensor on the device; `host` is a tensor of the processor with its values."""

    is_any_made = False
    memory, limit, used = 80 << 30, 80 << 30, 0
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, host: Tensor) -> Any:
        if not torch.cuda.is_available():
            raise RuntimeError("No CUDA GPUs are available")
        if host.nbytes >= _LARGE:
            cls._take_memory(host)
        layout = {"strides": host.stride(), "storage_offset": host.storage_offset(), "layout": host.layout}
        made = Tensor._make_wrapper_subclass(cls, host.size(), dtype=host.dtype, device=DEVICE, **layout)
        made.host = host.detach()
        if not DeviceTensor.is_any_made:
            DeviceTensor.is_any_made = True
            note_user()
        return made

    @staticmethod
    def _take_memory(host: Tensor) -> None:
        if DeviceTensor.used + host.nbytes > DeviceTensor.limit:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {host.nbytes >> 20} MiB.")
        DeviceTensor.used += host.nbytes
        weakref.finalize(host.untyped_storage(), DeviceTensor._give_back, host.nbytes)

    @staticmethod
    def _give_back(count: int) -> None:
        DeviceTensor.used -= count

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})

    def __repr__(self, **ignored: Any) -> str:
        return f"DeviceTensor({self.host!r})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a tensor on the pretend GPU cannot be pickled")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def record_stream(self, stream: Any) -> None:
        pass

    def _set_data(self, values: Any) -> None:
        if values.shape != self.shape or values.stride() != self.stride() or values.dtype != self.dtype:
            raise NotImplementedError("another shape or type for a tensor on the pretend GPU")
        self.host = values.host

    data = property(Tensor.detach, _set_data)


def note_user() -> None:
    """Write which GPUs this process sees into a file of the folder of users, if there is one."""
    if folder := os.environ.get(USERS):
        Path(folder, str(os.getpid())).write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "0"))


class PretendMode(TorchDispatchMode):
    """Sees also the operations that have no tensor of the device among their arguments."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch loads its compiler


@contextmanager
def use_device() -> Iterator[None]:
    """Let the present thread have the device, inside the block; it also computes its own gradients."""
    torch.autograd.set_multithreading_enabled(False)
    with PretendMode():
        yield


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the device that its arguments ask for."""
    with _disable_current_modes():
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        name, target = func._schema.name.partition("::")[2], kwargs.get("device")
        target = None if target is None else torch.device(target)
        if target is not None and target.type == "cuda" and target.index:
            raise NotImplementedError("a tensor on a second pretend GPU")
        if not any(isinstance(each, DeviceTensor) for each in tensors) and (target is None or target.type != "cuda"):
            return _run_on_host(func, name, args, kwargs)
        if name in _SPECIAL:
            return _SPECIAL[name](func, name, args, kwargs)
        if func._schema.name in OPDEFS:  # an operation in Python, such as varlen_attn, which calls others
            with PretendMode():
                return OPDEFS[func._schema.name]._init_fn(*args, **kwargs)
        _check_devices(func, name, args, [each for each in tensors if not isinstance(each, DeviceTensor)])
        _note(func, name, args, kwargs)
        return _compute(func, args, kwargs)


def _run_on_host(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    check_generator(kwargs.get("generator"), "cpu")
    if name == "is_pinned":
        return transfers.is_pinned(args[0])
    if name == "_pin_memory":
        return transfers.pin(args[0].clone())
    must_pin = kwargs.pop("pin_memory", None)
    found = func(*args, **kwargs)
    return transfers.pin(found) if must_pin else found


def _check_devices(func: Any, name: str, args: Any, others: list[Tensor]) -> None:
    if name in _INDEXING and isinstance(args[0], DeviceTensor):
        for tensor in others:
            if tensor.dim():
                transfers.copy(tensor, tensor, True, False, name)
        return
    takes_numbers = torch.Tag.pointwise in func.tags or name in _TAKING_NUMBERS
    if any(tensor.dim() or not takes_numbers for tensor in others):
        raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu in {func}")


def _note(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> None:
    """Count kernels and waits."""
    is_mask = [isinstance(leaf, Tensor) and leaf.dtype == torch.bool for leaf in pytree.tree_leaves(args[1:2])]
    has_unknown_size = name == "repeat_interleave" and kwargs.get("output_size") is None
    if name in _WAITING or has_unknown_size or (name in _INDEXING and any(is_mask)):
        transfers.wait(name)
    if name == "segment_reduce" and not kwargs.get("unsafe"):  # it verifies the lengths, in two steps
        transfers.wait(name)
        transfers.wait(name)
    is_deterministic = torch.are_deterministic_algorithms_enabled()
    if is_deterministic and name in _NOT_DETERMINISTIC and args[0].is_floating_point():
        raise RuntimeError(f"{name} does not have a deterministic implementation on a GPU")
    is_filled = is_deterministic and torch.utils.deterministic.fill_uninitialized_memory
    if not (func.is_view or name in _FREE or (name.startswith(("empty", "new_empty")) and not is_filled)):
        note_kernel(str(func))


def _compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    host_args, host_kwargs = pytree.tree_map(_unwrap, (args, kwargs))
    host_kwargs = {key: value for key, value in host_kwargs.items() if key not in ("device", "pin_memory", "generator")}
    check_generator(kwargs.get("generator"), "cuda")
    given = dict(zip((each.name for each in func._schema.arguments), args, strict=False)) | kwargs
    changed = [given[each.name] for each in func._schema.arguments if each.is_write and each.name in given]

    def run_on_host() -> Any:
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        with use_generator(kwargs.get("generator")) if is_random else nullcontext():
            return func(*host_args, **host_kwargs)

    written = [each.host for each in pytree.tree_leaves(changed)]
    found = run_on_host() if func.is_view else graphs.compute(run_on_host, (host_args, host_kwargs), written)
    if not func._schema.is_mutable:
        return pytree.tree_map(_wrap, found)
    if any(each.shape != each.host.shape for each in pytree.tree_leaves(changed)):
        raise NotImplementedError(f"{func} changes the shape of a tensor on the pretend GPU")
    n_returned = len(func._schema.returns)
    return None if not n_returned else changed[0] if n_returned == 1 else tuple(changed)


def _unwrap(value: Any) -> Any:
    """Return a tensor with the values; a capture keeps the present ones of a number of the host."""
    if isinstance(value, DeviceTensor):
        return value.host
    return value.clone() if isinstance(value, Tensor) and graphs.is_capturing() else value


def _wrap(value: Any) -> Any:
    return DeviceTensor(value) if isinstance(value, Tensor) else value


def _convert(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Return a new tensor of another type, or on the other device."""
    source, target, non_blocking = args[0], kwargs.get("device"), bool(kwargs.get("non_blocking"))
    on_device = isinstance(source, DeviceTensor)
    is_to_device = on_device if target is None else torch.device(target).type == "cuda"
    others = {key: value for key, value in kwargs.items() if key not in ("device", "pin_memory", "non_blocking")}
    host = _unwrap(source)
    if is_to_device and on_device:
        values = graphs.compute(lambda: func(host, **others), host)
        note_kernel(str(func))
    else:
        values = func(host, **others)
    if is_to_device and not on_device:
        transfers.copy(source, values, True, non_blocking, name)
    if is_to_device:
        return DeviceTensor(values)
    found = torch.full_like(values, torch.nan if values.is_floating_point() else 0)
    transfers.copy(transfers.pin(found) if non_blocking else found, values, False, non_blocking, name)
    return found


def _overwrite(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Tensor:
    """Give a tensor the values of another one, of the same or the other device."""
    (target, source), non_blocking = args[:2], bool(args[2] if len(args) > 2 else kwargs.get("non_blocking"))
    if isinstance(target, DeviceTensor) and isinstance(source, DeviceTensor):
        written, read = target.host, source.host
        graphs.compute(lambda: written.copy_(read), (written, read), [written])
        note_kernel(str(func))
    elif isinstance(target, DeviceTensor):
        transfers.copy(source, source, True, non_blocking, name)
        target.host.copy_(source)
    else:
        transfers.copy(target, source.host, False, non_blocking, name)
    return target


def _attend(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    arguments = func._schema.arguments
    given = {each.name: each.default_value for each in arguments}
    given |= dict(zip((each.name for each in arguments), args, strict=False)) | kwargs
    if wrong := [key for key, value in given.items() if type(value) is Tensor]:
        raise RuntimeError(f"{name}: {wrong[0]} is on the cpu")
    note_kernel(str(func))
    host = {key: _unwrap(value) for key, value in given.items()}
    return pytree.tree_map(_wrap, graphs.compute(lambda: OPERATIONS[name](host), host))


def _refuse(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    raise NotImplementedError(f"{func} on the pretend GPU")


_SPECIAL: dict[str, Callable[..., Any]] = {
    "_to_copy": _convert,
    "copy_": _overwrite,
    "is_pinned": lambda *ignored: False,
    **dict.fromkeys(OPERATIONS, _attend),
    **dict.fromkeys(("set_", "resize_", "_pin_memory"), _refuse),
}
