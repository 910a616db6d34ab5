"""Settings of a process that trains or scores: torch computes the same bits every time, and freed memory is kept."""

import ctypes
import os
import platform

import torch

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library
_KEPT = 1 << 30
"""Bytes of an allocation that comes from kept memory at most, and bytes that are kept at the end of the heap."""
_OLD_LIMIT = 32 << 20
"""The largest threshold of versions of the library before 2.35."""


def prepare_process(threads: int) -> None:
    """Make torch compute the same bits every time, and keep the memory of freed tensors for the next ones.

    Torch computes with this number of threads, and without kernels that add in an undefined order.
    """
    # Read when CUDA starts; needed for deterministic matrix products.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # Deterministic algorithms also fill every new tensor by default. No tensor is read before it is written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    keep_freed_memory()


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory instead of giving it back to the system.

    A step of training frees hundreds of megabytes and allocates them again. By default each large tensor is a
    separate mapping, and the system fills its pages with zeros whenever it is allocated.

    Returns:
        Whether it is kept: the library is GNU's.

    Example:
        >>> import platform
        >>> keep_freed_memory() == (platform.libc_ver()[0] == "glibc")
        True
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    set_option = ctypes.CDLL(None).mallopt
    is_set = set_option(_M_MMAP_THRESHOLD, _KEPT) or set_option(_M_MMAP_THRESHOLD, _OLD_LIMIT)
    return bool(is_set and set_option(_M_TRIM_THRESHOLD, _KEPT))
