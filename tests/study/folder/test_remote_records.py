"""The copy of a study's records is whole, and a driver on a fresh machine repeats nothing that it has."""

import json
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from records import run_record as record
from records.run_record import get_marker_name
from records.scores import encode_scores
from study.config.loader import load_study
from study.folder.remote_records import RemoteRecords
from tests.study.driving import drive, names, scheduler
from tests.trainables.storages import KINDS, content, write
from tests.trainables.storages import place as some_place
from trainables.utils.errors import UserError
from trainables.utils.files import make_temporary_path, write_json
from trainables.utils.hashing import hash_json

CURVE = [{"instances": 16, "train/loss": 0.5}]


def scores(split: str) -> pd.DataFrame:
    row = {"split": split, "query_id": "q", "document_id": "d", "relevant": 1, "score": 0.5}
    return pd.DataFrame([row])


def recorded(folder: Path, run_id: str, split: record.Split = "dev", state: str = "finished") -> None:
    entry: dict[str, Any] = {"id": run_id, "state": state, "summary": {"state": state}}
    entry |= {"history": CURVE} if split == "dev" else {}
    content = encode_scores(scores(split)) if state == "finished" else None
    record.write_run_record(folder, split, entry, content)


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def planned(folder: Path, version: int = 1, name: str = "small", **more: Any) -> None:
    plan = {"study": name, "version": version, "families": [], **more}
    write_json(folder / "plan.json", {"plan": plan, "hash": hash_json(plan)})


def copy_of(place: str, folder: Path, log: Callable[[str], None] = pytest.fail) -> RemoteRecords:
    return RemoteRecords(place, folder, log)


def refuse(
    remote: RemoteRecords,
    patch: pytest.MonkeyPatch,
    is_refused: Callable[[str], object],
    told: str = "the network is gone",
) -> None:
    """Lets the storage of the copy take no file with this property."""
    put = remote._storage.put_file

    def put_or_refuse(name: str, source: Path) -> None:
        if is_refused(name):
            raise OSError(told)
        put(name, source)

    patch.setattr(remote._storage, "put_file", put_or_refuse)


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    return some_place(request.param, tmp_path / "bucket")


def test_what_one_machine_put_another_gets_byte_by_byte(place, tmp_path):
    for split in record.SPLITS:
        recorded(tmp_path / "one", "abc", split)
    recorded(tmp_path / "one", "bad", state="failed")
    for run_id, split in (("abc", "dev"), ("abc", "test"), ("bad", "dev")):
        copy_of(place, tmp_path / "one").upload_evaluation(run_id, split)
    assert copy_of(place, tmp_path / "other").download("small") == ["abc", "bad"]
    assert files(tmp_path / "other") == files(tmp_path / "one")
    assert record.read_history(tmp_path / "other", "abc") == CURVE


def test_only_what_is_not_finished_here_is_fetched(place, tmp_path):
    for run_id in ("abc", "def"):
        recorded(tmp_path / "one", run_id)
        copy_of(place, tmp_path / "one").upload_evaluation(run_id, "dev")
    recorded(tmp_path / "other", "abc")
    recorded(tmp_path / "other", "def", state="failed")
    mine = (tmp_path / "other" / "runs" / "abc" / "record.json").stat().st_mtime_ns
    assert copy_of(place, tmp_path / "other").download("small") == ["def"]
    assert record.is_run_finished(tmp_path / "other", "def")
    assert (tmp_path / "other" / "runs" / "abc" / "record.json").stat().st_mtime_ns == mine
    assert copy_of(place, tmp_path / "other").download("small") == []


@pytest.mark.parametrize("count", range(3))
def test_a_writer_that_fails_on_the_way_has_put_nothing_that_counts(tmp_path, monkeypatch, count):
    place = some_place("memory", tmp_path)
    recorded(tmp_path / "one", "abc")
    said = list[str]()
    archive, put = copy_of(place, tmp_path / "one", said.append), list[str]()
    refuse(archive, monkeypatch, lambda name: len(put) == count or put.append(name))
    archive.upload_evaluation("abc", "dev")
    assert ["the network is gone" in line for line in said] == [True]
    assert len(put) == count
    assert copy_of(place, tmp_path / "other").download("small") == []
    assert not (tmp_path / "other").exists()
    copy_of(place, tmp_path / "one").upload_evaluation("abc", "dev")
    assert copy_of(place, tmp_path / "other").download("small") == ["abc"]


def test_a_writer_killed_before_the_record_takes_its_name_has_put_nothing_that_counts(tmp_path):
    recorded(tmp_path / "one", "abc")
    code = """
import os, signal, sys
from pathlib import Path
from study.folder.remote_records import RemoteRecords
replace = os.replace
def deadly(source, target):
    if Path(target).name == "record.json":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
os.replace = deadly
RemoteRecords(sys.argv[1], Path(sys.argv[2]), print).upload_evaluation("abc", "dev")
"""
    place = f"file://{tmp_path}/bucket"
    ended = subprocess.run([sys.executable, "-c", code, place, str(tmp_path / "one")], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "bucket/runs/abc/scores.parquet").exists()
    assert copy_of(place, tmp_path / "other").download("small") == []


@pytest.mark.parametrize("name", ["record.json", "scores.parquet", "history.json"])
def test_what_somebody_removed_there_is_not_taken_for_a_finished_run(place, tmp_path, name):
    recorded(tmp_path / "one", "abc")
    copy_of(place, tmp_path / "one").upload_evaluation("abc", "dev")
    write(place, f"runs/abc/{name}", None)
    copy_of(place, tmp_path / "other").download("small")
    assert record.is_run_finished(tmp_path / "other", "abc") == (name == "history.json")


def test_a_damaged_record_there_counts_as_none_and_is_replaced(place, tmp_path):
    recorded(tmp_path / "one", "abc")
    copy_of(place, tmp_path / "one").upload_evaluation("abc", "dev")
    write(place, "runs/abc/record.json", b'{"state": "fin')
    archive = copy_of(place, tmp_path / "other")
    assert archive.download("small") == []
    assert not (tmp_path / "other").exists()
    recorded(tmp_path / "other", "abc")
    archive.upload_all("disabled")
    assert copy_of(place, tmp_path / "third").download("small") == ["abc"]


def test_other_things_there_are_no_runs(place, tmp_path):
    for path in ("runs/record.json", "runs/a/b/record.json", "runs/../record.json", "other/abc/record.json", "x"):
        write_to = tmp_path / "source"
        write_to.write_text("{}")
        copy_of(place, tmp_path)._storage.put_file(path, write_to)
    assert copy_of(place, tmp_path / "other").download("small") == []


@pytest.mark.parametrize("seed", range(2))
def test_a_study_goes_on_from_the_place_alone_on_a_fresh_machine(tmp_path, seed):
    """Killed on one machine after the other, each with an empty folder; no machine repeats what any one finished."""
    place, draw, started = some_place("memory", tmp_path), random.Random(seed), []
    whole = drive(scheduler(tmp_path / "whole"))
    for number in range(4):
        folder = tmp_path / f"machine-{number}"
        fetched = copy_of(place, folder).download("small")
        assert len(fetched) == len({request.trial.specification.id for request in started})
        stop = draw.randrange(1, 14) if number < 3 else None
        last = scheduler(folder)
        begun = drive(last, order=draw, concurrent=2, stop_after=stop)
        for request in begun:
            run_id, split = request.trial.specification.id, request.split
            if record.is_run_finished(folder, run_id, split):
                started.append(request)
                scores(split).to_parquet(record.get_scores_path(folder, run_id, split))
        copy_of(place, folder).upload_all("offline")
    assert last.is_finished
    assert names(started) == names(whole)


def test_an_upload_that_fails_is_told_and_made_good_with_the_next(tmp_path, monkeypatch):
    """A driver on another machine then finds all of it."""
    place, said = some_place("memory", tmp_path), list[str]()
    remote, reachable = copy_of(place, tmp_path / "one", said.append), False
    refuse(remote, monkeypatch, lambda _: not reachable, "the network\nis gone")
    monkeypatch.setattr("study.folder.remote_records._RETRY_INTERVAL_S", 0.0)
    for run_id in ("abc", "def"):
        recorded(tmp_path / "one", run_id)
        remote.upload_evaluation(run_id, "dev")
    assert said == [
        f"{count} not yet uploaded to output.remote (OSError: the network is gone); kept in {tmp_path / 'one'}"
        for count in ("1 evaluation", "2 evaluations")
    ]
    reachable = True
    recorded(tmp_path / "one", "ghi", "test", "failed")
    remote.upload_evaluation("ghi", "test")
    assert len(said) == 2
    assert copy_of(place, tmp_path / "other").download("small") == ["abc", "def", "ghi"]
    assert files(tmp_path / "other") == files(tmp_path / "one")


def test_a_rejected_record_keeps_no_other_waiting(tmp_path, monkeypatch):
    place, said = some_place("memory", tmp_path), list[str]()
    remote = copy_of(place, tmp_path / "one", said.append)
    refuse(remote, monkeypatch, lambda name: name.startswith("runs/bad/"), "refused")
    monkeypatch.setattr("study.folder.remote_records._RETRY_INTERVAL_S", 0.0)
    for run_id in ("bad", "abc", "def", "ghi"):  # of the last nothing is known before the next attempt
        recorded(tmp_path / "one", run_id)
        remote.upload_evaluation(run_id, "dev")
    assert copy_of(place, tmp_path / "other").download("small") == ["abc", "def"]
    remote.upload_rest("offline")
    assert said[-1].startswith("records not yet uploaded to output.remote (OSError: refused)")


def test_during_an_outage_not_every_evaluation_waits_for_it(tmp_path, monkeypatch):
    said = list[str]()
    remote = copy_of(some_place("memory", tmp_path), tmp_path / "one", said.append)
    refuse(remote, monkeypatch, lambda _: True)
    for run_id in ("abc", "def", "ghi"):
        recorded(tmp_path / "one", run_id)
        remote.upload_evaluation(run_id, "dev")
    assert len(said) == 1


def test_a_run_that_failed_in_the_copy_and_is_finished_here_replaces_it(place, tmp_path):
    recorded(tmp_path / "one", "abc", state="failed")
    copy_of(place, tmp_path / "one").upload_all("offline")
    recorded(tmp_path / "one", "abc")
    copy_of(place, tmp_path / "one").upload_all("offline")
    assert copy_of(place, tmp_path / "other").download("small") == ["abc"]
    assert record.is_run_finished(tmp_path / "other", "abc")


def test_a_place_named_later_gets_what_it_lacks(place, tmp_path):
    recorded(tmp_path / "one", "abc")
    recorded(tmp_path / "one", "bad", state="failed")
    for split in record.SPLITS:
        recorded(tmp_path / "one", "def", split)
    write_json(tmp_path / "one/runs/abc" / get_marker_name("dev"), {"mode": "offline"})
    copy_of(place, tmp_path / "one").upload_all("offline")
    assert copy_of(place, tmp_path / "other").download("small") == ["abc", "bad", "def"]
    assert files(tmp_path / "other").keys() == {name for name in files(tmp_path / "one") if "mirrored" not in name}


def test_that_a_server_has_a_run_is_known_on_other_machines(place, tmp_path):
    recorded(tmp_path / "one", "abc")
    write_json(tmp_path / "one/runs/abc" / get_marker_name("dev"), {"mode": "online"})
    copy_of(place, tmp_path / "one").upload_all("online")
    copy_of(place, tmp_path / "other").download("small")
    assert files(tmp_path / "other") == files(tmp_path / "one")


def test_plan_and_report_are_put_there_and_replaced(place, tmp_path):
    for version in (1, 2):
        planned(tmp_path / "one", version)
        write_json(tmp_path / "one/report/comparisons.json", [version])
        write_json(tmp_path / "one/search.json", {"version": version})
        write_json(tmp_path / "one/data.json", {"columns": [version]})
        (tmp_path / "one/queries.parquet").write_bytes(f"queries {version}".encode())
        copy_of(place, tmp_path / "one").upload_study()
    for name in ("plan.json", "data.json", "search.json", "queries.parquet", "report/comparisons.json"):
        assert content(place, name) == (tmp_path / "one" / name).read_bytes()
    copy_of(place, tmp_path / "fresh").download("small")
    assert (tmp_path / "fresh/queries.parquet").read_bytes() == b"queries 2"
    (tmp_path / "one/queries.parquet").write_bytes(b"own")
    copy_of(place, tmp_path / "one").download("small")
    assert (tmp_path / "one/queries.parquet").read_bytes() == b"own"


def test_a_report_that_another_driver_is_writing_is_not_put_there(tmp_path):
    for report in (tmp_path / "one/report", make_temporary_path(tmp_path / "one/report/report")):
        report.mkdir(parents=True)
        (report / "report.html").write_text("a page")
    make_temporary_path(tmp_path / "one/report/report.html").write_text("half a p")
    copy_of(str(tmp_path / "there"), tmp_path / "one").upload_study()
    assert files(tmp_path / "there") == {"report/report.html": b"a page"}


def test_the_newer_plan_counts(place, tmp_path):
    def version(folder: str) -> int:
        return int(json.loads((tmp_path / folder / "plan.json").read_text())["plan"]["version"])

    planned(tmp_path / "one", 2)
    copy_of(place, tmp_path / "one").upload_study()
    for folder, mine in (("fresh", None), ("older", 1), ("newer", 3), ("same", 2)):
        if mine:
            planned(tmp_path / folder, mine)
        copy_of(place, tmp_path / folder).download("small")
        assert version(folder) == max(2, mine or 0)


@pytest.mark.parametrize(
    ("theirs", "found"),
    [({"name": "other"}, "results of the study 'other'"), ({"alpha": 0.1}, "version 1 of the plan differs")],
)
def test_another_study_or_another_plan_there_is_an_error(place, tmp_path, theirs, found):
    planned(tmp_path / "one", **theirs)
    copy_of(place, tmp_path / "one").upload_study()
    planned(tmp_path / "other")
    before = files(tmp_path / "other")
    with pytest.raises(UserError, match=found):
        copy_of(place, tmp_path / "other").download("small")
    assert files(tmp_path / "other") == before


def test_a_place_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "plan.json").mkdir()
    with pytest.raises(UserError, match=r"output\.remote: cannot be read"):
        copy_of(str(tmp_path), tmp_path / "folder").download("small")


@pytest.mark.parametrize("key", ["output.remote", "cache.checkpoints"])
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://me:secret@bucket/x", "no password in it"),
        ("sftp://me:sec/ret@host/x", "no password in it"),
        ("nowhere://bucket", "a file system that fsspec knows"),
    ],
)
def test_a_place_that_cannot_be_is_an_error_without_showing_a_password(key, url, expected):
    with pytest.raises(UserError, match=expected) as told:
        load_study(None, [f"{key}={url}"])
    assert not {"secret", "sec/ret", "me:"} & set(str(told.value).replace("@", " ").split())
    assert "ret@" not in str(told.value)
