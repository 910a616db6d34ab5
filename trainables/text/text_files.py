"""Text files, plain or gzipped: every mistake raises an error that names the file and the line."""

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

from trainables.utils.errors import UTF8_TEXT, UserError

MAX_LINE_BYTES = 10_000_000
"""Most bytes of a line. A line is held in memory, so a large file without line ends must be an error."""
MAX_QUOTED_LENGTH = 60
"""Most characters of a file's text that an error quotes."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_CONTROL_BYTES = bytes({*range(32), 127} - {9, 10})


class FileLocation(NamedTuple):
    """Location of something in a file, for error messages."""

    file: Path
    line: int
    """Line number, from 1."""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


def quote_text(text: str) -> str:
    """Return the text in quotes on one line, cut to `MAX_QUOTED_LENGTH` characters.

    Example:
        >>> print(quote_text("a long text " * 10))
        'a long text a long text a long text a long text a long te...'
    """
    return repr(text if len(text) <= MAX_QUOTED_LENGTH else text[: MAX_QUOTED_LENGTH - 3] + "...")


def parse_number(text: str) -> float:
    """Return a decimal number, or NaN if the text is none; Python's own parser would take 1_0 for 10.

    Example:
        >>> parse_number("-2.5e-3"), parse_number("1_0"), parse_number("inf")
        (-0.0025, nan, nan)
    """
    return float(text) if _NUMBER.fullmatch(text) else math.nan


@contextmanager
def open_binary(path: Path, expected: str) -> Iterator[IO[bytes]]:
    """Open a file and yield its content, decompressed if its first bytes are those of gzip.

    Raises:
        UserError: if the file does not exist, cannot be read, or is a damaged gzip file or a pipe.
    """
    if path.is_fifo():  # it cannot be read twice, and without a writer the command would wait for ever
        raise UserError(str(path), "a pipe", f"{expected}, in a file")
    try:
        with path.open("rb") as raw, gzip.open(raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw as file:
            yield cast(IO[bytes], file)
    except FileNotFoundError as error:
        raise UserError(str(path), "no such file", expected) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(str(path), f"a damaged gzip file ({error})", expected) from error
    except OSError as error:
        raise UserError(str(path), error.strerror or error, expected) from error


def decode_text(content: bytes, path: Path, expected: str, first_line: int = 1) -> str:
    """Decode UTF-8.

    Raises:
        UserError: if there are control characters other than tabs and ends of lines, or the text is not UTF-8.
    """
    if len(content.translate(None, _CONTROL_BYTES)) < len(content):
        match = re.search(b"[" + re.escape(_CONTROL_BYTES) + b"]", content)
        assert match
        where = FileLocation(path, first_line + content.count(b"\n", 0, match.start()))
        raise UserError(str(where), f"a control character, {match[0]!r}", f"{expected}, as text")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        where = FileLocation(path, first_line + content.count(b"\n", 0, error.start))
        raise UserError(str(where), "not UTF-8", UTF8_TEXT) from error


def read_lines(path: Path) -> Iterator[tuple[FileLocation, str]]:
    """Yield location and text of every line of a UTF-8 file, without the line end (LF or CR LF).

    Raises:
        UserError: If the file is not readable or its gzip is damaged, or if a line has more than 10 MB, is not UTF-8 or
            contains a NUL byte.
    """
    with open_binary(path, "a readable file") as stream:
        number = 0
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            location = FileLocation(path, number)
            if len(line) > MAX_LINE_BYTES:
                raise UserError(str(location), f"more than {MAX_LINE_BYTES} bytes", "a shorter line")
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise UserError(str(location), "not UTF-8", UTF8_TEXT) from error
            if "\0" in text:
                raise UserError(str(location), r"a control character, b'\x00'", "text")
            yield location, text[: -2 if text.endswith("\r\n") else -1] if text.endswith("\n") else text
