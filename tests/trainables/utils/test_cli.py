"""Nothing that is printed makes a terminal do anything."""

import ast
import io
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study.command import called
from trainables.utils.cli import escape_control_characters, print_error, print_escaped

ROOT = Path(__file__).parents[3]
PRINTERS = {"trainables/utils/cli.py"}
HOSTILE = "\x1b[2J\x1b]0;title\x07\x9b31mevil\u202e\u2066\r\udcff"


@given(st.text(st.characters(), max_size=40))
def test_what_is_shown_has_no_control_character_and_text_stays_as_it_is(text: str) -> None:
    found = escape_control_characters(text)
    shown = [character for character in found if character not in "\n\t"]
    assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp")]
    assert not [one for one in shown if unicodedata.bidirectional(one) in ("LRE", "RLE", "LRO", "RLO", "LRI", "RLI")]
    assert escape_control_characters(found) == found
    found.encode("utf-8")
    assert escape_control_characters("größer ± 0.1\n\tε 日本 🙂") == "größer ± 0.1\n\tε 日本 🙂"


def test_a_control_character_becomes_an_escape(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    print_escaped(HOSTILE, stream)
    assert stream.getvalue() == "\\x1b[2J\\x1b]0;title\\x07\\x9b31mevil\\u202e\\u2066\\r\\udcff\n"
    print_error("study.run", f"a{HOSTILE[:2]}\nb")
    print_error("", "c")
    assert capsys.readouterr().err == "study.run: a\\x1b[\nstudy.run: b\nc\n"


def test_everything_is_printed_by_one_function() -> None:
    for package in ("study", "trainables", "search_spaces", "analysis"):
        for path in (ROOT / package).rglob("*.py"):
            calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
            names = [node.func.id for node in calls if isinstance(node.func, ast.Name)]
            assert "print" not in names or str(path.relative_to(ROOT)) in PRINTERS, path


SCORES = "system,seed,query,value\n" + "".join(
    f"{system},{seed},{query},{0.1 * seed + 0.01 * len(query) + len(system) / 100}\n"
    for system in ("BERT", "e\x1b[31mvil\u202e")
    for seed in (1, 2, 3)
    for query in ("a", "bb", "ccc")
)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "analysis.compare", "scores.csv"),
        ("-m", "analysis.compare", "scores.csv", "--baseline", "n\x1b[1mo"),
        ("-m", "analysis.compare", "n\x1b[1mo.csv"),
        ("-m", "analysis.compare", "scores.csv", "--no\x1b[1mthing"),
        ("-m", "analysis.sample_size", "n\x1b[1mo.csv"),
        ("-m", "analysis.report", "n\x1b[1mo"),
        ("-m", "study.run", "n\x1b[1mo"),
        ("-m", "study.run", "quick", "task.path=n\x1b[1mo", "task.name=qqp", "--prepare"),
        ("-m", "study.run", "quick", "task.path=tas\x1b[1mk", "task.name=beir", "--prepare"),
        ("-m", "study.run", "quick", "output.folder=n\x1b[1mo", "--plan"),
        ("-m", "study.sync", "n\x1b[1mo"),
        ("-m", "study.dashboard", "n\x1b[1mo"),
    ],
)
def test_no_command_hands_a_terminal_what_data_or_arguments_say_to_it(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "scores.csv").write_text(SCORES, "utf-8")
    qrels = tmp_path / "tas\x1b[1mk" / "qrels"
    qrels.mkdir(parents=True)
    for name in ("corpus", "queries"):
        (qrels.parent / f"{name}.jsonl").write_text('{"_id": "a", "text": "b"}\n', "utf-8")
    for split in ("train", "dev", "test"):
        (qrels / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\na\t\x1b[31mx\t1\n", "utf-8")
    found = called(tmp_path, *arguments)
    told = found.stdout + found.stderr
    assert found.returncode in (0, 2), told
    assert told
    assert not [one for one in told if unicodedata.category(one) == "Cc" and one not in "\n\t"]
    assert "\u202e" not in told
    if "scores.csv" in arguments and len(arguments) == 3:
        assert "e\\x1b[31mvil\\u202e" in told
