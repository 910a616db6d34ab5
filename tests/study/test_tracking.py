"""Mirrors interrupted at any point are made whole again from the records, with the real client, offline."""

import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.wandb_files import is_whole, read_folder
from study import record
from study.tracking import Tracking, _await_whole, mirror, mirror_search, mirrored

CONFIG: dict[str, Any] = {"variant": "LS", "role": "search", "seed": 1, "epsilon": 0.2, "specification_id": "abc"}
SPLITS: tuple[record.Split, record.Split] = ("dev", "test")


@pytest.fixture
def tracking(tmp_path: Path) -> Tracking:
    for split in SPLITS:
        entry = {"id": "abc", "configuration_id": "group", "state": "finished", "config": CONFIG}
        history = [{"instances": count, "train/loss": 1 / count} for count in (16, 32)] if split == "dev" else []
        entry |= {"summary": {"state": "finished", f"{split}/R10@1": 0.5}, "history": history}
        row = {"split": split, "query_id": "q", "document_id": "d", "relevant": 1, "score": 0.5}
        record.write(tmp_path, split, entry, pd.DataFrame([row]))
    return Tracking(mode="offline", project="p", folder=tmp_path)


def summary(tracking: Tracking) -> dict[str, Any]:
    (run,) = read_folder(tracking.folder / "wandb")
    return run.summary


def test_a_test_evaluation_joins_the_run_of_its_training(tracking):
    for split in SPLITS:
        mirror(tracking, "abc", split)
        assert mirrored(tracking, "abc", split)
    assert {"dev/R10@1", "test/R10@1"} <= summary(tracking).keys()


def test_a_training_mirrored_after_its_test_does_not_cost_the_test(tracking):
    mirror(tracking, "abc", "test")
    for split in SPLITS:
        if not mirrored(tracking, "abc", split):
            mirror(tracking, "abc", split)
    assert {"dev/R10@1", "test/R10@1"} <= summary(tracking).keys()
    assert all(mirrored(tracking, "abc", split) for split in SPLITS)


def test_a_mirror_that_is_said_to_be_made_is_on_disk(tracking):
    for split in SPLITS:
        mirror(tracking, "abc", split)
        files = sorted((tracking.folder / "wandb").glob("offline-run-*/run-abc.wandb"))
        assert files
        assert all(is_whole(file) for file in files)
    half = files[0].read_bytes()[:-20]
    files[0].write_bytes(half)
    assert not is_whole(files[0])


def test_a_mirror_waits_until_the_end_of_the_run_is_on_disk(tracking, monkeypatch):
    mirror(tracking, "abc")
    (file,) = (tracking.folder / "wandb").glob("offline-run-*/run-abc.wandb")
    content = file.read_bytes()
    file.write_bytes(content[:-20])
    writer = threading.Timer(0.3, file.write_bytes, [content])
    writer.start()
    _await_whole(file)
    assert file.read_bytes() == content
    writer.join()
    file.write_bytes(content[:-20])
    monkeypatch.setattr("study.tracking._PATIENCE", 0.1)
    with pytest.raises(TimeoutError, match="did not write the end of the run"):
        _await_whole(file)


def test_half_a_mirror_is_replaced(tracking):
    mirror(tracking, "abc")
    (tracking.folder / "runs" / "abc" / "mirrored-dev.json").unlink()
    mirror(tracking, "abc")
    (run,) = read_folder(tracking.folder / "wandb")
    assert [row["instances"] for row in run.history] == [16, 32]


def test_another_mode_is_another_mirror(tracking):
    mirror(tracking, "abc")
    assert not mirrored(tracking.model_copy(update={"mode": "online"}), "abc")
    assert mirrored(tracking.model_copy(update={"mode": "disabled"}), "abc")


def test_what_the_searches_did_is_a_run_of_its_own_and_the_latest_counts(tmp_path: Path) -> None:
    tracking = Tracking(mode="offline", project="small", folder=tmp_path)
    logs = [{"systems": {"LS": {"proposed": count, "proposals": []}}} for count in (1, 2)]
    for log in (logs[0], logs[1], logs[1]):
        mirror_search(tracking, "small", "0123", log)
    (found,) = read_folder(tmp_path / "wandb")
    assert (found.id, found.job_type) == ("search-0123", "search")
    assert found.config == {"study": "small", "plan_hash": "0123", "search": logs[1]}
    assert len(list((tmp_path / "wandb").glob("offline-run-*"))) == 1
