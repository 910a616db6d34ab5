"""Text files read strictly: what is wrong is an error that names file, line and expectation; nothing is guessed."""

import csv
import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from trainables.specs.ranker import TaskSettings
from trainables.utils.errors import UserError

T = TypeVar("T", str, list[Any], dict[str, Any])

LONGEST_LINE = 10_000_000
"""Bytes; a line is held in memory, so a file without line ends must not be one line."""
SHOWN = 60
"""Characters of a file's text that an error quotes."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HALF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


class Place(NamedTuple):
    """Where in a file something stands; the `where` of errors."""

    file: Path
    line: int
    """From 1."""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


def quoted(text: str) -> str:
    """The beginning of `text` in quotes, on one line."""
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 3] + "...")


def location(settings: TaskSettings, expected: str) -> Path:
    """`settings.path`, which exists.

    Raises:
        UserError: it is none, or nothing is there; `expected` says what is.
    """
    return existing(settings.path, "task.path", expected)


def existing(given: str | None, key: str, expected: str) -> Path:
    """The path that is given under a key of the study file.

    Raises:
        UserError: it is none, or nothing is there; `expected` says what is.
    """
    if given is None:
        raise UserError(key, "none", expected)
    path = Path(os.path.expanduser(given))
    if not os.path.exists(path):  # False also for what cannot be a path
        raise UserError(key, f"{path} does not exist", expected)
    return path


def files(settings: TaskSettings, *names: str | tuple[str, ...]) -> list[Path]:
    """The files of these names in the folder `settings.path`, each as it is or, where it is not, with `.gz` behind.

    Of a tuple of names the first that is there; one file must match a name with `*`.

    Raises:
        UserError: the folder, or a file in it, is missing.
    """
    alternatives = [(name,) if isinstance(name, str) else name for name in names]
    expected = f"a folder with {', '.join(' or '.join(some) for some in alternatives)} (each may end in .gz as well)"
    folder = location(settings, expected)
    found = []
    for some in alternatives:
        there = [path for name in some for end in ("", ".gz") for path in sorted(folder.glob(name + end))]
        if not there:
            raise UserError("task.path", f"{folder} has no {' or '.join(some)}", expected)
        if "*" in some[0] and len(there) > 1:
            raise UserError("task.path", f"{folder} has {len(there)} files {some[0]}", expected)
        found.append(there[0])
    return found


def state(paths: Iterable[Path]) -> str:
    """SHA-256 over place, size and time of change of the files; none is opened."""
    hashed = hashlib.sha256()
    for path in paths:
        status = path.stat()
        hashed.update(f"{path.resolve()} {status.st_size} {status.st_mtime_ns}\n".encode())
    return hashed.hexdigest()


def lines(path: Path) -> Iterator[tuple[Place, str]]:
    """Place and text, without its end (LF or CR LF), of every line of a UTF-8 file, plain or gzipped whatever its name.

    Raises:
        UserError: not a readable file; broken gzip; a line of more than 10 MB, not UTF-8, or with a NUL byte.
    """
    number = 0
    try:
        with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw as stream:
            while line := stream.readline(LONGEST_LINE + 1):
                number += 1
                place = Place(path, number)
                if len(line) > LONGEST_LINE:
                    raise UserError(str(place), f"more than {LONGEST_LINE} bytes", "a shorter line")
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    raise UserError(str(place), "not UTF-8", "UTF-8 text") from error
                if "\0" in text:
                    raise UserError(str(place), "a NUL byte", "text")
                yield place, text[: -2 if text.endswith("\r\n") else -1] if text.endswith("\n") else text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(str(Place(path, number + 1)), f"broken gzip ({error})", "a whole gzip file") from error
    except OSError as error:
        raise UserError(str(path), error.strerror, "a readable file") from error


def rows(path: Path, names: Sequence[str], separator: str | None = "\t") -> Iterator[tuple[Place, list[str]]]:
    """Place and fields of every line; there is no header and no quoting.

    Args:
        path: the file.
        names: what the fields are; that many a line.
        separator: none: any white space.

    Raises:
        UserError: see `lines`; a line has another number of fields.
    """
    expected = f"{len(names)}, {'tab' if separator else 'space'}-separated: {', '.join(names)}"
    for place, text in lines(path):
        fields = text.split(separator)
        if len(fields) != len(names):
            raise UserError(str(place), f"fields: {len(fields)}", expected)
        yield place, fields


def table(path: Path, columns: Sequence[str], delimiter: str) -> Iterator[tuple[Place, list[str]]]:
    """Place of the first line and the fields of `columns`, in that order, of every row below the header, as CSV.

    Raises:
        UserError: see `lines`; no header, a column is missing, wrong quotes, a row has another number of fields.
    """
    reader = csv.reader((text + "\n" for _, text in lines(path)), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        place = Place(path, reader.line_num + 1)
        try:
            fields = next(reader, None)
        except csv.Error as error:
            found = str(error).replace("\t", r"\t")  # the delimiter, as which white space could not be told
            raise UserError(str(place), found, "fields as in CSV, quotes within quotes doubled") from error
        if header is None:
            header = fields or []
            if missing := [name for name in columns if name not in header]:
                raise UserError(str(place), f"no column {', '.join(missing)}", f"a header with {', '.join(columns)}")
            wanted = [header.index(name) for name in columns]
        elif fields is None:
            return
        elif len(fields) != len(header):
            raise UserError(str(place), f"fields: {len(fields)}", f"{len(header)}, as the header has")
        else:
            yield place, [fields[i] for i in wanted]


def objects(path: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Place and value of every line of a JSON lines file.

    Raises:
        UserError: see `lines`; a line is not a JSON object.
    """
    for place, text in lines(path):
        try:
            value = json.loads(text)
            if _HALF_A_PAIR.search(text):
                json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be written again
        except (ValueError, RecursionError) as error:
            raise UserError(str(place), f"not JSON ({error})", "a JSON object a line") from error
        if not isinstance(value, dict):
            raise UserError(str(place), quoted(text), "a JSON object a line")
        yield place, value


def member(place: Place, value: dict[str, Any], name: str, kind: type[T]) -> T:
    """The member `name` of a JSON object.

    Raises:
        UserError: it is missing, or not of `kind`.
    """
    expected = {str: "text", list: "a list", dict: "an object"}[kind]
    if name not in value:
        raise UserError(str(place), f"no {name}", f"{expected} under that name")
    found = value[name]
    if not isinstance(found, kind):
        raise UserError(str(place), f"{name} is {quoted(json.dumps(found))}", expected)
    return found
