"""The machine and its processes: identity, number of cores, threads, and processes that have ended."""

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
    """Return 8 hexadecimal digits that identify this machine, its boot and its process namespace.

    Within one such namespace a process id names one process. The result is a hash, so that the name of the machine
    stays private.
    """
    address, boot = uuid.getnode(), _read_text("/proc/sys/kernel/random/boot_id")
    hardware = str(address)
    if address >> 40 & 1:  # no network card: uuid drew a random address for this process
        identity = _read_text("/etc/machine-id")
        hardware = identity if boot or identity else hardware
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:  # this system has no /proc
        namespace = ""
    facts = [platform.node(), hardware, boot, namespace]
    return hashlib.sha256("\n".join(fact for fact in facts if fact).encode()).hexdigest()[:8]


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:  # this system does not have the file
        return ""


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def block_sigint() -> Iterator[None]:
    """Block SIGINT, so that processes started inside the block ignore Ctrl-C from the beginning.

    Only the parent process handles Ctrl-C.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def exit_with_parent() -> None:
    """End this worker process as soon as its parent process ends.

    Without this, a worker would wait forever after its parent was killed.
    """

    def watch() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def has_exited(machine_id: str, pid: int) -> bool:
    """Return whether a process is known to have ended; always False for a process of another machine."""
    if machine_id != get_machine_id():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    state = _read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return state[:1] == ["Z"]  # a zombie: its parent has not yet collected its status


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Run torch on one thread inside the block.

    The rounding of a sum depends on how many threads share it. With one thread it does not depend on the machine.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
