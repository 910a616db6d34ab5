"""Limits of a step: real processes that hang, crash and allocate, and what is left of the limits afterwards."""

import faulthandler
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainables.worker.crash_report import parse_crash_report, to_relative_path
from trainables.worker.limits import StepLimitEnforcer, StepLimits, empty_gpu_cache

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
STEP = """
import ctypes, sys, time
from pathlib import Path
from trainables.worker.limits import StepLimits, StepLimitEnforcer
limits = StepLimits(minutes=float(sys.argv[2]) / 60, crash_report=Path(sys.argv[1]))
guard = StepLimitEnforcer(limits)
def inner():
    {inner}
def outer():
    with guard.enforce():
        inner()
outer()
print("ended")
"""


def step(inner: str, folder: Path, seconds: float = 0.5) -> "tuple[subprocess.CompletedProcess[str], Path]":
    """A process that makes one step, and the file of its last words."""
    words, script = folder / "runs" / "id" / "last-words.txt", folder / "step.py"
    script.write_text(STEP.format(inner=inner))
    command = [sys.executable, str(script), str(words), str(seconds)]
    path = {"PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run(command, capture_output=True, text=True, env=path, timeout=60, check=False), words


@pytest.mark.parametrize("inner", ["ctypes.PyDLL(None).pause()", "time.sleep(1000)", "while True: pass"])
def test_a_hang_ends_the_process_and_says_where(tmp_path: Path, inner: str) -> None:
    """The first holds the interpreter's lock in C for ever."""
    ended, file = step(inner, tmp_path)
    words = parse_crash_report(file.read_text())
    assert ended.returncode == 1
    assert words.fault is None
    assert words.location == "step.py:8 in inner"


def test_a_crash_says_what_and_where(tmp_path: Path) -> None:
    ended, file = step("ctypes.string_at(0)", tmp_path, seconds=60)
    words = parse_crash_report(file.read_text())
    assert ended.returncode == -signal.SIGSEGV
    assert words.fault == "Segmentation fault"
    assert words.location.startswith("ctypes/__init__.py:")


def test_a_killed_process_says_nothing(tmp_path: Path) -> None:
    ended, file = step("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", tmp_path, seconds=60)
    assert ended.returncode == -signal.SIGKILL
    assert parse_crash_report(file.read_text()) is None


def test_a_step_that_ends_in_time_leaves_nothing(tmp_path: Path) -> None:
    ended, file = step("time.sleep(0.1)", tmp_path)
    assert ended.stdout == "ended\n", ended.stderr
    assert list(file.parent.iterdir()) == []


def test_time_spent_waiting_for_another_run_does_not_count(tmp_path: Path) -> None:
    ended, _ = step("for _ in range(6): time.sleep(0.25); guard.reset_timer()", tmp_path, seconds=1)
    assert ended.stdout == "ended\n", ended.stderr


def test_the_step_of_another_thread_is_found_by_its_number() -> None:
    """The frame of this project that led to the hang is named next to the innermost."""
    text = """0x00000000000000ab
Timeout (0:00:01)!
Thread 0x00000000000000cd (most recent call first):
  File "/home/jane/lib/python3.11/threading.py", line 1 in wait

Thread 0x00000000000000ab (most recent call first):
  File "/home/jane/venv/lib/python3.11/site-packages/torch/_ops.py", line 5 in call
  File "{root}/trainables/training/trainer.py", line 7 in train
  File "{root}/trainables/training/runner.py", line 9 in advance
"""
    words = parse_crash_report(text.format(root=Path(__file__).parents[3]))
    assert words.location == "torch/_ops.py:5 in call, called from trainables/training/trainer.py:7 in train"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (str(Path(__file__)), "tests/trainables/worker/test_limits.py"),
        ("/home/jane/venv/lib/python3.11/site-packages/ray/tune/tuner.py", "ray/tune/tuner.py"),
        ("/home/jane/python/lib/python3.11/threading.py", "threading.py"),
        ("/home/jane/secret/hook.py", "hook.py"),
    ],
)
def test_a_path_loses_what_belongs_to_the_machine(path: str, expected: str) -> None:
    assert to_relative_path(path) == expected


ALLOCATE = """
import resource
from trainables.worker.limits import StepLimits, StepLimitEnforcer
import numpy as np, torch
before = resource.getrlimit(resource.RLIMIT_DATA)
for more in (lambda: bytearray(2**24), lambda: np.ones(2**21), lambda: torch.ones(2**22)):
    kept = []
    try:
        with StepLimitEnforcer(StepLimits(memory=6 * 10**8)).enforce():
            while len(kept) < 100:
                kept.append(more())
    except Exception as error:
        print(len(kept) * 2**24, type(error).__name__, str(error).replace(chr(10), " "))
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    kept += [more() for _ in range(20)]
"""


@linux
def test_beyond_the_limit_an_allocation_fails_and_afterwards_it_does_not() -> None:
    """Python's own, numpy's and torch's, one after the other in the same process."""
    path = {"PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", ALLOCATE]
    found = subprocess.run(command, capture_output=True, text=True, env=path, timeout=200, check=True).stdout
    lines = found.splitlines()
    assert len(lines) == 3
    for line, told in zip(lines, ("MemoryError", "MemoryError", "RuntimeError"), strict=True):
        allocated, name, *_ = line.split()
        assert 0.2e9 < int(allocated) < 0.6e9  # the rest is what the process had before
        assert name.endswith(told)
    assert "can't allocate memory" in lines[2]


def test_without_limits_nothing_is_watched() -> None:
    with StepLimitEnforcer(StepLimits()).enforce():
        assert faulthandler.is_enabled()
        time.sleep(0)


def test_a_trial_on_a_gpu_gets_its_share_of_the_memory_in_pieces_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.setenv(name, "")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    shares = list[float]()
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", shares.append)
    with StepLimitEnforcer(StepLimits(gpu=0.25)).enforce():
        assert shares == [pytest.approx(0.25 * 0.95)]
        assert os.environ["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    with StepLimitEnforcer(StepLimits()).enforce():
        assert len(shares) == 1


def test_a_users_settings_of_the_allocator_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
    monkeypatch.setattr("torch.cuda.set_per_process_memory_fraction", lambda share: None)
    with StepLimitEnforcer(StepLimits(gpu=0.25)).enforce():
        assert "PYTORCH_ALLOC_CONF" not in os.environ


def test_the_memory_that_torch_keeps_on_a_gpu_goes_back_also_from_one_that_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emptied = list[int]()

    def fail() -> None:
        emptied.append(1)
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr("torch.cuda.empty_cache", fail)
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: False)
    empty_gpu_cache()
    assert emptied == []
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    empty_gpu_cache()
    assert emptied == [1]
