"""A record is there whole or not at all."""

import hashlib
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from records import run_record as record
from records.scores import encode_scores
from tests.damages import DAMAGES
from trainables.utils.errors import UserError
from trainables.utils.files import write_json

SCORES = pd.DataFrame(
    {
        "split": ["dev"] * 4,
        "query_id": ["a", "a", "b", "b"],
        "document_id": ["1", "2", "1", "2"],
        "relevant": pd.array([1, 0, 1, 0], dtype="int8"),
        "score": [0.1 + 0.2, -1e-300, float("inf"), -0.0],
    }
)
CONTENT = encode_scores(SCORES)
ENTRY: dict[str, Any] = {"id": "abc", "state": "finished", "config": {}, "summary": {"dev/R10@1": 1 / 3}}
CURVE = [{"instances": count, "train/loss": 1 / count} for count in range(16, 20_016, 16)]
SPLITS: list[record.Split] = ["dev", "test"]


def written(folder: Path, split: record.Split, **more: Any) -> dict[str, Any]:
    """Adds to an entry what its record must contain: the checksum of the scores."""
    digest = hashlib.sha256(record.get_scores_path(folder, "abc", split).read_bytes()).hexdigest()
    return ENTRY | {"summary": ENTRY["summary"] | {f"{split}/scores_sha256": digest}} | more


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("split", SPLITS)
def test_what_was_written_is_read(tmp_path, split):
    assert record.read_run_record(tmp_path, "abc", split) is None
    assert not record.is_run_finished(tmp_path, "abc", split)
    record.write_run_record(tmp_path, split, ENTRY, CONTENT)
    assert record.read_run_record(tmp_path, "abc", split) == written(tmp_path, split)
    assert record.is_run_finished(tmp_path, "abc", split)
    kept = pd.read_parquet(record.get_scores_path(tmp_path, "abc", split))
    pd.testing.assert_frame_equal(kept, SCORES, check_exact=True)
    other = SPLITS[1 - SPLITS.index(split)]
    assert record.read_run_record(tmp_path, "abc", other) is None
    assert len(files(tmp_path)) == 2


def test_a_failed_run_is_recorded_but_not_finished_until_it_is(tmp_path):
    record.write_run_record(tmp_path, "dev", ENTRY | {"state": "failed"}, None)
    assert not record.is_run_finished(tmp_path, "abc")
    assert files(tmp_path) == ["runs/abc/record.json"]
    record.write_run_record(tmp_path, "dev", ENTRY, CONTENT)
    assert record.is_run_finished(tmp_path, "abc")


def test_the_curve_is_read_back_and_does_not_burden_the_record(tmp_path):
    """The curve has 1,250 batches, as the papers' trainings have."""
    assert record.read_history(tmp_path, "abc") == []
    record.write_run_record(tmp_path, "dev", ENTRY | {"history": CURVE}, CONTENT)
    assert record.read_history(tmp_path, "abc") == CURVE
    curve = hashlib.sha256((tmp_path / "runs/abc/history.json").read_bytes()).hexdigest()
    assert record.read_run_record(tmp_path, "abc") == written(tmp_path, "dev", history_sha256=curve)
    assert files(tmp_path) == [f"runs/abc/{name}" for name in sorted(record.list_record_files("dev"))]
    assert (tmp_path / "runs/abc/record.json").stat().st_size < 1000
    record.write_run_record(tmp_path, "dev", ENTRY | {"history": []}, None)
    assert record.read_history(tmp_path, "abc") == []


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("content", ["[" * 100_000, '{"state": "finished", "summary": {}}', "{}"])
def test_what_is_no_record_is_set_aside(tmp_path, split, content):
    path = record.get_run_folder(tmp_path, "abc") / record.list_record_files(split)[-1]
    path.parent.mkdir(parents=True)
    path.write_text(content)
    said = list[str]()
    record.set_aside_damaged_records(tmp_path, said.append)
    assert len(said) == 1
    assert said[0].startswith(f"{path}: ")
    assert record.read_run_record(tmp_path, "abc", split) is None


@pytest.mark.parametrize("content", [b"", b'[{"instances": 16', b"{}"])
def test_a_damaged_curve_is_one_line_that_names_the_file(tmp_path, content):
    record.write_run_record(tmp_path, "dev", ENTRY | {"history": CURVE}, CONTENT)
    path = tmp_path / "runs/abc/history.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(str(path))):
        record.read_history(tmp_path, "abc")


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("place", [0, 1, -1])
def test_an_evaluation_with_a_damaged_file_is_set_aside_and_named(tmp_path, split, place, damage):
    for one in SPLITS:
        record.write_run_record(tmp_path, one, ENTRY | ({"history": CURVE} if one == "dev" else {}), CONTENT)
    name, said = record.list_record_files(split)[place], list[str]()
    DAMAGES[damage](tmp_path / "runs/abc" / name)
    record.set_aside_damaged_records(tmp_path, said.append)
    last = record.list_record_files(split)[-1]
    no_record = damage == "missing" and name == last
    if no_record:
        assert said == []
    else:
        (line,) = said
        assert line.startswith(f"{tmp_path / 'runs/abc' / name}: ")
        assert line.endswith(f"renamed to {last}.damaged and the evaluation will be repeated")
    assert record.read_run_record(tmp_path, "abc", split) is None
    assert record.is_run_finished(tmp_path, "abc", SPLITS[1 - SPLITS.index(split)])
    assert record.has_test_scores(tmp_path) or (no_record and split == "test")
    record.write_run_record(tmp_path, split, ENTRY | ({"history": CURVE} if split == "dev" else {}), CONTENT)
    record.set_aside_damaged_records(tmp_path, said.append)
    assert len(said) == 1 - no_record


def test_a_damaged_record_may_be_set_aside_by_two_drivers(tmp_path):
    """The other one does it after this one has found the damage, and before it acts."""
    for run_id in ("abc", "abd"):
        record.write_run_record(tmp_path, "dev", ENTRY | {"id": run_id}, CONTENT)
        record.get_scores_path(tmp_path, run_id).unlink()
    said = list[str]()

    def set_aside_too(line: str) -> None:
        said.append(line)
        record.set_aside_damaged_records(tmp_path, said.append)

    record.set_aside_damaged_records(tmp_path, set_aside_too)
    assert len(said) == 2
    assert not record.has_records(tmp_path, "test")
    assert record.read_run_record(tmp_path, "abd") is None


def test_a_failed_run_with_a_damaged_curve_is_set_aside(tmp_path):
    failed = ENTRY | {"state": "failed", "history": CURVE}
    record.write_run_record(tmp_path, "dev", failed, None)
    record.set_aside_damaged_records(tmp_path, pytest.fail)
    (tmp_path / "runs/abc/history.json").write_bytes(b"")
    said = list[str]()
    record.set_aside_damaged_records(tmp_path, said.append)
    assert len(said) == 1
    assert record.read_run_record(tmp_path, "abc") is None


def test_every_flipped_bit_of_a_record_is_noticed_or_without_effect(tmp_path):
    """The effect that is none: a seal that is no seal any more, over a record that is as it was."""
    record.write_run_record(tmp_path, "dev", ENTRY, CONTENT)
    path, expected = tmp_path / "runs/abc/record.json", record.read_run_record(tmp_path, "abc")
    content = path.read_bytes()
    assert expected is not None
    for place in range(len(content)):
        for bit in range(8):
            path.write_bytes(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :])
            try:
                found = record.read_run_record(tmp_path, "abc")
            except UserError:
                continue
            assert {key: found[key] for key in expected} == expected


def test_records_of_before_they_were_sealed_are_read(tmp_path):
    record.write_run_record(tmp_path, "dev", ENTRY, CONTENT)
    write_json(tmp_path / "runs/abc/record.json", written(tmp_path, "dev"))
    record.set_aside_damaged_records(tmp_path, print)
    assert record.is_run_finished(tmp_path, "abc")


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full after half of the scores' bytes."""
    whole = Path.write_bytes

    def half(path: Path, content: bytes) -> None:
        whole(path, content[: len(content) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)


def test_a_failure_in_the_middle_of_the_scores_leaves_nothing(tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="no space"):
        record.write_run_record(tmp_path, "dev", ENTRY, CONTENT)
    assert files(tmp_path) == []
    assert record.read_run_record(tmp_path, "abc") is None


def test_a_failure_leaves_the_earlier_record_as_it_was(tmp_path, monkeypatch):
    record.write_run_record(tmp_path, "dev", ENTRY, CONTENT)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="no space"):
        record.write_run_record(tmp_path, "dev", ENTRY | {"other": 1}, CONTENT)
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Path("x")])
def test_a_record_that_is_not_json_is_an_error_and_nothing_says_finished(tmp_path, value):
    with pytest.raises((ValueError, TypeError)):
        record.write_run_record(tmp_path, "dev", ENTRY | {"summary": {"dev/R10@1": value}}, CONTENT)
    assert record.read_run_record(tmp_path, "abc") is None
    assert not any(name.startswith("runs/abc/.") for name in files(tmp_path))


@pytest.mark.parametrize("at", ["scores.parquet", "history.json", "record.json"])
def test_a_kill_before_a_file_takes_its_name_shows_no_record(tmp_path, at):
    """A process that kills itself, unable to clean up, when the complete temporary file is about to be renamed."""
    code = f"""
import os, signal, sys
from pathlib import Path
from records import run_record
replace = os.replace
def deadly(source, target):
    if Path(target).name == {at!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = deadly
run_record.write_run_record(Path(sys.argv[1]), "dev", {ENTRY | {"history": CURVE}!r}, b"scores")
"""
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert result.returncode == -signal.SIGKILL
    assert record.read_run_record(tmp_path, "abc") is None
    assert not record.is_run_finished(tmp_path, "abc")
    assert record.read_history(tmp_path, "abc") == []
    assert (tmp_path / "runs/abc/scores.parquet").exists() == (at != "scores.parquet")
    assert (tmp_path / "runs/abc/history.json").exists() == (at == "record.json")
    record.write_run_record(tmp_path, "dev", ENTRY, CONTENT)
    assert record.is_run_finished(tmp_path, "abc")
    pd.testing.assert_frame_equal(pd.read_parquet(record.get_scores_path(tmp_path, "abc")), SCORES)
