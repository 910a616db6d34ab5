"""Command lines that answer a mistake in one line, as everything else does, and print nothing that a terminal obeys."""

import argparse
import re
import sys
from typing import NoReturn, TextIO

_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters (C0 and C1) other than line ends and tabs, marks of the direction of writing, half characters."""


def escape_control_characters(text: str) -> str:
    r"""`text` with everything that a terminal obeys or cannot print as an escape such as \x1b; line ends stay."""
    return _CONTROL_CHARACTERS.sub(lambda found: ascii(found[0])[1:-1], text)


def print_escaped(text: object, stream: TextIO | None = None, flush: bool = False) -> None:
    """Prints text, made `visible`; to the standard output unless told otherwise."""
    print(escape_control_characters(str(text)), file=stream, flush=flush)


def print_error(program: str, text: object) -> None:
    """Prints each line of a text to the standard error, behind the program's name if there is one."""
    for line in str(text).split("\n"):
        print_escaped(f"{program}: {line}" if program else line, sys.stderr)


class Parser(argparse.ArgumentParser):
    """Prints the usage only when asked for it."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        print_error(self.prog.split()[-1], f"command line: {message}; expected what --help shows")
        self.exit(2)
