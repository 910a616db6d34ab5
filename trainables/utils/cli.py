"""Command-line output: one-line errors, and no characters that control a terminal."""

import argparse
import re
import sys
from typing import NoReturn, TextIO

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
    """Print text with its control characters escaped.

    Args:
        text: printed as a string.
        stream: where to print. If None, the standard output.
        flush: whether to flush the stream.
    """
    print(escape_control_characters(str(text)), file=stream, flush=flush)


def print_error(program: str, text: object) -> None:
    """Print each line of a text to the standard error.

    Args:
        program: name of the program, the prefix of each line. If empty, there is no prefix.
        text: the lines.
    """
    for line in str(text).split("\n"):
        print_escaped(f"{program}: {line}" if program else line, sys.stderr)


class Parser(argparse.ArgumentParser):
    """Argument parser that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with status 2."""
        print_error(self.prog.split()[-1], f"command line: {message}; see --help")
        self.exit(2)
