"""How a command ends when it is asked to: by Ctrl-C, by SIGTERM (kill, Slurm, containers), by SIGHUP (a lost terminal).

The first signal unwinds the command as an exception does. A second one, or a command that has not unwound after a few
seconds, ends at once, and so does every process that it has started. Either way there is one line, and status 1.
"""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE = 8.0
"""Seconds to unwind. Containers are killed 10 seconds after SIGTERM, jobs of Slurm after 30."""


class _State:
    """Of this process's command; there is one."""

    command = ""
    signal = ""
    running = False
    unwinding = False
    exit_status: int | None = None
    reported = False
    stderr_fd = 2


_state = _State()


def handle_signals(command: str) -> None:
    """Answers signals from here on; before `run`, that nothing was started. What is ignored (nohup) stays ignored.

    Args:
        command: its name, for the line.
    """
    _state.command, _state.stderr_fd = command, os.dup(2)  # Ray's start is kept off the standard error
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _on_signal)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    threading.Thread(target=_watch_signals, args=(read_end,), daemon=True).start()


def run_command(main: Callable[[], int]) -> NoReturn:
    """Calls a command's `main` and ends the process with the status that it returns."""
    _state.running = True
    try:
        _state.exit_status = main()
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, Exception) and not is_interrupted():
            raise
        report_interruption(_state.command, "run the same command again")
        _state.exit_status = 1
    if is_interrupted():
        with suppress(OSError):
            sys.stdout.flush()
        _kill_all_and_exit(_state.exit_status)  # whatever would still be done at the end of the interpreter might wait
    sys.exit(_state.exit_status)


def is_interrupted() -> str:
    """By what, if a signal has asked this command to end. Libraries turn the exception into others."""
    return _describe_signal() if _state.signal else ""


def report_interruption(command: str, advice: str) -> None:
    """Says that a command was interrupted, and the rest."""
    from trainables.utils.cli import print_escaped  # signals are answered before anything else is imported

    _state.reported = True
    with suppress(OSError):  # the terminal is gone
        print_escaped(
            f"{_line_prefix(sys.stderr.isatty())}{command}: {_describe_signal()}; {advice}", sys.stderr, flush=True
        )


def abort_command(message: str) -> NoReturn:
    """Ends this process and all that it has started, from any thread, with a line and status 1."""
    if not _state.reported:
        with suppress(OSError):
            os.write(
                _state.stderr_fd, f"{_line_prefix(os.isatty(_state.stderr_fd))}{_state.command}: {message}\n".encode()
            )
    _kill_all_and_exit(1)


@contextmanager
def keep_signal_handlers() -> Iterator[None]:
    """For Ray's start: it takes SIGTERM for itself, and exits."""
    before = {number: answer for number in _SIGNALS if (answer := signal.getsignal(number)) is not None}
    try:
        yield
    except SystemExit as error:
        if error.code != signal.SIGTERM:
            raise
        if callable(answer := before.get(signal.SIGTERM)):
            answer(signal.SIGTERM, None)
        raise KeyboardInterrupt from None
    finally:
        for number, answer in before.items():
            signal.signal(number, answer)


def _on_signal(number: int, frame: FrameType | None) -> None:
    """The handler. It runs in the main thread, which may be busy outside Python."""
    _state.signal = _state.signal or signal.Signals(number).name
    if _state.exit_status is not None:
        _kill_all_and_exit(_state.exit_status)
    if not _state.running:
        abort_command(f"{_describe_signal()}; nothing was started")
    if not _state.unwinding:
        _state.unwinding = True
        raise KeyboardInterrupt


def _watch_signals(read_end: int) -> None:
    """In a thread of its own: ends the command some seconds after the first signal, or with the second one."""
    while (number := os.read(read_end, 1)[0]) not in _SIGNALS:
        continue
    _state.signal = _state.signal or signal.Signals(number).name
    select.select([read_end], [], [], _GRACE)
    if _state.exit_status is not None:
        _kill_all_and_exit(_state.exit_status)
    abort_command(f"{_describe_signal()}; what was finished is safe; run the same command again")


def _describe_signal() -> str:
    return f"interrupted by {_state.signal}" if _state.signal not in ("", "SIGINT") else "interrupted"


def _line_prefix(is_terminal: bool) -> str:
    """A terminal shows ^C first."""
    return "\n" if is_terminal else ""


def _kill_all_and_exit(status: int) -> NoReturn:
    for process in _list_descendants():
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    os._exit(status)


def _list_descendants() -> list[int]:
    """Of this process, parents first; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return found[1:]
