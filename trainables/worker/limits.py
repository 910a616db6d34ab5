"""What one step of a trial may take: minutes, and memory of its process."""

import faulthandler
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainables.utils.errors import UserError
from trainables.utils.settings import Settings
from trainables.worker.crash_report import format_header


class StepLimits(Settings):
    """The limits of a trial's steps."""

    minutes: float | None = None
    """A step that takes longer ends its process; none: no limit."""
    memory: int | None = None
    """Bytes of the process beyond which allocations fail, mapped files left out; none: no limit."""
    crash_report: Path | None = None
    """File that is there during a step, and says how a process ended that did not end it; none: nobody wants to know.
    See `trainables.worker.crash_report`."""


def check_memory_limit(memory: str | None) -> None:
    """Refuses a limit that this system cannot keep.

    Raises:
        UserError: only Linux counts what a process allocates against RLIMIT_DATA.
    """
    if memory is not None and sys.platform != "linux":
        raise UserError("trial.memory", memory, "none, since this system does not limit a process's memory")


class StepLimitEnforcer:
    """Keeps the limits of one trial, step by step."""

    def __init__(self, limits: StepLimits) -> None:
        self._limits = limits

    @contextmanager
    def enforce(self) -> Iterator[None]:
        """For the block, which is one step, in the thread that makes it. Afterwards the process is as it was."""
        with _limit_memory(self._limits.memory):
            if self._limits.crash_report is None:
                yield
            else:
                with self._enable_faulthandler(self._limits.crash_report):
                    yield

    @contextmanager
    def _enable_faulthandler(self, path: Path) -> Iterator[None]:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", encoding="utf-8") as self._file:
            self._file.write(format_header(threading.get_ident()))
            self._file.flush()
            faulthandler.enable(self._file)
            self.reset_timer()
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()
                faulthandler.enable(all_threads=False)  # to stderr again, as Ray has it
        path.unlink(missing_ok=True)

    def reset_timer(self) -> None:
        """Starts the step's clock anew: it had to wait for another trial, which is not its fault."""
        if self._limits.minutes is not None and self._limits.crash_report is not None:
            faulthandler.dump_traceback_later(60 * self._limits.minutes, exit=True, file=self._file)


@contextmanager
def _limit_memory(limit: int | None) -> Iterator[None]:
    """RLIMIT_DATA counts address space that is private and writable, whether used or not: what threads and allocators
    have reserved so far, often more than a gigabyte, comes on top of the limit."""
    if limit is None:
        yield
        return
    import resource  # not on every system

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = limit + _count_reserved_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _count_reserved_bytes() -> int:
    """Bytes that count against RLIMIT_DATA and are not in use."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = {
        name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines) if "kB" in value
    }
    return 1024 * max(0, kilobytes["VmData"] - kilobytes["RssAnon"])
