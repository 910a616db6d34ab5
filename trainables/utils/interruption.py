"""Handling of the signals that end a command: SIGINT, SIGTERM and SIGHUP.

SIGINT comes from Ctrl-C, SIGTERM from kill, Slurm or containers, SIGHUP from a lost terminal. The first signal raises
an exception that unwinds the command. The command ends at once, with every process that it has started, if a second
signal arrives or if it has not unwound after a few seconds. It prints one line and exits with status 1.
"""

import importlib.util
import os
import runpy
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BASE = ("pydantic", "pandas", "pyarrow", "scipy")
_PACKAGES = {"": _BASE, "train": (*_BASE, "torch", "transformers", "ray", "optuna", "wandb")}
"""Packages by which an installation of the project, and of its extra, is known."""
_GRACE = 8.0
"""Seconds to unwind. Containers are killed 10 seconds after SIGTERM, Slurm jobs after 30."""


class _State:
    """State of the command that this process runs; there is only one."""

    command = ""
    signal = ""
    running = False
    unwinding = False
    exit_status: int | None = None
    reported = False
    stderr_fd = 2
    folder: Path | None = None


_state = _State()


def run_script(script: str, module: str) -> None:
    """Run a module as `python -m` does, as the console script of this name."""
    _state.command = script
    runpy.run_module(module, run_name="__main__")


def get_program_name(module: str) -> str:
    """Return the name of the command that this process runs: a console script, or the module itself."""
    return _state.command or module


def describe_missing_package(extra: str = "") -> str:
    """Return what is not installed and how to install it, in one line; "" if the project, and the extra, is installed.

    Args:
        extra: "train", or "" for the analysis alone.
    """
    missing = [name for name in _PACKAGES[extra] if importlib.util.find_spec(name) is None]
    if not missing:
        return ""
    install = f'pip install ".[{extra}]"' if extra else "pip install ."
    expected = f"the environment of the project: source .venv/bin/activate, or {install}"
    return f"{sys.executable} has no package {missing[0]}; expected {expected}"


def start_command(command: str, extra: str = "") -> None:
    """Install the signal handlers of a command, once it is sure that its packages are installed.

    Before `run_command`, a signal ends the process with the message that nothing was started. Signals that are ignored
    (as under nohup) stay ignored. Without the packages, the process ends with status 2.

    Args:
        command: module of the command, for the message.
        extra: "train" if the command needs this extra.
    """
    command = get_program_name(command)
    if missing := describe_missing_package(extra):
        sys.stderr.write(f"{command}: {missing}\n")
        sys.exit(2)
    _state.command, _state.stderr_fd = command, os.dup(2)  # a copy, since stderr is redirected while Ray starts
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _on_signal)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    threading.Thread(target=_watch_signals, args=(read_end,), daemon=True).start()


def run_command(main: Callable[[], int]) -> NoReturn:
    """Call `main` and end the process with the status that it returns, or with 1 after a signal."""
    _state.running = True
    try:
        _state.exit_status = main()
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, Exception) and not is_interrupted():
            raise
        report_interruption(_state.command, "rerun the same command")
        _state.exit_status = 1
    if is_interrupted():
        with suppress(OSError):
            sys.stdout.flush()
        _kill_all_and_exit(_state.exit_status)  # the normal shutdown of the interpreter might block
    sys.exit(_state.exit_status)


def is_interrupted() -> str:
    """Return "interrupted", with the signal unless it is SIGINT, if a signal has arrived; otherwise "".

    An except clause does not suffice: libraries turn the exception of the signal into others.
    """
    return _describe_signal() if _state.signal else ""


def report_interruption(command: str, advice: str) -> None:
    """Print that the command was interrupted, followed by the advice, which has no control characters."""
    _state.reported = True
    with suppress(OSError):  # the terminal may be gone
        sys.stderr.write(f"{_line_prefix(sys.stderr.isatty())}{command}: {_describe_signal()}; {advice}\n")
        sys.stderr.flush()


def remove_when_killed(folder: Path) -> None:
    """Remove a folder of child processes if this command ends by a signal, once they are killed and write no more."""
    _state.folder = folder


def abort_command(message: str) -> NoReturn:
    """End this process and all processes that it started, with a message and status 1.

    Any thread may call it. No message is printed if `report_interruption` has already printed one.
    """
    if not _state.reported:
        with suppress(OSError):
            prefix = _line_prefix(os.isatty(_state.stderr_fd))
            os.write(_state.stderr_fd, f"{prefix}{_state.command}: {message}\n".encode())
    _kill_all_and_exit(1)


@contextmanager
def keep_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers after the block, which may replace them.

    Used while Ray starts: Ray installs its own handler of SIGTERM, which exits the process.
    """
    before = {number: handler for number in _SIGNALS if (handler := signal.getsignal(number)) is not None}
    try:
        yield
    except SystemExit as error:
        if error.code != signal.SIGTERM:
            raise
        if callable(handler := before.get(signal.SIGTERM)):
            handler(signal.SIGTERM, None)
        raise KeyboardInterrupt from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _on_signal(number: int, frame: FrameType | None) -> None:
    """Handle a signal in the main thread, which may be busy in native code and handle it late."""
    _state.signal = _state.signal or signal.Signals(number).name
    if _state.exit_status is not None:
        _kill_all_and_exit(_state.exit_status)
    if not _state.running:
        abort_command(f"{_describe_signal()}; nothing was started")
    if not _state.unwinding:
        _state.unwinding = True
        raise KeyboardInterrupt


def _watch_signals(read_end: int) -> None:
    """End the command a few seconds after the first signal, or at the second one.

    Runs in its own thread, so it also works while the main thread is busy in native code.
    """
    while (number := os.read(read_end, 1)[0]) not in _SIGNALS:
        continue
    _state.signal = _state.signal or signal.Signals(number).name
    select.select([read_end], [], [], _GRACE)
    if _state.exit_status is not None:
        _kill_all_and_exit(_state.exit_status)
    abort_command(f"{_describe_signal()}; finished work is kept; rerun the same command")


def _describe_signal() -> str:
    return f"interrupted by {_state.signal}" if _state.signal not in ("", "SIGINT") else "interrupted"


def _line_prefix(is_terminal: bool) -> str:
    """Return a line feed for a terminal, which shows ^C first."""
    return "\n" if is_terminal else ""


def _kill_all_and_exit(status: int) -> NoReturn:
    for process in _list_descendants():
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    if _state.folder is not None:
        shutil.rmtree(_state.folder, ignore_errors=True)
    os._exit(status)


def _list_descendants() -> list[int]:
    """Return the ids of all descendants of this process, parents first; empty if the system has no /proc."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    processes = [os.getpid()]
    for process in processes:  # the list grows while it is read
        processes += children.get(process, [])
    return processes[1:]
