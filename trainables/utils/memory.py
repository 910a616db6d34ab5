"""Memory that a process frees: kept for what it allocates next."""

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of the GNU C library
_KEPT = 1 << 30
"""Bytes of an allocation that comes from kept memory at most, and bytes that are kept at the end of the heap."""
_OLD_LIMIT = 32 << 20
"""The largest threshold of versions of the library before 2.35."""


def keep_freed_memory() -> bool:
    """Let the C library keep freed memory instead of giving it back to the system.

    A step of training frees hundreds of megabytes and allocates them again. By default each large tensor is a mapping
    of its own, whose pages the system fills with zeros whenever it is allocated.

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
