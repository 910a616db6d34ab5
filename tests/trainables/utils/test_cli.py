"""Nothing that is printed makes a terminal do anything, and all commands end alike."""

import ast
import errno
import importlib
import io
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.study.command import environment
from trainables.utils.checksums import DamagedError
from trainables.utils.cli import (
    escape_control_characters,
    explain_error,
    print_error,
    print_escaped,
    report_errors,
    write_json_option,
)
from trainables.utils.errors import MachineError, UserError

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
    assert capsys.readouterr().err == "study.run: a\\x1b[\nstudy.run: b\n"


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # the second one is that of the locale C
@pytest.mark.parametrize(("encoding", "shown"), [("ascii", b"gr??er ? 0.1\n"), ("latin-1", b"gr\xf6\xdfer ? 0.1\n")])
def test_what_a_terminal_cannot_show_is_replaced(encoding: str, shown: bytes, errors: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors)
    print_escaped("größer ≥ 0.1", stream, flush=True)
    assert stream.buffer.getvalue() == shown


def test_everything_is_printed_by_one_function() -> None:
    for package in ("study", "trainables", "search_spaces", "analysis", "records"):
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
    ("module", "arguments"),
    [
        ("analysis.compare", ("scores.csv",)),
        ("analysis.compare", ("scores.csv", "--baseline", "n\x1b[1mo")),
        ("analysis.compare", ("scores.csv", "--no\x1b[1mthing")),
        ("analysis.sample_size", ("n\x1b[1mo.csv",)),
        ("analysis.report", ("n\x1b[1mo",)),
        ("study.run", ("n\x1b[1mo",)),
        ("study.run", ("quick", "task.path=n\x1b[1mo", "task.name=qqp", "--prepare")),
        ("study.run", ("quick", "task.path=tas\x1b[1mk", "task.name=beir", "--prepare")),
        ("study.run", ("quick", "output.folder=n\x1b[1mo", "--dry-run")),
        ("study.sync", ("n\x1b[1mo",)),
        ("study.dashboard", ("n\x1b[1mo",)),
    ],
)
def test_no_command_hands_a_terminal_what_data_or_arguments_say_to_it(
    tmp_path: Path,
    module: str,
    arguments: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.csv").write_text(SCORES, "utf-8")
    qrels = tmp_path / "tas\x1b[1mk" / "qrels"
    qrels.mkdir(parents=True)
    for name in ("corpus", "queries"):
        (qrels.parent / f"{name}.jsonl").write_text('{"_id": "a", "text": "b"}\n', "utf-8")
    for split in ("train", "dev", "test"):
        (qrels / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\na\t\x1b[31mx\t1\n", "utf-8")
    try:
        status = importlib.import_module(module).main([*arguments])
    except SystemExit as end:  # argparse
        status = end.code
    told = "".join(capsys.readouterr())
    assert status in (0, 2), told
    assert told
    assert not [one for one in told if unicodedata.category(one) == "Cc" and one not in "\n\t"]
    assert "\u202e" not in told
    if arguments == ("scores.csv",):
        assert "e\\x1b[31mvil\\u202e" in told


COMMANDS = {
    "study.run": ("load_study", ["quick"]),
    "study.dashboard": ("load_study", ["quick", "--json", "-"]),
    "study.sync": ("sync_study", ["results"]),
    "analysis.report": ("open_results", ["results"]),
    "analysis.compare": ("read_score_file", ["scores.csv"]),
    "analysis.sample_size": ("read_score_file", ["scores.csv"]),
}
"""Each command, a function that it calls, and arguments with which it does."""
AGAIN = "rerun the same command"


@pytest.mark.parametrize(
    ("error", "status", "first", "last"),
    [
        (UserError("seeds", [], "a seed"), 2, "seeds: []; expected a seed", ""),
        (KeyboardInterrupt(), 1, "interrupted", AGAIN),
        (OSError(errno.ENOSPC, "x", "/a/b"), 1, "no space left on device in /a", f"free some space and {AGAIN}"),
        (PermissionError(errno.EACCES, "x", "/a/b"), 1, "no permission in /a", f"writable, and {AGAIN}"),
        (MachineError("a node died"), 1, "a node died", f"{AGAIN} to resume"),
        (OSError(errno.EIO, "Input/output error"), 1, "OSError: [Errno 5] Input", f"fix this and {AGAIN} to resume"),
    ],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_ends_alike(
    command: str,
    error: BaseException,
    status: int,
    first: str,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, arguments = COMMANDS[command]
    module = importlib.import_module(command)

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(module, name, fail)
    assert module.main(arguments) == status
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"{command}: {first}")
    assert told.err.count("\n") == 1
    assert last in told.err


def test_an_error_that_nobody_expected_keeps_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("one\x1b[31m")

    assert report_errors("a.command", fail) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "a.command: Traceback (most recent call last):"
    assert lines[-1] == "a.command: ValueError: one\\x1b[31m"
    assert report_errors("a.command", fail, lambda error: f"{error!r:.10}") == 1
    assert capsys.readouterr().err == "a.command: ValueError\n"
    assert report_errors("a.command", lambda: 7) == 7


def test_a_damaged_file_is_removed_when_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "part.npy").write_text("x")
    cause, remedy = explain_error(DamagedError(tmp_path / "part.npy", "is damaged", tmp_path / "part.npy"))
    assert cause.endswith("part.npy is damaged")
    assert remedy == "rerun the same command to create it again and resume"
    assert not (tmp_path / "part.npy").exists()


def test_a_json_file_that_cannot_be_written_is_a_mistake_and_a_full_disk_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"--json: {tmp_path}/file/x: .*; expected a file that can be written"):
        write_json_option(tmp_path / "file" / "x", {})

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("trainables.utils.cli.write_json", fail)
    with pytest.raises(OSError, match="No space"):
        write_json_option(tmp_path / "x.json", {})


@pytest.mark.parametrize(
    "arguments", [("study.run", "--dry-run", "--json", "output.folder=study"), ("analysis.compare", "scores.csv")]
)
def test_a_reader_who_has_read_enough_is_not_a_fault(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """The reader closes the pipe, like `| head`."""
    (tmp_path / "scores.csv").write_text(SCORES, "utf-8")
    with subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(ROOT)),
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["scores.csv"]
