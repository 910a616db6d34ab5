"""Message of the command line when a study breaks off: one line, status 1, and the whole story where there is room."""

import errno
import json
import os
from pathlib import Path

import pytest

from study.run import main
from study.utils.error_text import IncompleteError
from study.workflows import session
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError


def break_off(error: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A start that finds one finished and one failed run, and ends with this error."""
    for name, state in (("a", "finished"), ("b", "failed")):
        (folder / "runs" / name).mkdir(parents=True)
        (folder / "runs" / name / "record.json").write_text(json.dumps({"state": state}))

    def conduct(*_: object) -> None:
        raise error

    monkeypatch.setattr(session, "run_study", conduct)
    return main(["quick", f"output.folder={folder}"])


FREE = "free some space and rerun the same command"
UNWRITABLE = [
    (OSError(errno.ENOSPC, "x", "/a/b"), "no space left on device in /a; ", FREE),
    (OSError(errno.ENOSPC, "x"), "no space left on device; ", FREE),
    (ValueError("No space left on device"), "no space left on device; ", FREE),
    (OSError(errno.EROFS, "x", "/a/b"), "read-only file system in /a; ", "make it writable and rerun the same command"),
    (
        PermissionError(errno.EACCES, "x", "/a/b"),
        "no permission in /a; ",
        "make it readable and writable, and rerun the same command",
    ),
]


@pytest.mark.parametrize(("error", "start", "remedy"), UNWRITABLE)
def test_a_disk_that_takes_nothing_is_one_line_and_no_file(tmp_path, monkeypatch, capsys, error, start, remedy):
    assert break_off(error, tmp_path, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"study.run: {start}1 finished run kept in {tmp_path}; {remedy}"
    assert not (tmp_path / "error.log").exists()


def test_anything_else_has_its_whole_story_in_a_file(tmp_path, monkeypatch, capsys):
    assert break_off(ValueError("one\nboom"), tmp_path, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"study.run: ValueError: boom; 1 finished run kept in {tmp_path}; full traceback: ")
    assert line.endswith(f"full traceback: {tmp_path / 'error.log'}")
    story = (tmp_path / "error.log").read_text()
    assert "ValueError: one\nboom" in story
    assert str(Path.home()) + os.sep not in story


def test_a_story_that_cannot_be_written_hides_nothing(tmp_path, monkeypatch, capsys):
    (tmp_path / "error.log").mkdir()
    assert break_off(ValueError("boom"), tmp_path, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("study.run: ValueError: boom; 1 finished run kept in ")
    assert line.endswith("; no error.log: is a directory")


@pytest.mark.parametrize(
    ("error", "told", "promise"),
    [
        (
            MachineError("BERT seed 1, 3 attempts: the trial's node died"),
            "BERT seed 1, 3 attempts: the trial's node died",
            "; rerun the same command to resume",
        ),
        (
            FileNotFoundError(2, "No such file", "/a/b"),
            "FileNotFoundError: [Errno 2] No such file: '/a/b'",
            "; fix this and rerun the same command to resume",
        ),
        (FloatingPointError("3 of 9 scores are not finite"), "FloatingPointError: 3 of 9 scores are not finite", ""),
        (
            IncompleteError("no complete test result of BERT", ["FloatingPointError: the loss"]),
            "no complete test result of BERT (FloatingPointError: the loss)",
            "; the same settings would fail again; change them, e.g. training.learning_rate, and output.folder",
        ),
        (
            IncompleteError("no complete test result of BERT", ["ValueError: x", "KeyError: y"]),
            "no complete test result of BERT (ValueError: x, and 1 more)",
            "; rerun the same command to retry failed runs (runs of the search only while there are no test scores)",
        ),
    ],
)
def test_that_the_same_command_goes_on_is_said_only_where_it_does(tmp_path, monkeypatch, capsys, error, told, promise):
    assert break_off(error, tmp_path, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    found, _, _ = line.partition("; full traceback: ")
    assert found == f"study.run: {told}; 1 finished run kept in {tmp_path}{promise}"


def test_a_damaged_file_of_the_cache_is_removed_so_that_the_same_command_makes_it_again(tmp_path, monkeypatch, capsys):
    (tmp_path / "cache").mkdir()
    file = tmp_path / "cache" / "part.npy"
    file.write_text("x")
    error = DamagedError(file, "does not have its checksum", unit=file)
    assert break_off(error, tmp_path / "study", monkeypatch) == 1
    assert "cache/part.npy does not have its checksum; " in (line := capsys.readouterr().err)
    assert "; rerun the same command to create it again and resume; " in line
    assert not file.exists()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b"\xff", b'{\n "sha256": "' + 64 * b"0" + b'",\n "state": "finished"}']
)
def test_damaged_records_do_not_keep_a_study_from_saying_what_happened(tmp_path, monkeypatch, capsys, content):
    """They are no finished runs."""
    (tmp_path / "runs" / "c").mkdir(parents=True)
    (tmp_path / "runs" / "c" / "record.json").write_bytes(content)
    (tmp_path / "runs" / "d" / "record.json").mkdir(parents=True)
    assert break_off(ValueError("boom"), tmp_path, monkeypatch) == 1
    assert "ValueError: boom; 1 finished run kept in " in capsys.readouterr().err
