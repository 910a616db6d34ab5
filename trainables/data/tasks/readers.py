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

from trainables.specs.ranker import RankerTaskSettings
from trainables.utils.errors import UserError

T = TypeVar("T", str, list[Any], dict[str, Any])

MAX_LINE_BYTES = 10_000_000
"""Bytes; a line is held in memory, so a file without line ends must not be one line."""
MAX_QUOTED_LENGTH = 60
"""Characters of a file's text that an error quotes."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class FileLocation(NamedTuple):
    """Where in a file something stands; the `where` of errors."""

    file: Path
    line: int
    """From 1."""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


def quote_text(text: str) -> str:
    """The beginning of `text` in quotes, on one line."""
    return repr(text if len(text) <= MAX_QUOTED_LENGTH else text[: MAX_QUOTED_LENGTH - 3] + "...")


def get_task_path(settings: RankerTaskSettings, expected: str) -> Path:
    """`settings.path`, which exists.

    Raises:
        UserError: it is none, or nothing is there; `expected` says what is.
    """
    return require_path(settings.path, "task.path", expected)


def require_path(value: str | None, key: str, expected: str) -> Path:
    """The path that is given under a key of the study file.

    Raises:
        UserError: it is none, or nothing is there; `expected` says what is.
    """
    if value is None:
        raise UserError(key, "none", expected)
    path = Path(os.path.expanduser(value))
    if not os.path.exists(path):  # False also for what cannot be a path
        raise UserError(key, f"{path} does not exist", expected)
    return path


def find_files(settings: RankerTaskSettings, *names: str | tuple[str, ...]) -> list[Path]:
    """The files of these names in the folder `settings.path`, each as it is or, where it is not, with `.gz` behind.

    Of a tuple of names the first that is there; one file must match a name with `*`.

    Raises:
        UserError: the folder, or a file in it, is missing.
    """
    alternatives = [(name,) if isinstance(name, str) else name for name in names]
    expected = f"a folder with {', '.join(' or '.join(some) for some in alternatives)} (each may end in .gz as well)"
    folder = get_task_path(settings, expected)
    paths = []
    for some in alternatives:
        matches = [path for name in some for end in ("", ".gz") for path in sorted(folder.glob(name + end))]
        if not matches:
            raise UserError("task.path", f"{folder} has no {' or '.join(some)}", expected)
        if "*" in some[0] and len(matches) > 1:
            raise UserError("task.path", f"{folder} has {len(matches)} files {some[0]}", expected)
        paths.append(matches[0])
    return paths


def hash_file_stats(paths: Iterable[Path]) -> str:
    """SHA-256 over place, size and time of change of the files; none is opened."""
    hasher = hashlib.sha256()
    for path in paths:
        status = path.stat()
        hasher.update(f"{path.resolve()} {status.st_size} {status.st_mtime_ns}\n".encode())
    return hasher.hexdigest()


def read_lines(path: Path) -> Iterator[tuple[FileLocation, str]]:
    """Place and text, without its end (LF or CR LF), of every line of a UTF-8 file, plain or gzipped whatever its name.

    Raises:
        UserError: not a readable file; broken gzip; a line of more than 10 MB, not UTF-8, or with a NUL byte.
    """
    number = 0
    try:
        with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw as stream:
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                location = FileLocation(path, number)
                if len(line) > MAX_LINE_BYTES:
                    raise UserError(str(location), f"more than {MAX_LINE_BYTES} bytes", "a shorter line")
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                try:
                    text = line.decode()
                except UnicodeDecodeError as error:
                    raise UserError(str(location), "not UTF-8", "UTF-8 text") from error
                if "\0" in text:
                    raise UserError(str(location), "a NUL byte", "text")
                yield location, text[: -2 if text.endswith("\r\n") else -1] if text.endswith("\n") else text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(str(FileLocation(path, number + 1)), f"broken gzip ({error})", "a whole gzip file") from error
    except OSError as error:
        raise UserError(str(path), error.strerror, "a readable file") from error


def read_rows(
    path: Path, names: Sequence[str], separator: str | None = "\t"
) -> Iterator[tuple[FileLocation, list[str]]]:
    """Place and fields of every line; there is no header and no quoting.

    Args:
        path: the file.
        names: what the fields are; that many a line.
        separator: none: any white space.

    Raises:
        UserError: see `lines`; a line has another number of fields.
    """
    expected = f"{len(names)}, {'tab' if separator else 'space'}-separated: {', '.join(names)}"
    for location, text in read_lines(path):
        fields = text.split(separator)
        if len(fields) != len(names):
            raise UserError(str(location), f"fields: {len(fields)}", expected)
        yield location, fields


def read_csv_rows(path: Path, columns: Sequence[str], delimiter: str) -> Iterator[tuple[FileLocation, list[str]]]:
    """Place of the first line and the fields of `columns`, in that order, of every row below the header, as CSV.

    Raises:
        UserError: see `lines`; no header, a column is missing, wrong quotes, a row has another number of fields.
    """
    reader = csv.reader((text + "\n" for _, text in read_lines(path)), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        location = FileLocation(path, reader.line_num + 1)
        try:
            fields = next(reader, None)
        except csv.Error as error:
            found = str(error).replace("\t", r"\t")  # the delimiter, as which white space could not be told
            raise UserError(str(location), found, "fields as in CSV, quotes within quotes doubled") from error
        if header is None:
            header = fields or []
            if missing := [name for name in columns if name not in header]:
                raise UserError(str(location), f"no column {', '.join(missing)}", f"a header with {', '.join(columns)}")
            indices = [header.index(name) for name in columns]
        elif fields is None:
            return
        elif len(fields) != len(header):
            raise UserError(str(location), f"fields: {len(fields)}", f"{len(header)}, as the header has")
        else:
            yield location, [fields[i] for i in indices]


def read_json_lines(path: Path) -> Iterator[tuple[FileLocation, dict[str, Any]]]:
    """Place and value of every line of a JSON lines file.

    Raises:
        UserError: see `lines`; a line is not a JSON object.
    """
    for location, text in read_lines(path):
        try:
            value = json.loads(text)
            if _SURROGATE.search(text):
                json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be written again
        except (ValueError, RecursionError) as error:
            raise UserError(str(location), f"not JSON ({error})", "a JSON object a line") from error
        if not isinstance(value, dict):
            raise UserError(str(location), quote_text(text), "a JSON object a line")
        yield location, value


def get_member(location: FileLocation, value: dict[str, Any], name: str, kind: type[T]) -> T:
    """The member `name` of a JSON object.

    Raises:
        UserError: it is missing, or not of `kind`.
    """
    expected = {str: "text", list: "a list", dict: "an object"}[kind]
    if name not in value:
        raise UserError(str(location), f"no {name}", f"{expected} under that name")
    member = value[name]
    if not isinstance(member, kind):
        raise UserError(str(location), f"{name} is {quote_text(json.dumps(member))}", expected)
    return member
