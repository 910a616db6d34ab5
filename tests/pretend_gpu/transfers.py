"""Waits of the host, copies between the devices, and pinned memory."""

import warnings
import weakref
from typing import NamedTuple

import torch
from torch import Tensor

from tests.pretend_gpu.counting import note_copy, note_wait

sync_debug_mode = 0
"""What torch.cuda.set_sync_debug_mode sets: 1 for a warning at every wait, 2 for an error."""
capture_error: str | None = None
"""None outside the capture of a CUDA graph, inside it its last error or an empty text."""
_pinned: dict[int, int] = {}
"""First address of pinned memory -> address after it."""


class _Copy(NamedTuple):
    """A copy that the host has not waited for: memory of the host, and the values to find or to write there."""

    host: Tensor
    values: Tensor
    is_to_device: bool
    number: int


_in_flight: list[_Copy] = []
started = 0
"""Copies without a wait so far."""


def pin(values: Tensor) -> Tensor:
    """Return the tensor; its memory counts as pinned as long as it exists."""
    storage = values.untyped_storage()
    _pinned[storage.data_ptr()] = storage.data_ptr() + storage.nbytes()
    weakref.finalize(storage, _pinned.pop, storage.data_ptr(), None)
    return values


def is_pinned(values: Tensor) -> bool:
    return any(first <= values.data_ptr() < end for first, end in _pinned.items())


def copy(host: Tensor, values: Tensor, is_to_device: bool, non_blocking: bool, operation: str) -> None:
    """Copy values between the devices; `values` are on the device and `host` is memory of the host."""
    global started
    if capture_error is not None:
        _refuse_in_capture(operation)
    note_copy(operation)
    if non_blocking and is_pinned(host):
        started += 1
        _in_flight.append(_Copy(host, values.clone(), is_to_device, started))
    else:
        wait(operation)
        if not is_to_device:
            host.copy_(values)


def wait(operation: str, until: int | None = None) -> None:
    """Make the host wait for copies up to this number, or for all work of the device.

    Raises:
        RuntimeError: pinned memory changed while it was copied, or waits other than "synchronize" are errors, or the
            capture of a CUDA graph is under way.
    """
    if capture_error is not None:
        _refuse_in_capture(operation)
    note_wait(operation)
    if sync_debug_mode and operation != "synchronize":
        message = f"called a synchronizing CUDA operation: {operation}"
        if sync_debug_mode == 2:
            raise RuntimeError(message)
        warnings.warn(message, stacklevel=2)
    finish_copies(until)


def _refuse_in_capture(operation: str) -> None:
    """Raise the error of CUDA, also for a copy from pinned memory, which a real capture takes."""
    global capture_error
    capture_error = f"CUDA error: operation not permitted when stream is capturing ({operation})"
    raise RuntimeError(capture_error)


def finish_copies(until: int | None = None) -> None:
    """End copies up to this number, or all."""
    while _in_flight and (until is None or _in_flight[0].number <= until):
        done = _in_flight.pop(0)
        if not done.is_to_device:
            done.host.copy_(done.values)
        elif not torch.isclose(done.host.to(done.values.dtype), done.values, rtol=0, atol=0, equal_nan=True).all():
            raise RuntimeError("pinned memory changed before the host had waited for its copy to the device")
