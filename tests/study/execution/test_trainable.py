"""Results of a trial for the driver: it needs no folder of the study, and what is lost on the way is found again."""

import json
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from records import run_record as record
from study.execution.trainable import StudyTrainable, TrialError
from study.scheduling.trials import TrialRequest
from study.tracking import Tracking
from tests.study.small import scheduler, study
from trainables.worker.gpu_errors import GpuFaultError, GpuPlace

CLOCK = {"seconds", "train/instances_per_second"}
"""What a record says of time, which is not repeated."""


@pytest.fixture
def requests(world, tmp_path):
    """Returns two requests of a study without records: of an untrained ranking and of a training."""
    shutil.copytree(world.cache / "prepared", tmp_path / "cache" / "prepared")
    begun = scheduler(world, study(world, tmp_path / "study", tmp_path / "cache"))
    found = {request.labels["variant"]: request for request in iter(begun.pop_request, None)}
    return {name: found[name] for name in ("BM25", "BERT")}


def trial(request: TrialRequest, folder: Path) -> StudyTrainable:
    tracking = Tracking(mode="offline", project="p", folder=folder).model_dump_json()
    config = {"trial": request.trial.model_dump_json(), "labels": json.dumps(request.labels), "tracking": tracking}
    return StudyTrainable(config=config)


def result(request: TrialRequest, folder: Path) -> dict[str, Any]:
    """The last result of a trial."""
    begun = trial(request, folder)
    while not (found := begun.step())["done"]:
        assert "record" not in found
    return found


def without_clock(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in CLOCK}


@pytest.mark.parametrize("name", ["BM25", "BERT"])
def test_a_trial_needs_no_folder_of_the_study(requests, tmp_path, name):
    """Its path is one that nobody can make; what the trial returns is a whole record elsewhere."""
    (tmp_path / "file").touch()
    found, request = result(requests[name], tmp_path / "file" / "study"), requests[name]
    record.write_run_record(tmp_path / "driver", "dev", json.loads(found["record"]), found["scores"])
    said: list[str] = []
    record.set_aside_damaged_records(tmp_path / "driver", said.append)
    assert said == []
    assert record.is_run_finished(tmp_path / "driver", request.trial.specification.id)
    scores = pd.read_parquet(record.get_scores_path(tmp_path / "driver", request.trial.specification.id))
    assert len(scores) > 0


def test_a_result_that_is_lost_on_the_way_costs_only_its_evaluation(requests, tmp_path):
    """The driver was killed, or its disk was full, between the end of the trial and the record."""
    lost, found = (result(requests["BERT"], tmp_path / "study") for _ in range(2))
    assert found["scores"] == lost["scores"]
    before, after = (json.loads(each["record"]) for each in (lost, found))
    assert before["summary"]["instances_resumed"] == 0
    assert after["summary"]["instances_resumed"] == before["summary"]["instances_trained"] > 0  # nothing is trained
    before["summary"]["instances_resumed"] = after["summary"]["instances_resumed"]
    assert without_clock(before["summary"]) == without_clock(after["summary"])
    assert [*map(without_clock, before["history"])] == [*map(without_clock, after["history"])]


def test_a_failure_brings_its_record_and_its_error(requests, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise FloatingPointError("not finite")

    monkeypatch.setattr("study.execution.trainable.encode_scores", fail)
    with pytest.raises(TrialError, match="FloatingPointError: not finite") as raised:
        result(requests["BM25"], tmp_path / "study")
    error, entry = pickle.loads(pickle.dumps(raised.value)).args
    assert isinstance(error, FloatingPointError)
    assert entry["id"] == requests["BM25"].trial.specification.id
    assert (entry["state"], entry["summary"]["error"]) == ("failed", "FloatingPointError: not finite")
    assert any("in fail" in line for line in entry["traceback"])
    assert {"versions", "hardware", "commit", "config"} <= entry.keys()


def test_a_fault_of_the_machine_brings_no_record(requests, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/cache/x")

    monkeypatch.setattr("study.execution.trainable.encode_scores", fail)
    with pytest.raises(PermissionError):
        result(requests["BM25"], tmp_path / "study")


@pytest.mark.parametrize(("text", "is_broken"), [("unspecified launch failure", True), ("out of memory", False)])
def test_a_fault_of_the_gpu_names_its_place_and_brings_no_record(requests, tmp_path, monkeypatch, text, is_broken):
    def fail(*_: object) -> None:
        raise RuntimeError(f"CUDA error: {text}")

    place = GpuPlace("3f2a9c1d" * 7, "1")
    monkeypatch.setattr("study.execution.trainable.encode_scores", fail)
    monkeypatch.setattr("study.execution.trainable._get_gpu_place", lambda: place)
    with pytest.raises(GpuFaultError, match=r"^GPU 1 of node 3f2a9c1d: ") as raised:
        result(requests["BM25"], tmp_path / "study")
    assert (raised.value.place, raised.value.is_broken) == (place, is_broken)


def test_a_trial_that_has_ended_keeps_no_memory_of_the_gpu_for_itself(requests, tmp_path, monkeypatch):
    emptied = list[bool]()
    begun = trial(requests["BM25"], tmp_path / "study")
    monkeypatch.setattr("trainables.worker.actor.empty_gpu_cache", lambda: emptied.append(begun._run is None))
    while not begun.step()["done"]:
        pass
    assert emptied == [True]


class UnreadableError(Exception):
    """One that can be written and not be read: what pickle keeps are its positional arguments."""

    def __init__(self, *, cause: str) -> None:
        super().__init__(cause)


@pytest.mark.parametrize("kind", ["lock", "keyword"])
def test_an_error_that_no_other_process_can_read_is_recorded_with_its_text(requests, tmp_path, monkeypatch, kind):
    def fail(self: StudyTrainable) -> None:
        if kind == "keyword":
            raise UnreadableError(cause="a shape is wrong")
        error = ValueError("a shape is wrong")
        error.lock = threading.Lock()
        raise error

    monkeypatch.setattr(StudyTrainable, "_work_with_repairs", fail)
    with pytest.raises(TrialError) as failed:
        trial(requests["BERT"], tmp_path / "study").step()
    again = pickle.loads(pickle.dumps(failed.value))
    assert again.record["summary"]["error"].endswith("a shape is wrong")
    assert str(again.error).endswith("a shape is wrong")
    assert "a shape is wrong" in again.record["traceback"][-1]
