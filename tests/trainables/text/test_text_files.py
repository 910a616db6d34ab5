"""Text is read as it is written, strictly, and never more of it at once than a line."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.text.text_files import MAX_LINE_BYTES, FileLocation, quote_text, read_lines
from trainables.utils.errors import UserError

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
        (b"a\nb\nc\0d\n", "line 3: a control character, b'\\x00'; expected text"),
        (gzip.compress(b"a\nb\0\n", mtime=0), "line 2: a control character, b'\\x00'; expected text"),
        (b"\x1f\x8b", ": a damaged gzip file ("),
        (b"\x1f\x8bno gzip at all", ": a damaged gzip file ("),
        (gzip.compress(b"a\n", mtime=0)[:-6], ": a damaged gzip file (Compressed file ended"),
        (gzip.compress(b"a\n", mtime=0) + b"rubbish", ": a damaged gzip file (Not a gzipped file"),
        (gzip.compress(b"a\n", mtime=0)[:-8] + bytes(8), ": a damaged gzip file (CRC check failed"),
    ],
)
def test_what_is_no_text_is_an_error_with_its_place(path: Path, data: bytes, message: str) -> None:
    path.write_bytes(data)
    found = refused(lambda: read_lines(path))
    assert found.startswith(str(path))
    assert message in found
    assert "; expected " in found


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


def test_long_text_is_quoted_in_part() -> None:
    assert quote_text("a\nb") == r"'a\nb'"
    assert quote_text("x" * 61) == "'" + "x" * 57 + "...'"
    assert quote_text("x" * 60) == "'" + "x" * 60 + "'"
