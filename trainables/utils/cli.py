"""Command lines: options, output without terminal controls, and one line for each way in which they fail."""

import argparse
import errno
import io
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn, TextIO

from trainables.utils import interruption
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, UserError, is_disk_full
from trainables.utils.files import check_outputs, has_json_form, write_atomically, write_json

_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters (C0 and C1) except line feeds and tabs, marks of writing direction, and lone surrogates."""


def escape_control_characters(text: str) -> str:
    r"""Return `text` with control characters as escapes such as \x1b; line feeds and tabs stay.

    Example:
        >>> print(escape_control_characters("red \x1b[31m, line\nfeed"))
        red \x1b[31m, line
        feed
    """
    return _CONTROL_CHARACTERS.sub(lambda match: ascii(match[0])[1:-1], text)


def print_escaped(text: object, stream: TextIO | None = None, flush: bool = False) -> None:
    """Print text with its control characters escaped, and a question mark for what the stream's encoding lacks."""
    print(escape_control_characters(str(text)), file=replace_unencodable(stream or sys.stdout), flush=flush)


def replace_unencodable(stream: TextIO) -> TextIO:
    """Return the stream, which from now on writes a question mark for a character that its encoding lacks."""
    if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
        stream.reconfigure(errors="replace")
    return stream


def print_error(program: str, text: object) -> None:
    """Print each line of a text to the standard error, after the name of the program."""
    for line in str(text).split("\n"):
        print_escaped(f"{interruption.get_program_name(program)}: {line}", sys.stderr)


def format_error(error: Exception) -> str:
    """Return the cause and the remedy in one line, or the traceback of an error that has no known remedy."""
    cause, remedy = explain_error(error)
    return f"{cause}; {remedy}" if remedy else "".join(traceback.format_exception(error)).rstrip()


def report_errors(
    program: str,
    action: Callable[[], int | None],
    describe_error: Callable[[Exception], str] = format_error,
    describe_interruption: Callable[[], str] = lambda: "rerun the same command",
) -> int:
    """Call `action` and return the exit status: its own, 2 after bad input, 1 after any other failure.

    Bad input and faults of the machine are one line of the standard error. A closed pipe, as in `| head`, prints
    nothing.

    Args:
        program: name of the command, for the messages.
        action: the work of the command. It returns the exit status; None means 0.
        describe_error: returns the message for an exception that is no `UserError`.
        describe_interruption: returns the advice that is printed after a signal.

    Example:
        >>> report_errors("study.run", lambda: None)
        0
    """
    try:
        status = action()
        sys.stdout.flush()
        return status or 0
    except (KeyboardInterrupt, Exception) as error:
        if not isinstance(error, Exception) or interruption.is_interrupted():
            interruption.report_interruption(program, escape_control_characters(describe_interruption()))
        elif isinstance(error, UserError):
            print_error(program, error)
            return 2
        elif isinstance(error, BrokenPipeError):  # the reader closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            print_error(program, describe_error(error))
        return 1


def write_json_option(path: Path, value: object, inputs: Iterable[Path] = ()) -> None:
    """Write an object, or a list of objects, to the file of the option --json.

    Raises:
        UserError: the file cannot be written, is an input, or exists and contains something else than such a value.
    """
    _write_option("--json", path, lambda: write_json(path, value), lambda own: has_json_form(own, value), inputs)


def write_text_option(
    option: str, path: Path, text: str, is_own: Callable[[Path], bool], inputs: Iterable[Path] = ()
) -> None:
    """Write a text to the file that an option names.

    Args:
        option: the option.
        path: the file.
        text: its content.
        is_own: returns whether an existing file has the form of what the command writes.
        inputs: files that the command reads.

    Raises:
        UserError: the file cannot be written, is an input, or exists and this command did not write it.
    """

    def write_text() -> None:
        with write_atomically(path) as temporary:
            temporary.write_text(text, "utf-8")

    _write_option(option, path, write_text, is_own, inputs)


def _write_option(
    option: str, path: Path, write: Callable[[], None], is_own: Callable[[Path], bool], inputs: Iterable[Path]
) -> None:
    check_outputs(option, [path], is_own, inputs)
    try:
        write()
    except OSError as error:
        if is_disk_full(error):
            raise
        raise UserError(f"{option}: {path}", error.strerror, "a file that can be written") from error


def explain_error(error: Exception) -> tuple[str, str]:
    """Return the cause in one line, and the remedy or an empty string where rerunning the command may not help.

    A damaged file of the cache is removed here, so that the next run creates it again.

    Example:
        >>> explain_error(MachineError("no answer"))
        ('no answer', 'rerun the same command to resume')
    """
    if is_disk_full(error):
        code = error.errno if isinstance(error, OSError) and error.errno else errno.ENOSPC
        remedy = "make it writable" if code == errno.EROFS else "free some space"
        return f"{os.strerror(code).lower()}{_format_location(error)}", f"{remedy} and rerun the same command"
    if isinstance(error, PermissionError):
        return f"no permission{_format_location(error)}", "make it readable and writable, and rerun the same command"
    cause = (str(error).strip().splitlines() or [""])[-1][:200]
    if isinstance(error, MachineError):
        return cause, error.remedy
    if isinstance(error, DamagedError):
        error.remove()
        return cause, "rerun the same command to create it again and resume"
    remedy = "fix this and rerun the same command to resume" if isinstance(error, OSError) else ""
    return f"{type(error).__name__}: {cause}", remedy


def _format_location(error: Exception) -> str:
    name = error.filename if isinstance(error, OSError) else None
    return f" in {Path(os.fsdecode(name)).parent}" if isinstance(name, str | bytes) else ""


class Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line, without the usage.

    Args:
        module: module of the command, by which the usage names it unless a console script runs it.
        description: what the command does.
    """

    def __init__(self, module: str, description: str) -> None:
        self._module, script = module, interruption.get_program_name(module)
        super().__init__(prog=f"python -m {module}" if script == module else script, description=description)

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with status 2."""
        print_error(self._module, f"command line: {message}; see --help")
        self.exit(2)
