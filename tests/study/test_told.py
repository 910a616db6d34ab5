"""What the command line says when a study breaks off: one line, status 1, and the whole story where there is room."""

import errno
import json
import os
from pathlib import Path

import pytest

from study import session
from study.run import main


def break_off(error: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """A start that finds one finished and one failed run, and ends with this error."""
    for name, state in (("a", "finished"), ("b", "failed")):
        (folder / "runs" / name).mkdir(parents=True)
        (folder / "runs" / name / "record.json").write_text(json.dumps({"state": state}))

    def conduct(*_: object) -> None:
        raise error

    monkeypatch.setattr(session, "conduct", conduct)
    return main(["quick", f"output.folder={folder}"])


@pytest.mark.parametrize(
    ("error", "start", "remedy"),
    [
        (
            OSError(errno.ENOSPC, "x", "/a/b"),
            "no space left on device in /a; ",
            "free some space and run the same command",
        ),
        (OSError(errno.ENOSPC, "x"), "no space left on device; ", "free some space and run the same command"),
        (
            ValueError("No space left on device"),
            "no space left on device; ",
            "free some space and run the same command",
        ),
        (
            OSError(errno.EROFS, "x", "/a/b"),
            "read-only file system in /a; ",
            "make it writable and run the same command",
        ),
        (
            PermissionError(errno.EACCES, "x", "/a/b"),
            "no permission in /a; ",
            "make it writable and run the same command",
        ),
    ],
)
def test_a_disk_that_takes_nothing_is_one_line_and_no_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    start: str,
    remedy: str,
) -> None:
    assert break_off(error, tmp_path, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"study.run: {start}1 finished runs are safe in {tmp_path}; {remedy}"
    assert not (tmp_path / "error.log").exists()


def test_anything_else_has_its_whole_story_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert break_off(ValueError("one\nboom"), tmp_path, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"study.run: ValueError: boom; 1 finished runs are safe in {tmp_path}; the same command goes on"
    )
    assert line.endswith(f"the whole story is in {tmp_path / 'error.log'}")
    story = (tmp_path / "error.log").read_text()
    assert "ValueError: one\nboom" in story
    assert str(Path.home()) + os.sep not in story


def test_a_story_that_cannot_be_written_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "error.log").mkdir()
    assert break_off(ValueError("boom"), tmp_path, monkeypatch) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("study.run: ValueError: boom; 1 finished runs are safe in ")
    assert line.endswith("the same command goes on from there; no error.log: is a directory")
