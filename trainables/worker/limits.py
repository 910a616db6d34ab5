"""Limits on one step of a trial: its duration, the memory of its process, and its share of a GPU's memory."""

import faulthandler
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainables.utils.base_settings import Settings
from trainables.utils.errors import UserError
from trainables.worker.crash_report import format_header

GPU_MEMORY_SHARE = 0.95
"""What torch may allocate of a trial's share of a GPU's memory. The rest is for what CUDA itself needs."""


class StepLimits(Settings):
    """Limits on each step of a trial."""

    gpu: float | None = None
    """Share of a GPU. Torch may allocate `GPU_MEMORY_SHARE` of this share of its memory. If None, there is no GPU."""
    minutes: float | None = None
    """Minutes after which a step ends its process. If None, there is no limit."""
    memory: int | None = None
    """Bytes of the process beyond which allocations fail, without mapped files. If None, there is no limit."""
    crash_report: Path | None = None
    """File for the crash report; it exists during a step, and afterwards if the process ended within the step.

    If None, no report is written and `minutes` has no effect. See `trainables.worker.crash_report`.
    """


def check_memory_limit(memory: str | None) -> None:
    """Check that this system can enforce the setting `trial.memory`.

    Raises:
        UserError: the system is not Linux; only Linux counts all allocations of a process against RLIMIT_DATA.
    """
    if memory is not None and sys.platform != "linux":
        raise UserError("trial.memory", memory, "none: only Linux can limit the memory of a process")


class StepLimitEnforcer:
    """Enforces the limits of one trial, step by step."""

    def __init__(self, limits: StepLimits) -> None:
        self._limits = limits

    @contextmanager
    def enforce(self) -> Iterator[None]:
        """Enforce the limits during the block: one step, in the thread that executes it.

        After the block, the process has its earlier limits again.
        """
        if self._limits.gpu is not None:
            _limit_gpu_memory(self._limits.gpu)
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
                faulthandler.enable(all_threads=False)  # to stderr again, as Ray sets it up
        path.unlink(missing_ok=True)

    def reset_timer(self) -> None:
        """Restart the timer of the step, because time spent waiting for another trial does not count."""
        if self._limits.minutes is not None and self._limits.crash_report is not None:
            faulthandler.dump_traceback_later(60 * self._limits.minutes, exit=True, file=self._file)


def _limit_gpu_memory(share: float) -> None:
    """Limit the memory that torch allocates on the GPU, and let it grow what it has instead of adding pieces."""
    if not {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"} & os.environ.keys():
        os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"  # read when torch first allocates
    import torch

    torch.cuda.set_per_process_memory_fraction(GPU_MEMORY_SHARE * share)


def empty_gpu_cache() -> None:
    """Give the GPU's memory that torch keeps for later back, if this process uses a GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        with suppress(RuntimeError):  # the GPU has failed, and with it this process
            torch.cuda.empty_cache()


@contextmanager
def _limit_memory(limit: int | None) -> Iterator[None]:
    """Limit the memory that the process may allocate during the block, in bytes.

    RLIMIT_DATA counts private writable address space, used or not. What threads and allocators have reserved so far,
    often more than a gigabyte, is therefore added to the limit.
    """
    if limit is None:
        yield
        return
    import resource  # not on every system

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    total = limit + _count_reserved_bytes()
    resource.setrlimit(resource.RLIMIT_DATA, (total if hard == resource.RLIM_INFINITY else min(total, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _count_reserved_bytes() -> int:
    """Return the bytes that count against RLIMIT_DATA but are not in use."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = {
        name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines) if "kB" in value
    }
    return 1024 * max(0, kilobytes["VmData"] - kilobytes["RssAnon"])
