"""Tells faults of a GPU from errors of what ran on it, by the texts of CUDA and torch."""

import re
from typing import Literal, NamedTuple

from trainables.utils.errors import MachineError, UserError

GpuErrorKind = Literal["broken", "crowded", "too large"]
"""Either the GPU or its driver is at fault, or other processes took its memory, or the trial needs more than its own
share of the memory."""
_TYPES = (RuntimeError, AssertionError, UserError, MachineError)
"""Types of the errors of torch and of `trainables.specs.environment`. One of another type may quote such a text."""
_GPU = re.compile(
    r"\b(?:CUDA|HIP)(?: driver| unknown)? error\b|\b(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE|HIPBLAS)_STATUS_|cuDNN error"
    r"|\b(?:CUDA|HIP) out of memory|CUDA driver initialization failed|No (?:CUDA|HIP) GPUs are available"
    r"|Found no NVIDIA driver|The NVIDIA driver on your system|cudaGetDeviceCount|Torch not compiled with CUDA"
    r"|no GPU on this machine|a GPU of another kind|\bXid\b"
)
_OWN = re.compile(
    r"device-side assert triggered|invalid (?:configuration )?argument|invalid resource handle"
    r"|too many resources requested|_STATUS_(?:INVALID_VALUE|BAD_PARAM|NOT_SUPPORTED|ARCH_MISMATCH)|captur(?:e|ing)"
)
"""Errors of CUDA that the program causes and would cause on every GPU.

Torch ends the text of every error with a hint at device-side assertions."""
_NO_MEMORY = re.compile(r"out of memory|_STATUS_ALLOC_FAILED")
_SIZE = r"([\d.]+) (bytes|[KMGT]iB)"
_OVERDRAWN = re.compile(
    rf"Tried to allocate {_SIZE}\..* {_SIZE} allowed; Of the allocated memory {_SIZE} is allocated"
    rf".* and {_SIZE} is reserved",
    re.DOTALL,
)
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_ROUNDING = 0.99
"""Share of the allowed memory that counts as all of it, because the text rounds."""


class GpuPlace(NamedTuple):
    """A GPU of a node."""

    node: str
    """Ray's id of the node, which says nothing about its name."""
    gpu: str
    """Ray's id of the GPU on the node."""

    def __str__(self) -> str:
        return f"GPU {self.gpu} of node {self.node[:8]}"


class GpuFaultError(MachineError):
    """Raised in place of an error of a trial that its GPU caused.

    Args:
        place: the GPU.
        cause: what happened, in one line.
        is_broken: True if the GPU is at fault, False if other processes took its memory.
    """

    def __init__(self, place: GpuPlace, cause: str, is_broken: bool) -> None:
        hint = "repair the GPU, or hide it with CUDA_VISIBLE_DEVICES" if is_broken else "end the GPU's other processes"
        super().__init__(f"{place}: {cause}", f"{hint}, and rerun the same command to resume")
        self.place, self.cause, self.is_broken = place, cause, is_broken

    def __reduce__(self) -> tuple[type["GpuFaultError"], tuple[GpuPlace, str, bool]]:
        return GpuFaultError, (self.place, self.cause, self.is_broken)


def classify_gpu_error(error: BaseException) -> GpuErrorKind | None:
    """Return the kind of an error that a GPU raised, or None if it says nothing about the GPU.

    An index that is out of range is None: its assertion fails on every GPU.

    Example:
        >>> classify_gpu_error(RuntimeError("CUDA error: uncorrectable ECC error encountered"))
        'broken'
        >>> classify_gpu_error(RuntimeError("CUDA error: device-side assert triggered"))
    """
    text = str(error)
    if not isinstance(error, _TYPES) or not _GPU.search(text) or _OWN.search(text):
        return None
    if not _NO_MEMORY.search(text):
        return "broken"
    needed, allowed = parse_memory(text)
    return "too large" if allowed and needed >= _ROUNDING * allowed else "crowded"


def parse_memory(text: str) -> tuple[int, int]:
    """Return the bytes that a process needed and those that it was allowed, from torch's text on a lack of memory.

    Both are 0 if the text has no limit: then something other than torch's allocator had no memory.

    Example:
        >>> text = "CUDA out of memory. Tried to allocate 2.00 GiB. (...) this process has 7.10 GiB memory in use. "
        >>> text += "8.00 GiB allowed; Of the allocated memory 6.50 GiB is allocated by PyTorch, and 512.00 MiB is "
        >>> parse_memory(text + "reserved by PyTorch but unallocated.")
        (9663676416, 8589934592)
    """
    found = _OVERDRAWN.search(text)
    if found is None:
        return 0, 0
    tried, allowed, allocated, reserved = (int(float(found[n]) * _UNITS[found[n + 1]]) for n in (1, 3, 5, 7))
    return tried + allocated + reserved, allowed
