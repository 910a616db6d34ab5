"""Tables and objects are read as they are written; every mistake is named with its place."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.text.test_text_files import refused
from trainables.data.files.readers import get_member, read_csv_rows, read_json_lines, read_rows
from trainables.text.text_files import FileLocation
from trainables.utils.errors import UserError

fields = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=8)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_rows_have_the_stated_number_of_fields(path: Path) -> None:
    path.write_text('a\t"b\n\tc d\n')
    assert [fields for _, fields in read_rows(path, ("id", "text"))] == [["a", '"b'], ["", "c d"]]
    path.write_text("a\tb\na\tb\tc\n")
    message = f"{path}, line 2: fields: 3; expected 2, separated by a tab: id, text"
    assert refused(lambda: read_rows(path, ("id", "text"))) == message


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
def test_what_is_no_table_is_an_error_with_its_place(path: Path, text: str, message: str) -> None:
    path.write_text(text)
    assert refused(lambda: read_csv_rows(path, ("id", "text"), ",")).startswith(f"{path}, {message}")


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
def test_what_is_no_object_is_an_error_with_its_line(path: Path, text: str, message: str) -> None:
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
