"""The clock of a study goes on where it stopped, and a spent budget is named."""

import time

import pytest

from records import run_record as record
from records import search_log as searchlog
from search_spaces.ranker_search import RankerSearchSettings
from study.config.schema import ResourceSettings
from study.folder.run_store import RunStore
from study.scheduling.budget import ElapsedTime, find_exhausted_budget
from tests.study.driving import STUDY, drive, scheduler


def test_the_clock_counts_all_starts(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    first = ElapsedTime(tmp_path, time.monotonic(), print)
    now[0] += 5
    first.save()
    now[0] += 1000  # lost: killed before it was written down, or not running at all
    second = ElapsedTime(tmp_path, time.monotonic(), print)
    assert second.seconds == 5
    now[0] += 2.5
    assert second.seconds == 7.5


@pytest.mark.parametrize(
    "content", ["", "[]", '{"seconds": "long"}', "{}", f'{{\n "sha256": "{64 * "0"}",\n "seconds": 9}}']
)
def test_a_damaged_clock_begins_again_and_says_so(tmp_path, content):
    """It never keeps a finished study from its report."""
    (tmp_path / "clock.json").write_text(content)
    said: list[str] = []
    clock = ElapsedTime(tmp_path, time.monotonic(), said.append)
    assert clock.seconds < 5
    assert [line.partition(" is damaged")[0] for line in said] == [str(tmp_path / "clock.json")]
    clock.save()
    ElapsedTime(tmp_path, time.monotonic(), said.append)
    assert len(said) == 1


def test_a_budget_is_spent_when_it_is(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock, run_store = ElapsedTime(tmp_path, time.monotonic(), print), RunStore(tmp_path)
    study = STUDY.model_copy(update={"search": RankerSearchSettings(hours=1.5)})
    now[0] = 1.49 * 3600
    assert find_exhausted_budget(study, clock, run_store) is None
    assert find_exhausted_budget(STUDY, clock, run_store) is None
    now[0] = 1.5 * 3600
    assert find_exhausted_budget(study, clock, run_store) == "search.hours"


def test_gpu_hours_are_those_of_the_runs(tmp_path):
    """Two runs of an hour each on half a GPU, and one on a processor."""
    for run_id, device in (("a", "cuda:x"), ("b", "cuda:x"), ("c", "cpu")):
        config = {"specification": {"environment": {"device": device}}}
        entry = {"id": run_id, "state": "finished", "config": config, "summary": {"seconds": 3600.0}}
        record.write_run_record(tmp_path, "dev", entry, None)
    run_store = RunStore(tmp_path)
    for budget, expected in ((1.01, None), (0.99, "search.gpu_hours")):
        parts = {"search": RankerSearchSettings(gpu_hours=budget), "resources": ResourceSettings(gpu=0.5)}
        assert (
            find_exhausted_budget(
                STUDY.model_copy(update=parts), ElapsedTime(tmp_path, time.monotonic(), print), run_store
            )
            == expected
        )


def test_the_log_is_written_once_and_read_back(tmp_path):
    made = scheduler(tmp_path)
    drive(made)
    assert searchlog.read_searches(tmp_path) == {}
    assert searchlog.write_search_log(tmp_path, made.build_search_log())
    assert not searchlog.write_search_log(tmp_path, made.build_search_log())
    assert searchlog.read_searches(tmp_path) == made.build_search_log()["systems"]
    (tmp_path / "search.json").write_text("half")
    assert searchlog.read_searches(tmp_path) == {}
