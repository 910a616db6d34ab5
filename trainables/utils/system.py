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
def get_machine_id() -> str:
    """8 hexadecimal digits for this machine, its boot and its process namespace: where a process number means one
    process. A hash, since the names of other people's machines are nobody's business."""
    address, boot = uuid.getnode(), _read_text("/proc/sys/kernel/random/boot_id")
    hardware = str(address)
    if address >> 40 & 1:  # there is no network card: the address was drawn for this process alone
        identity = _read_text("/etc/machine-id")
        hardware = identity if boot or identity else hardware
    facts = [platform.node(), hardware, boot, _read_pid_namespace()]
    return hashlib.sha256("\n".join(fact for fact in facts if fact).encode()).hexdigest()[:8]


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:  # not on this system
        return ""


def _read_pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:  # no /proc on this system
        return ""


def count_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def block_sigint() -> Iterator[None]:
    """Processes that are started inside hear no Ctrl-C, from their first moment on: it is the parent's to answer."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def exit_with_parent() -> None:
    """For a process that works for another: it would wait for ever for one that was killed."""

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def has_exited(machine_id: str, pid: int) -> bool:
    """Whether this process is known to have ended; of another machine's nothing is known."""
    if machine_id != get_machine_id():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Ended, but not yet taken note of by its parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state == "Z"
