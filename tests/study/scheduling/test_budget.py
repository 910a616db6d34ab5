"""The clock of a study goes on where it stopped, and a spent budget is named."""

import time
from pathlib import Path

import pytest

from search_spaces.ranker import RankingSearch
from study.config.schema import ResourceSettings
from study.records import run_record as record
from study.records import search_log as searchlog
from study.records.run_store import Ledger
from study.scheduling.budget import Clock, spent
from tests.study.driving import STUDY, campaign, drive


def test_the_clock_counts_all_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    first = Clock(tmp_path, time.monotonic(), print)
    now[0] += 5
    first.keep()
    now[0] += 1000  # lost: killed before it was written down, or not running at all
    second = Clock(tmp_path, time.monotonic(), print)
    assert second.seconds == 5
    now[0] += 2.5
    assert second.seconds == 7.5


@pytest.mark.parametrize(
    "content", ["", "[]", '{"seconds": "long"}', "{}", f'{{\n "sha256": "{64 * "0"}",\n "seconds": 9}}']
)
def test_a_damaged_clock_begins_anew_and_says_so(tmp_path: Path, content: str) -> None:
    """It never keeps a finished study from its report."""
    (tmp_path / "clock.json").write_text(content)
    said: list[str] = []
    clock = Clock(tmp_path, time.monotonic(), said.append)
    assert clock.seconds < 5
    assert [line.partition(" is damaged")[0] for line in said] == [str(tmp_path / "clock.json")]
    clock.keep()
    Clock(tmp_path, time.monotonic(), said.append)
    assert len(said) == 1


def test_a_budget_is_spent_when_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock, ledger = Clock(tmp_path, time.monotonic(), print), Ledger(tmp_path)
    study = STUDY.model_copy(update={"search": RankingSearch(hours=1.5)})
    now[0] = 1.49 * 3600
    assert spent(study, clock, ledger) is None
    assert spent(STUDY, clock, ledger) is None
    now[0] = 1.5 * 3600
    assert spent(study, clock, ledger) == "search.hours"


def test_gpu_hours_are_those_of_the_runs(tmp_path: Path) -> None:
    """Two runs of an hour each on half a GPU, and one on a processor."""
    for run_id, device in (("a", "cuda:x"), ("b", "cuda:x"), ("c", "cpu")):
        config = {"specification": {"environment": {"device": device}}}
        entry = {"id": run_id, "state": "finished", "config": config, "summary": {"seconds": 3600.0}}
        record.write(tmp_path, "dev", entry, None)
    ledger = Ledger(tmp_path)
    for budget, expected in ((1.01, None), (0.99, "search.gpu_hours")):
        parts = {"search": RankingSearch(gpu_hours=budget), "resources": ResourceSettings(gpu=0.5)}
        assert spent(STUDY.model_copy(update=parts), Clock(tmp_path, time.monotonic(), print), ledger) == expected


def test_the_log_is_written_once_and_read_back(tmp_path: Path) -> None:
    made = campaign(tmp_path)
    drive(made)
    assert searchlog.read(tmp_path) == {}
    assert searchlog.write(tmp_path, made.log())
    assert not searchlog.write(tmp_path, made.log())
    assert searchlog.read(tmp_path) == made.log()["systems"]
    (tmp_path / "search.json").write_text("half")
    assert searchlog.read(tmp_path) == {}
