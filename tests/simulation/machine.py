"""A clock, a disk that forgets what was not synced, and processes that end at any operation of theirs."""

import builtins
import errno
import io
import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from greenlet import getcurrent, greenlet

from trainables.storage import leases
from trainables.utils import files

_EPOCH = 1_700_000_000.0
_LATEST = 1e7
_MOMENT = 5.0
_FIRST_PROCESS = 10_000_000
_WRITING = os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND


class Killed(BaseException):
    """The process of the caller is gone; nothing that it does from here on has an effect."""


class Fault(NamedTuple):
    """Something that happens at an operation of a driver.

    Attributes:
        kind: kill, power (all is lost that was not synced), signal, full (the disk, until the start ends), io (this
            operation alone), clock (a jump of `size` seconds), or second (another driver starts).
        at: number of the operation, over all starts.
        size: seconds of a jump, or the seed of what a power cut loses; if that is 0, all that was not synced.
    """

    kind: str
    at: int
    size: int = 0


class Process:
    """A process of the machine, which goes on where it was left.

    Args:
        pid: its number.
        main: what it does.
        hub: what goes on when the process gives way.
    """

    def __init__(self, pid: int, main: Callable[[], None], hub: greenlet) -> None:
        self.pid, self.is_killed, self.is_full = pid, False, False
        self.thread = greenlet(main, hub)


class Background(Protocol):
    """Something that works while time passes, until it is told to die."""

    def work(self) -> None:
        """Do a part of it."""

    def die(self) -> None:
        """Do nothing from here on."""


class Machine:
    """The machine of one schedule.

    Args:
        root: folder of its disk. Operations elsewhere are not its own.
        faults: what happens at which operation.
        seed: draws when another process goes on.

    Attributes:
        background: what others do while time passes.
        spawn_second: starts another process, see `Fault`.
        running: the process that has its turn.
        n_happened: faults so far.
        n_errors: those of them that may stop a driver with an error.
        unreadable: files that cannot be read until they are written again.
        taken: leases that a process took while the holder was alive.
    """

    def __init__(self, root: Path, faults: tuple[Fault, ...] = (), seed: int = 0) -> None:
        self.root, self.now, self.n_operations, self.n_happened, self.n_errors = root, 1000.0, 0, 0, 0
        self.background = list[Background]()
        self.spawn_second: Callable[[], None] = lambda: None
        self.running: Process | None = None
        self._prefix, self._due, self._draw = f"{root}/", {fault.at: fault for fault in faults}, random.Random(seed)
        self._loses_power = any(fault.kind == "power" for fault in faults)
        self._processes, self._n_processes = list[Process](), 0
        self._undo: dict[str, list[Callable[[], None]]] = {}  # by folder, how a power cut undoes what is not synced
        self._unsynced: set[str] = set()  # files with content that is not synced
        self._descriptors: dict[int, str] = {}
        self._holders: dict[str, Process] = {}  # by lease
        self.taken, self.unreadable = list[str](), set[str]()
        self._hub, self._thread = getcurrent(), threading.get_ident()
        self._is_own = False  # True while the machine itself works on the disk

    def spawn(self, main: Callable[[], None]) -> None:
        """Start a process."""
        self._n_processes += 1
        self._processes.append(Process(_FIRST_PROCESS + self._n_processes, main, self._hub))

    def run(self) -> None:
        """Run the processes until all have ended."""
        with self._take_over():
            while self._processes:
                self.running = self._draw.choice(self._processes)
                self.running.thread.switch()
                self._processes = [each for each in self._processes if not each.thread.dead]
                self.running = None

    @contextmanager
    def stand_aside(self) -> Iterator[None]:
        """Count no operation of the block, which another machine carries out."""
        before, self._is_own = self._is_own, True
        try:
            yield
        finally:
            self._is_own = before

    def has_exited(self, machine_id: str, pid: int) -> bool:
        """Return whether a process has ended."""
        return pid > _FIRST_PROCESS and all(each.is_killed or each.pid != pid for each in self._processes)

    @contextmanager
    def run_as(self, process: Process) -> Iterator[None]:
        """Carry out the operations of the block as those of another process."""
        before, self.running = self.running, process
        try:
            yield
        finally:
            self.running = before

    def spend(self, seconds: float) -> None:
        """Let time pass, and others work.

        Raises:
            Killed: the process has ended before.
        """
        if self.running and self.running.is_killed:
            raise Killed
        self.now += max(0.0, seconds)
        if self.now > _LATEST:
            raise TimeoutError("the processes wait for ever")
        for each in [*self.background]:
            each.work()
        self._give_way(0.5)

    def operate(self, path: object, writes: bool = True) -> str | None:
        """Count an operation of the running process, and let happen what is due.

        Returns:
            The path if it is on the machine's disk, otherwise None.

        Raises:
            Killed: the process ends here, or has ended before.
            KeyboardInterrupt: a signal has arrived.
            OSError: the operation fails.
        """
        if self._is_own or self._thread != threading.get_ident():
            return None
        name = _get_name(path)
        if not name.startswith(self._prefix):
            return None
        self._give_way(0.1)
        process = self.running
        if process is None or process.is_killed:
            raise Killed
        self.n_operations += 1
        fault = self._due.pop(self.n_operations, None)
        if fault is not None:
            self.n_happened += 1
            self.n_errors += fault.kind in ("full", "io")
            self._happen(process, fault, name)
        if process.is_full and writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
        return name

    def _give_way(self, chance: float) -> None:
        """Let another process go on, with some chance."""
        if len(self._processes) > 1 and self.running and self._draw.random() < chance:
            self._hub.switch()

    def _happen(self, process: Process, fault: Fault, name: str) -> None:
        match fault.kind:
            case "kill":
                process.is_killed = True
                raise Killed
            case "power":
                for each in self._processes:
                    each.is_killed = True
                for other in [*self.background]:
                    other.die()
                with self.stand_aside():
                    self._lose_unsynced(random.Random(fault.size), loses_all=not fault.size)
                raise Killed
            case "signal":
                raise KeyboardInterrupt
            case "full":
                process.is_full = True
            case "io":
                raise OSError(errno.EIO, os.strerror(errno.EIO), name)
            case "slow":
                end = self.now + fault.size
                while self.now < end:
                    self.spend(_MOMENT)
            case "clock":
                self.now += fault.size
            case "second":
                self.spawn_second()

    def _lose_unsynced(self, draw: random.Random, loses_all: bool) -> None:
        """Undo the last of each folder's changes that were not synced, and tear files with content that was not."""
        for undo in self._undo.values():
            for each in reversed(undo[0 if loses_all else draw.randint(0, len(undo)) :]):
                with suppress(OSError):
                    each()
        for name in sorted(self._unsynced):
            with suppress(OSError):
                if loses_all or draw.random() < 0.5:
                    os.truncate(name, os.path.getsize(name) // 2)
        self._undo.clear()
        self._unsynced.clear()

    def _hold(self, lease: str) -> None:
        """Note that the running process holds a lease."""
        assert self.running
        if (holder := self._holders.get(lease)) and holder in self._processes and not holder.is_killed:
            self.taken.append(os.path.basename(lease))
        self._holders[lease] = self.running

    def _note(self, name: str, undo: Callable[[], None]) -> None:
        if self._loses_power:
            self._undo.setdefault(os.path.dirname(name), []).append(undo)

    @contextmanager
    def _take_over(self) -> Iterator[None]:
        """Replace the functions of the system by those of the machine."""
        real = {
            (owner, name): getattr(owner, name)
            for owner, name in [
                *((os, name) for name in ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link", "utime")),
                *((os, name) for name in ("fsync", "open", "close", "getpid")),
                *((time, name) for name in ("monotonic", "time", "sleep")),
                *((owner, "has_exited") for owner in (files, leases)),
                (io, "open"),
                (builtins, "open"),
            ]
        }
        own = self._make_functions({name: function for (owner, name), function in real.items() if owner is os}, io.open)
        for (owner, name), function in real.items():
            setattr(owner, name, own.get(f"{owner.__name__}.{name}", own.get(name, function)))
        try:
            yield
        finally:
            for (owner, name), function in real.items():
                setattr(owner, name, function)

    def _make_functions(self, real: dict[str, Any], real_open: Any) -> dict[str, Any]:
        def read(name: str) -> bytes | None:
            if not self._loses_power:  # nobody restores it
                return None
            with suppress(OSError), real_open(name, "rb") as stream:
                return bytes(stream.read())
            return None

        def restore(name: str, content: bytes | None) -> None:
            if content is None:
                real["unlink"](name)
            else:
                with real_open(name, "wb") as stream:
                    stream.write(content)

        def replace(source: Any, target: Any, **more: Any) -> None:
            origin = _get_name(source)
            if self._holders.get(origin) is self.running:  # it gives the lease back
                del self._holders[origin]
            name = self.operate(target)
            if name is None or os.path.isdir(source):
                real["rename"](source, target, **more)
                if name is not None:
                    self._note(name, lambda: shutil.rmtree(name))
                return
            before = read(name)
            self.unreadable.discard(name)
            real["replace"](source, target, **more)
            if origin in self._unsynced:
                self._unsynced.discard(origin)
                self._unsynced.add(name)
            else:
                self._unsynced.discard(name)
            self._note(name, lambda: restore(name, before))

        def unlink(path: Any, **more: Any) -> None:
            name = self.operate(path, writes=False)
            before = None if name is None else read(name)
            real["unlink"](path, **more)
            if name is not None:
                self._unsynced.discard(name)
                if before is not None:
                    self._note(name, lambda: restore(name, before))

        def mkdir(path: Any, *mode: Any, **more: Any) -> None:
            name = self.operate(path)
            real["mkdir"](path, *mode, **more)
            if name is not None:
                self._note(name, lambda: shutil.rmtree(name))

        def simple(function: str) -> Any:
            def call(path: Any, *given: Any, **more: Any) -> Any:
                self.operate(path, writes=False)
                return real[function](path, *given, **more)

            return call

        def create(name: str) -> None:
            if not os.path.lexists(name):
                self._note(name, lambda: real["unlink"](name))
            self._unsynced.add(name)

        def open_descriptor(path: Any, flags: int, *mode: Any, **more: Any) -> int:
            if flags & _WRITING and (name := self.operate(path)):
                create(name)
            descriptor: int = real["open"](path, flags, *mode, **more)
            opened = _get_name(path)
            if flags & os.O_EXCL and opened.endswith(".claim"):
                self._hold(opened)
            if opened.startswith(self._prefix[:-1]):
                self._descriptors[descriptor] = opened
            return descriptor

        def fsync(descriptor: int) -> None:
            name = self._descriptors.get(descriptor)
            if name is not None and self.operate(f"{name}/") is not None:
                self._unsynced.discard(name)
                self._undo.pop(name, None)

        def close(descriptor: int) -> None:
            self._descriptors.pop(descriptor, None)
            real["close"](descriptor)

        def open_file(file: Any, mode: str = "r", *given: Any, **more: Any) -> Any:
            writes = mode not in ("r", "rb")
            name = self.operate(file, writes)
            if name and writes:
                create(name)
            if name in self.unreadable:
                raise OSError(errno.EIO, os.strerror(errno.EIO), name)
            return real_open(file, mode, *given, **more)

        return {
            **dict.fromkeys(("replace", "rename"), replace),
            **dict.fromkeys(("unlink", "remove"), unlink),
            **{name: simple(name) for name in ("rmdir", "link", "utime")},
            "mkdir": mkdir,
            "fsync": fsync,
            "close": close,
            "os.open": open_descriptor,
            "io.open": open_file,
            "builtins.open": open_file,
            "getpid": lambda: self.running.pid if self.running else _FIRST_PROCESS,
            "monotonic": lambda: self.now,
            "time": lambda: _EPOCH + self.now,
            "sleep": self.spend,
            "has_exited": self.has_exited,
        }


def _get_name(path: object) -> str:
    """Return a path as text; empty for a file descriptor and the paths of other libraries that are bytes."""
    name = path if isinstance(path, str) else getattr(path, "__fspath__", str)()
    return name if isinstance(name, str) else ""
