"""The machine and its processes: which of them wrote a file and whether it is still at it, how many can run at once."""

import hashlib
import multiprocessing
import os
import platform
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path


@lru_cache(maxsize=1)
def machine() -> str:
    """8 hexadecimal digits for this machine, its boot and its process namespace: where a process number means one
    process. A hash, since the names of other people's machines are nobody's business."""
    address, boot = uuid.getnode(), _text("/proc/sys/kernel/random/boot_id")
    hardware = str(address)
    if address >> 40 & 1:  # there is no network card: the address was drawn for this process alone
        identity = _text("/etc/machine-id")
        hardware = identity if boot or identity else hardware
    facts = [platform.node(), hardware, boot, _namespace()]
    return hashlib.sha256("\n".join(fact for fact in facts if fact).encode()).hexdigest()[:8]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:  # not on this system
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # no /proc on this system
        return ""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def deaf() -> Iterator[None]:
    """Processes that are started inside hear no Ctrl-C, from their first moment on: it is the parent's to answer."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """For a process that works for another: it would wait for ever for one that was killed."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def gone(where: str, process: int) -> bool:
    """Whether this process is known to have ended; of another machine's nothing is known."""
    if where != machine():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _zombie(process)


def _zombie(process: int) -> bool:
    """Ended, but not yet taken note of by its parent."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state == "Z"
