"""The functions of torch.cuda, and the parts of torch in C++ that must know of a device."""

import ctypes
import mmap
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager, nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils import _foreach_utils

from tests.pretend_gpu import VARIABLE, graphs, transfers
from tests.pretend_gpu.attention import attend
from tests.pretend_gpu.device import DEVICE, DeviceTensor, use_device
from tests.pretend_gpu.generators import Generator, default_generator

_kept: list[Any] = []
"""What lives as long as the process."""


def install() -> None:
    """Add the device to this process: to the present thread, and to those that start afterwards.

    Raises:
        RuntimeError: this torch is no CPU build, or other parts of it would have to be replaced.
    """
    if _kept:
        return
    if torch.version.cuda is not None:
        raise RuntimeError("the pretend GPU needs a CPU build of torch")
    _make_cuda_an_accelerator()
    for name, function in _FUNCTIONS.items():
        setattr(torch.cuda, name, function)
    torch.Generator, torch.inference_mode = Generator, _inference_mode
    torch.accelerator.current_stream = torch.cuda.current_stream
    torch._C._host_emptyCache = lambda: None
    library = torch.library.Library("aten", "IMPL")
    library.impl("scaled_dot_product_attention", attend, "AutogradCUDA")
    torch.__future__.set_swap_module_params_on_conversion(True)  # parameters stay the same objects, as on a GPU
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") makes it on the host and copies it
    _foreach_utils._foreach_supported_types.append(DeviceTensor)
    start, own = threading.Thread.start, use_device()

    def start_with_device(thread: threading.Thread) -> None:
        run = thread.run
        thread.run = lambda: use_device()(run)()
        start(thread)

    threading.Thread.start = start_with_device
    own.__enter__()
    _kept.extend([library, own])


class _Guard(torch._C._acc.DeviceGuard):
    def type_(self) -> Any:
        return torch._C._autograd.DeviceType.CUDA


def _make_cuda_an_accelerator() -> None:
    """Give the type CUDA a device guard, and hooks that say there is one.

    A guard in Python for PrivateUse1 moves to CUDA's place in the registry. The hooks get a copy of their table of
    virtual functions, in which isBuilt, isAvailable, hasPrimaryContext and deviceCount return 1: slots 2, 3, 4 and 6 of
    ATen/detail/AcceleratorHooksInterface.h in torch 2.11 to 2.13.
    """
    c10, cpu = (
        ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name)) for name in ("libc10.so", "libtorch_cpu.so")
    )
    guards, guard = (ctypes.c_void_p * 21).in_dll(c10, "_ZN3c104impl26device_guard_impl_registryE"), _Guard()
    torch._C._acc.register_python_privateuseone_device_guard(guard)
    guards[1], guards[20] = guards[20], None
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    return_one = {"x86_64": b"\xb8\x01\x00\x00\x00\xc3", "aarch64": b"\x20\x00\x80\x52\xc0\x03\x5f\xd6"}
    code.write(return_one[platform.machine()])
    cpu._ZN2at6detail12getCUDAHooksEv.restype = ctypes.c_void_p
    hooks = ctypes.c_void_p.from_address(cpu._ZN2at6detail12getCUDAHooksEv())
    table = (ctypes.c_void_p * 82)(*(ctypes.c_void_p * 82).from_address(hooks.value - 16))
    for slot in (2, 3, 4, 6):
        table[2 + slot] = ctypes.addressof(ctypes.c_char.from_buffer(code))
    hooks.value = ctypes.addressof(table) + 16
    for each in (guard, code, table):  # the libraries read them even after the interpreter has ended
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    if torch._C._get_accelerator().type != "cuda":
        raise RuntimeError("this torch has other hooks: see ATen/detail/AcceleratorHooksInterface.h")


class _Nothing(ContextDecorator, nullcontext):
    """A context, or decorator, without effect."""


def _inference_mode(mode: Any = True) -> Any:
    """Stands for torch.inference_mode: a view of a tensor on the device cannot be a tensor of inference."""
    return torch.no_grad()(mode) if callable(mode) else torch.no_grad() if mode else _Nothing()


def _list_names() -> list[str]:
    """Return the names of the GPUs that this process sees."""
    names = os.environ.get(VARIABLE, "Pretend H100").split(",")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")
    return [names[int(number) % len(names)] for number in visible if number.strip().isdigit()]


def _get_properties(device: Any = 0) -> SimpleNamespace:
    number = 0 if device is None else device if isinstance(device, int) else torch.device(device).index or 0
    own = {"total_memory": DeviceTensor.memory, "multi_processor_count": 132}
    return SimpleNamespace(name=_list_names()[number], major=9, minor=0, **own)


class _Event:
    def __init__(self, **ignored: Any) -> None:
        self._until = 0

    def record(self, stream: Any = None) -> None:
        self._until = transfers.started

    def synchronize(self) -> None:
        transfers.wait("synchronize", self._until)

    def query(self) -> bool:
        transfers.finish_copies(self._until)
        return True

    def wait(self, stream: Any = None) -> None:
        pass

    def elapsed_time(self, other: Any) -> float:
        return 1.0


class _Stream:
    device, cuda_stream = DEVICE, 0

    def __init__(self, *ignored: Any, **also_ignored: Any) -> None:
        pass

    def is_capturing(self) -> bool:
        return graphs.is_capturing() and self is _streams[-1]

    def synchronize(self) -> None:
        transfers.wait("synchronize")

    def record_event(self, event: _Event | None = None) -> _Event:
        event = event or _Event()
        event.record()
        return event

    def wait_event(self, event: _Event) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass


@contextmanager
def _use_stream(stream: _Stream | None) -> Iterator[None]:
    _streams.append(stream or _streams[-1])
    try:
        yield
    finally:
        _streams.pop()


def _set_sync_debug_mode(mode: int | str) -> None:
    transfers.sync_debug_mode = mode if isinstance(mode, int) else ("default", "warn", "error").index(mode)


def _set_fraction(fraction: float, device: Any = None) -> None:
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    DeviceTensor.limit = int(fraction * DeviceTensor.memory)


_pool_numbers = count(1)


def _return(value: Any) -> Any:
    """Return a new function of any arguments: torch's compiler refuses one function under two names."""
    return lambda *ignored, **also_ignored: value


_streams = [_Stream()]
"""The default stream, and those that became the current one, the present one last."""
_RESULTS = {
    "current_device": 0,
    "get_device_capability": (9, 0),
    "is_bf16_supported": True,
    "_is_in_bad_fork": False,
    "mem_get_info": (DeviceTensor.memory, DeviceTensor.memory),
    "default_stream": _streams[0],
    **dict.fromkeys(("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"), 0),
    **dict.fromkeys(("_lazy_init", "init", "set_device", "set_stream", "empty_cache", "ipc_collect"), None),
    **dict.fromkeys(("reset_peak_memory_stats", "reset_accumulated_memory_stats"), None),
}
_FUNCTIONS: dict[str, Any] = {
    **{name: _return(value) for name, value in _RESULTS.items()},
    "is_available": lambda: bool(_list_names()),
    "is_initialized": lambda: DeviceTensor.is_any_made,
    "device_count": lambda: len(_list_names()),
    "get_device_name": lambda device=None: _get_properties(device).name,
    "get_device_properties": _get_properties,
    "synchronize": lambda device=None: transfers.wait("synchronize"),
    "set_sync_debug_mode": _set_sync_debug_mode,
    "get_sync_debug_mode": lambda: transfers.sync_debug_mode,
    "manual_seed": graphs.outside_capture(lambda seed: default_generator.manual_seed(seed)),
    "manual_seed_all": graphs.outside_capture(lambda seed: default_generator.manual_seed(seed)),
    "initial_seed": graphs.outside_capture(lambda: default_generator.initial_seed()),
    "get_rng_state": graphs.outside_capture(lambda device="cuda": default_generator.get_state()),
    "set_rng_state": graphs.outside_capture(lambda state, device="cuda": default_generator.set_state(state)),
    "default_generators": (default_generator,),
    "set_per_process_memory_fraction": _set_fraction,
    "Event": _Event,
    "Stream": _Stream,
    "stream": _use_stream,
    "current_stream": lambda device=None: _streams[-1],
    "is_current_stream_capturing": graphs.is_capturing,
    "CUDAGraph": graphs.CUDAGraph,
    "graph_pool_handle": lambda: (0, next(_pool_numbers)),
}
