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
    status: int | None = None
    told = False
    output = 2


_state = _State()


def catch(command: str) -> None:
    """Answers signals from here on; before `run`, that nothing was started. What is ignored (nohup) stays ignored.

    Args:
        command: its name, for the line.
    """
    _state.command, _state.output = command, os.dup(2)  # Ray's start is kept off the standard error
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _answer)
    source, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(source,), daemon=True).start()


def run(main: Callable[[], int]) -> NoReturn:
    """Calls a command's `main` and ends the process with the status that it returns."""
    _state.running = True
    try:
        _state.status = main()
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, Exception) and not asked():
            raise
        report(_state.command, "run the same command again")
        _state.status = 1
    if asked():
        with suppress(OSError):
            sys.stdout.flush()
        _leave(_state.status)  # whatever would still be done at the end of the interpreter might wait
    sys.exit(_state.status)


def asked() -> str:
    """By what, if a signal has asked this command to end. Libraries turn the exception into others."""
    return _words() if _state.signal else ""


def report(command: str, rest: str) -> None:
    """Says that a command was interrupted, and the rest."""
    from trainables.utils.cli import show  # signals are answered before anything else is imported

    _state.told = True
    with suppress(OSError):  # the terminal is gone
        show(f"{_start(sys.stderr.isatty())}{command}: {_words()}; {rest}", sys.stderr, flush=True)


def end(line: str) -> NoReturn:
    """Ends this process and all that it has started, from any thread, with a line and status 1."""
    if not _state.told:
        with suppress(OSError):
            os.write(_state.output, f"{_start(os.isatty(_state.output))}{_state.command}: {line}\n".encode())
    _leave(1)


@contextmanager
def kept() -> Iterator[None]:
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


def _answer(number: int, frame: FrameType | None) -> None:
    """The handler. It runs in the main thread, which may be busy outside Python."""
    _state.signal = _state.signal or signal.Signals(number).name
    if _state.status is not None:
        _leave(_state.status)
    if not _state.running:
        end(f"{_words()}; nothing was started")
    if not _state.unwinding:
        _state.unwinding = True
        raise KeyboardInterrupt


def _watch(source: int) -> None:
    """In a thread of its own: ends the command some seconds after the first signal, or with the second one."""
    while (number := os.read(source, 1)[0]) not in _SIGNALS:
        continue
    _state.signal = _state.signal or signal.Signals(number).name
    select.select([source], [], [], _GRACE)
    if _state.status is not None:
        _leave(_state.status)
    end(f"{_words()}; what was finished is safe; run the same command again")


def _words() -> str:
    return f"interrupted by {_state.signal}" if _state.signal not in ("", "SIGINT") else "interrupted"


def _start(terminal: bool) -> str:
    """A terminal shows ^C first."""
    return "\n" if terminal else ""


def _leave(status: int) -> NoReturn:
    for process in _descendants():
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    os._exit(status)


def _descendants() -> list[int]:
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
