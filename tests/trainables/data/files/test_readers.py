"""Text is read as it is written, strictly, and never more of it at once than a line."""

import csv
import gzip
import hashlib
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from trainables.data.files.readers import (
    MAX_LINE_BYTES,
    FileLocation,
    get_member,
    quote_text,
    read_csv_rows,
    read_json_lines,
    read_lines,
    read_rows,
)
from trainables.utils.errors import UserError

same_folder = profile(suppress_health_check=[HealthCheck.function_scoped_fixture])
fields = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=8)
texts = st.lists(fields.map(lambda text: text.replace("\n", " ")), max_size=8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def refused(read: Callable[[], Any]) -> str:
    """The one line of the error."""
    with pytest.raises(UserError) as error:
        list(read())
    assert "\n" not in str(error.value)
    return str(error.value)


@same_folder
@given(texts, st.booleans(), st.booleans(), st.booleans())
def test_lines_are_those_that_were_written(
    path: Path, written: list[str], windows: bool, mark: bool, zipped: bool
) -> None:
    end = "\r\n" if windows else "\n"
    data = ("\ufeff" * mark + "".join(text + end for text in written)).encode()
    path.write_bytes(gzip.compress(data) if zipped else data)
    expected = list(enumerate(written, start=1))
    if mark and not written:
        expected = [(1, "")]
    assert [(place.line, text) for place, text in read_lines(path)] == expected


def test_only_line_ends_end_lines_and_only_the_first_mark_is_one(path: Path) -> None:
    path.write_text("\ufeffa\u2028b\x85c\x0bd\re\n\ufefff", encoding="utf-8", newline="")
    assert [text for _, text in read_lines(path)] == ["a\u2028b\x85c\x0bd\re", "\ufefff"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a\nb\xff\n", "line 2: not UTF-8; expected UTF-8 text; iconv -f WINDOWS-1252 -t UTF-8 converts a file"),
        ("é".encode("utf-16"), "line 1: not UTF-8; expected UTF-8 text"),
        ("\ud800".encode("utf-8", "surrogatepass"), "line 1: not UTF-8; expected UTF-8 text"),
        (b"a\nb\nc\0d\n", "line 3: a NUL byte; expected text"),
        (gzip.compress(b"a\nb\0\n", mtime=0), "line 2: a NUL byte; expected text"),
        (b"\x1f\x8b", "line 1: broken gzip ("),
        (b"\x1f\x8bno gzip at all", "line 1: broken gzip ("),
        (gzip.compress(b"a\n", mtime=0)[:-6], "line 2: broken gzip (Compressed file ended"),
        (gzip.compress(b"a\n", mtime=0) + b"rubbish", "broken gzip (Not a gzipped file"),
        (gzip.compress(b"a\n", mtime=0)[:-8] + bytes(8), "broken gzip (CRC check failed"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    found = refused(lambda: read_lines(path))
    assert found.startswith(f"{path}, line ")
    assert message in found
    assert "; expected " in found


def test_the_lines_before_a_gzip_is_cut_are_read_and_the_error_names_the_next(path: Path) -> None:
    written = [hashlib.sha256(bytes(i)).hexdigest() for i in range(2_000)]
    data = gzip.compress("".join(f"{line}\n" for line in written).encode())
    path.write_bytes(data[: len(data) // 2])
    read: list[str] = []
    message = refused(lambda: (read.append(text) for _, text in read_lines(path)))
    assert read == written[: len(read)]
    assert len(read) > 500
    assert message.startswith(f"{path}, line {len(read) + 1}: broken gzip (")


@pytest.mark.parametrize("zipped", [False, True])
def test_of_a_line_of_50_mb_little_is_read(path: Path, zipped: bool) -> None:
    if zipped:
        compressor = zlib.compressobj(1, wbits=31)
        path.write_bytes(b"".join(compressor.compress(b"x" * 1_000_000) for _ in range(50)) + compressor.flush())
    else:
        with path.open("wb") as file:
            file.write(b"id\ttext\n")
            file.seek(50_000_000)
            file.write(b"\n")
    tracemalloc.start()
    message = refused(lambda: read_lines(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert message == f"{path}, line {1 if zipped else 2}: more than {MAX_LINE_BYTES} bytes; expected a shorter line"
    assert peak < 3 * MAX_LINE_BYTES


def test_a_line_of_the_greatest_length_is_read(path: Path) -> None:
    path.write_bytes(b"x" * (MAX_LINE_BYTES - 1) + b"\n")
    assert [len(text) for _, text in read_lines(path)] == [MAX_LINE_BYTES - 1]


def test_lines_are_streamed(path: Path) -> None:
    path.write_bytes(b"a\n" * 100_000 + b"\xff\n")
    stream = read_lines(path)
    assert next(stream) == (FileLocation(path, 1), "a")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert refused(lambda: read_lines(tmp_path)) == f"{tmp_path}: Is a directory; expected a readable file"


def test_rows_have_the_stated_number_of_fields(path: Path) -> None:
    path.write_text('a\t"b\n\tc d\n')
    assert [fields for _, fields in read_rows(path, ("id", "text"))] == [["a", '"b'], ["", "c d"]]
    path.write_text("a\tb\na\tb\tc\n")
    message = f"{path}, line 2: fields: 3; expected 2, separated by a tab: id, text"
    assert refused(lambda: read_rows(path, ("id", "text"))) == message
    path.write_text("# ids\n  a \t b\u00a0c\n\nd\n")
    assert next(read_rows(path, ("id", "text"), None))[1] == ["a", "b\u00a0c"]
    message = f"{path}, line 4: fields: 1; expected 2, separated by blanks or tabs: id, text"
    assert refused(lambda: read_rows(path, ("id", "text"), None)) == message


@same_folder
@given(st.lists(st.lists(fields, min_size=3, max_size=3), max_size=6), st.sampled_from("\t,"))
def test_tables_are_those_that_were_written(path: Path, written: list[list[str]], delimiter: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerows([["a", "b", "c"], *written])
    expected, line = [], 2
    for row in written:
        expected.append((FileLocation(path, line), [row[2], row[0]]))
        line += 1 + sum(field.count("\n") for field in row)
    assert list(read_csv_rows(path, ("c", "a"), delimiter)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: an empty file, no column id, text; expected a header with id, text, separated by commas"),
        ("id,txt\n", "line 1: 'id,txt' has no column text; expected a header with id, text, separated by commas"),
        ("id;text\n", "line 1: 'id;text' has no column id, text; expected a header with id, text, separated by commas"),
        ("id,text\n1,a,b\n", "line 2: fields: 3; expected 2, as in the header"),
        ('id,text\n1,"a\nb"\n2\n', "line 4: fields: 1; expected 2, as in the header"),
        ("id,text\n\n1,a\n", "line 2: fields: 0; expected 2, as in the header"),
        ('id,text\n1,"a\nb"\n2,"a"b\n', "line 4: ',' expected after '\"'; expected CSV fields"),
        ('id,text\n1,a\n2,"never\nclosed\n', "line 3: unexpected end of data; expected CSV fields"),
        ('id,text\n1,"' + "never closed\n" * 20_000, "line 2: field larger than field limit (131072)"),
    ],
)
def test_what_is_no_table_is_refused_with_its_place(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    assert refused(lambda: read_csv_rows(path, ("id", "text"), ",")).startswith(f"{path}, {message}")


@same_folder
@given(st.lists(st.dictionaries(fields, st.one_of(fields, st.integers(), st.none()), max_size=3), max_size=5))
def test_objects_are_those_that_were_written(path: Path, written: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in written))
    assert [value for _, value in read_json_lines(path)] == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": "b', "not JSON (Unterminated string"),
        ("", "not JSON (Expecting value"),
        ("{} {}", "not JSON (Extra data"),
        ("[" * 100_000, "not JSON ("),
        ('{"a": ' + "9" * 5_000 + "}", "not JSON ("),
        (r'{"a": "\ud800"}', "not JSON ("),
        ("[1]", "'[1]'; expected one JSON object per line"),
        ("null", "'null'; expected one JSON object per line"),
    ],
)
def test_what_is_no_object_is_refused_with_its_line(path: Path, text: str, message: str) -> None:
    path.write_text(f'{{"a": "\\ud83d\\ude00"}}\n{text}\n{{}}\n')
    found = refused(lambda: read_json_lines(path))
    assert found.startswith(f"{path}, line 2: {message}")
    assert found.endswith("; expected one JSON object per line")


def test_members_have_their_kind(path: Path) -> None:
    place = FileLocation(path, 7)
    value = {"a": "x", "b": ["y"], "c": {}, "d": None}
    assert (get_member(place, value, "a", str), get_member(place, value, "b", list)) == ("x", ["y"])
    for name, kind, message in (
        ("e", str, "no e; expected text under that name"),
        ("d", str, "d is 'null'; expected text"),
        ("a", list, "a is '\"x\"'; expected a list"),
        ("b", dict, "b is '[\"y\"]'; expected an object"),
    ):
        with pytest.raises(UserError) as error:
            get_member(place, value, name, kind)
        assert str(error.value) == f"{path}, line 7: {message}"


def test_long_text_is_quoted_in_part() -> None:
    assert quote_text("a\nb") == r"'a\nb'"
    assert quote_text("x" * 61) == "'" + "x" * 57 + "...'"
    assert quote_text("x" * 60) == "'" + "x" * 60 + "'"
