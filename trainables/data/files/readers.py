"""Strict readers of the files of a task: tables, JSON lines and folders. Nothing is guessed."""

import csv
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.text_files import FileLocation, quote_text, read_lines
from trainables.utils.errors import UserError

T = TypeVar("T", str, list[Any], dict[str, Any])

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def require_path(value: str | None, key: str, expected: str) -> Path:
    """Return the path under a key of the study file, which exists.

    Raises:
        UserError: If the path is None or does not exist.
    """
    if value is None:
        raise UserError(key, "none", expected)
    path = Path(os.path.expanduser(value))
    if not os.path.exists(path):  # also False for a text that cannot be a path
        raise UserError(key, f"{path.absolute()} does not exist", expected)
    return path


def find_files(settings: RankerTaskSettings, *names: str | tuple[str, ...], dev: str | None = None) -> list[Path]:
    """Return the files of these names in the folder `settings.path`.

    If a file does not exist, the gzipped one with `.gz` appended to its name is returned.

    Args:
        settings: Settings of the task.
        *names: Name of each file. From a tuple of names, the first that exists is returned. A name may contain `*`, and
            then exactly one file must match it.
        dev: The one of the names that is the development set. It is left out if `settings.dev_share` replaces it. If
            None, no file is optional.

    Raises:
        UserError: If the folder or a file in it is missing, if several files match a name, or if the folder has a
            development set although `settings.dev_share` replaces it.
    """
    alternatives = [(name,) if isinstance(name, str) else name for name in names]
    files = ", ".join(" or ".join(options) for options in alternatives)
    expected = f"a folder with {files} (each may also end in .gz)"
    folder = require_path(settings.path, "task.path", expected)
    paths = []
    for options in alternatives:
        matches = [path for name in options for end in ("", ".gz") for path in sorted(folder.glob(name + end))]
        if dev in options:
            check_dev_share(settings, matches[0] if matches else None, f"{folder} has no {' or '.join(options)}")
            if not matches:
                continue
        if not matches:
            raise UserError("task.path", f"{folder} has no {' or '.join(options)}", expected)
        if "*" in options[0] and len(matches) > 1:
            raise UserError("task.path", f"{folder} has {len(matches)} files {options[0]}", expected)
        paths.append(matches[0])
    return paths


def find_optional_file(folder: Path, name: str) -> Path | None:
    """Return the file of this name in a folder, or the gzipped one with `.gz` appended, or None."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)


def check_dev_share(settings: RankerTaskSettings, dev: Path | str | None, missing: str) -> None:
    """Check that a task has either a development set or `settings.dev_share`.

    Raises:
        UserError: If there are both or neither.
    """
    if settings.dev_share is not None and dev is not None:
        expected = f"none, since {dev} is the development set; remove one of the two"
        raise UserError("task.dev_share", settings.dev_share, expected)
    if settings.dev_share is None and dev is None:
        expected = "a folder with one, or task.dev_share (such as 0.1), the part of the training queries for dev"
        raise UserError("task.path", missing, expected)


def hash_file_stats(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the paths, sizes and times of the files, without opening them.

    The time of the last change of the inode tells an edited file with restored size and modification time.
    """
    hasher = hashlib.sha256()
    for path in paths:
        status = path.stat()
        hasher.update(f"{path.resolve()} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\n".encode())
    return hasher.hexdigest()


def make_source_version(
    find_files: Callable[[RankerTaskSettings], Iterable[Path] | Mapping[str, Path]],
) -> Callable[[RankerTaskSettings], str]:
    """Return the function `Task.get_source_version` of a task, from the function that finds its files."""

    def get_source_version(settings: RankerTaskSettings) -> str:
        files = find_files(settings)
        return hash_file_stats(files.values() if isinstance(files, Mapping) else files)

    return get_source_version


def read_rows(path: Path, names: Sequence[str]) -> Iterator[tuple[FileLocation, list[str]]]:
    """Yield location and tab-separated fields of every line of a file without header and without quoting.

    Raises:
        UserError: If a line has another number of fields, or as `read_lines` does.
    """
    for location, text in read_lines(path):
        fields = text.split("\t")
        if len(fields) != len(names):
            expected = f"{len(names)}, separated by a tab: {', '.join(names)}"
            raise UserError(str(location), f"fields: {len(fields)}", expected)
        yield location, fields


def read_csv_rows(path: Path, columns: Sequence[str], delimiter: str) -> Iterator[tuple[FileLocation, list[str]]]:
    """Yield location and fields of every row of a CSV file with a header.

    Raises:
        UserError: If the header or a column is missing, if quotes are wrong, if a row has another number of fields than
            the header, or as `read_lines` does.
    """
    reader = csv.reader((text + "\n" for _, text in read_lines(path)), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        location = FileLocation(path, reader.line_num + 1)
        try:
            fields = next(reader, None)
        except csv.Error as error:
            problem = str(error).replace("\t", r"\t")  # a tab as delimiter is not visible in a message
            raise UserError(str(location), problem, "CSV fields, with quotes inside quotes doubled") from error
        if header is None:
            header = fields or []
            if missing := [name for name in columns if name not in header]:
                found = f"{quote_text(delimiter.join(header))} has no column" if header else "an empty file, no column"
                separator = {",": "commas", "\t": "tabs"}[delimiter]
                expected = f"a header with {', '.join(columns)}, separated by {separator}"
                raise UserError(str(location), f"{found} {', '.join(missing)}", expected)
            indices = [header.index(name) for name in columns]
        elif fields is None:
            return
        elif len(fields) != len(header):
            raise UserError(str(location), f"fields: {len(fields)}", f"{len(header)}, as in the header")
        else:
            yield location, [fields[i] for i in indices]


def read_json_lines(path: Path) -> Iterator[tuple[FileLocation, dict[str, Any]]]:
    """Yield location and value of every line of a JSON lines file.

    Raises:
        UserError: If a line is not a JSON object, or as `read_lines` does.
    """
    for location, text in read_lines(path):
        try:
            value = json.loads(text)
            if _SURROGATE.search(text):
                json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be encoded
        except (ValueError, RecursionError) as error:
            raise UserError(str(location), f"not JSON ({error})", "one JSON object per line") from error
        if not isinstance(value, dict):
            raise UserError(str(location), quote_text(text), "one JSON object per line")
        yield location, value


def get_member(location: FileLocation, value: dict[str, Any], name: str, kind: type[T]) -> T:
    """Return the member `name` of a JSON object.

    Raises:
        UserError: If the member is missing or has another type.
    """
    expected = {str: "text", list: "a list", dict: "an object"}[kind]
    if name not in value:
        raise UserError(str(location), f"no {name}", f"{expected} under that name")
    member = value[name]
    if not isinstance(member, kind):
        is_number = isinstance(member, int | float)
        found = json.dumps(member) if is_number else quote_text(json.dumps(member))
        quoted = " in quotation marks" if is_number and kind is str else ""
        raise UserError(str(location), f"{name} is {found}", expected + quoted)
    return member


def get_titled_text(location: FileLocation, value: dict[str, Any]) -> str:
    """Return the text of a document of BEIR: its title, if it has one, and its text; both may be empty.

    Raises:
        UserError: If the member `text` is missing, or a member is no text.
    """
    title = get_member(location, value, "title", str) if value.get("title") else ""
    return f"{title} {get_member(location, value, 'text', str)}".strip()
