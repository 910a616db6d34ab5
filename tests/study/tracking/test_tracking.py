"""Files that the logger writes offline, with the real client in its real process; mirrors that were interrupted are
made whole again from the records."""

import hashlib
import json
import threading

import pandas as pd
import pytest
import wandb

from analysis.readers.wandb_offline import index_staged_files, is_complete, locate_staged_file, read_offline_runs
from records import run_record as record
from records.data_statistics import write_data_statistics
from study.config.schema import TrackingSettings
from study.tracking import Tracking, WandbLogger, offline_files
from study.tracking.payload import FINDINGS_FILE, Document, make_document_payload, read_project
from study.tracking.sync_state import get_evaluation_path, is_evaluation_synced
from study.tracking.wandb_run import prepare_client
from study.tracking.writer import RunWriter
from study.workflows.session import make_tracking as tracking_of
from tests.study.driving import STUDY
from tests.study.mirrors import CURVE, LABELS, PLAN, SPLITS, recorded
from trainables.utils.files import write_json
from trainables.utils.hashing import hash_json


@pytest.fixture
def tracking(tmp_path):
    write_json(tmp_path / "plan.json", {"plan": PLAN, "hash": hash_json(PLAN)})
    return Tracking(mode="offline", project="p", folder=tmp_path)


def write(tracking: Tracking, *written: record.Split | Document) -> None:
    """Do in this process what the one of a logger does, from its start to its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tracking.folder)
        for name in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_SILENT", "WANDB_ERROR_REPORTING"):
            patch.setenv(name, "")  # so that what `prepare_client` sets is taken back
        wandb.teardown()  # its service has a working directory and an environment of its own
        prepare_client(tracking)
        writer = RunWriter(tracking)
        for each in written:
            if each in SPLITS:
                writer.write_evaluation("abc", each)
            else:
                writer.write_document(each)
        writer.close()
        wandb.teardown()


def done(tracking: Tracking, split: record.Split) -> bool:
    return is_evaluation_synced(tracking, "abc", split, "finished")


def test_a_run_is_what_its_record_says(tracking):
    for split in SPLITS:
        recorded(tracking.folder, split)
    write(tracking, *SPLITS)
    (run,) = read_offline_runs(tracking.folder / "wandb")
    entries = [record.read_run_record(tracking.folder, "abc", split) for split in SPLITS]
    assert (run.id, run.group, run.job_type) == ("abc", "group", "search")
    assert run.config == LABELS | {key: entries[0][key] for key in ("versions", "commit", "hardware")}
    assert run.history == CURVE
    wanted = {key: value for entry in entries if entry for key, value in entry["summary"].items()}
    assert {key: run.summary[key] for key in wanted} == wanted
    assert sorted(run.artifacts) == ["scores-dev-abc", "scores-test-abc"]
    assert all(done(tracking, split) for split in SPLITS)
    files = sorted((tracking.folder / "wandb").glob("offline-run-*/run-abc.wandb"))
    assert len(files) == 2
    assert all(is_complete(file) for file in files)  # once it is said to be written, it is on disk


def test_the_files_name_no_folder_of_this_machine(tracking):
    """So a folder that was moved still has its scores."""
    recorded(tracking.folder, "dev")
    write(tracking, "dev")
    links = [path for path in tracking.folder.rglob("*") if path.is_symlink()]
    assert any(link.name == "debug-core.log" and link.is_file() for link in links)
    assert [link for link in links if link.readlink().is_absolute()] == []
    place = tracking.folder / "wandb" / "scores" / "scores-dev-abc.parquet"
    assert place.read_bytes() == record.get_scores_path(tracking.folder, "abc").read_bytes()
    (run,) = read_offline_runs(tracking.folder / "wandb")
    assert [file.staged for file in run.artifacts["scores-dev-abc"]] == [place.name]


def test_a_test_evaluation_that_is_written_first_brings_the_run_of_its_training(tracking):
    for split in SPLITS:
        recorded(tracking.folder, split)
    write(tracking, "test")
    assert all(done(tracking, split) for split in SPLITS)
    write(tracking, *SPLITS)
    (run,) = read_offline_runs(tracking.folder / "wandb")
    assert run.history == CURVE
    assert {"dev/R10@1", "test/R10@1"} <= run.summary.keys()
    assert len(list((tracking.folder / "wandb").glob("offline-run-*"))) == 2


def test_half_a_mirror_is_replaced(tracking):
    recorded(tracking.folder, "dev")
    write(tracking, "dev")
    get_evaluation_path(tracking.folder, "abc", "dev").unlink()
    write(tracking, "dev")
    (run,) = read_offline_runs(tracking.folder / "wandb")
    assert run.history == CURVE
    assert len(list((tracking.folder / "wandb").glob("offline-run-*"))) == 1


def test_a_run_that_failed_says_why_and_one_that_was_made_good_no_longer(tracking):
    recorded(tracking.folder, "dev", "failed")
    write(tracking, "dev")
    (run,) = read_offline_runs(tracking.folder / "wandb")
    assert (run.summary["state"], run.summary["error"]) == ("failed", "the loss is nan")
    assert not done(tracking, "dev")
    assert is_evaluation_synced(tracking, "abc", "dev", "failed")
    recorded(tracking.folder, "dev")
    write(tracking, "dev")
    (run,) = read_offline_runs(tracking.folder / "wandb")
    assert (run.summary["state"], "error" in run.summary) == ("finished", False)
    assert done(tracking, "dev")


def test_a_failed_test_takes_nothing_from_the_run_of_its_training(tracking):
    recorded(tracking.folder, "dev")
    recorded(tracking.folder, "test", "failed")
    write(tracking, *SPLITS)
    (run,) = read_offline_runs(tracking.folder / "wandb")
    assert (run.summary["state"], run.summary["dev/R10@1"]) == ("finished", 0.5)
    assert (run.summary["test/state"], run.summary["test/error"]) == ("failed", "the loss is nan")
    assert set(run.artifacts) == {"scores-dev-abc"}


def test_plan_search_and_findings_are_runs_of_their_own_and_the_latest_counts(tracking):
    logs = [{"LS": {"proposed": count, "proposals": []}} for count in (1, 2)]
    for number, log in enumerate(logs):
        write_json(tracking.folder / "search.json", {"systems": log})
        write_json(tracking.folder / FINDINGS_FILE, {"failed_runs": number})
        write(tracking, "plan", "search", "report")
    key = hash_json(PLAN)
    found = {run.id: run for run in read_offline_runs(tracking.folder / "wandb")}
    assert {name: run.job_type for name, run in found.items()} == {
        f"{name}-{key}": name for name in ("plan", "search", "report")
    }
    about = {"study": "small", "plan_hash": key}
    assert found[f"plan-{key}"].config == {**about, "plan": PLAN}
    assert found[f"search-{key}"].config == {**about, "search": {"systems": logs[1]}}
    assert found[f"report-{key}"].config == about
    assert found[f"report-{key}"].summary == {"state": "finished", "failed_runs": 1}
    assert len(list((tracking.folder / "wandb").glob("offline-run-*"))) == 3


def test_the_plan_is_logged_with_the_statistics_of_the_data_that_the_folder_has(tracking):
    setup = {"model": "org/bert", "data": "toy", "date": "2026-07-31", "commit": None}
    write_json(tracking.folder / "plan.json", {"plan": PLAN, "hash": hash_json(PLAN), "setup": setup})
    without = make_document_payload(tracking.folder, "plan")
    assert without.config["setup"] == setup
    statistics = {"columns": ["train"], "rows": [{"name": "queries", "decimals": 0, "values": [3]}], "legend": "."}
    write_data_statistics(tracking.folder, None)
    assert make_document_payload(tracking.folder, "plan") == without
    write_data_statistics(tracking.folder, statistics)
    written = (tracking.folder / "data.json").stat().st_mtime_ns
    write_data_statistics(tracking.folder, statistics)
    assert (tracking.folder / "data.json").stat().st_mtime_ns == written
    found = make_document_payload(tracking.folder, "plan")
    assert found.config == without.config | {"data_statistics": statistics}
    assert found.id == without.id
    assert found.version != without.version  # so that W&B gets it where an earlier version logged the plan
    (tracking.folder / "data.json").write_text("{")
    assert make_document_payload(tracking.folder, "plan") == without


def test_the_queries_are_a_run_of_their_own_with_the_file_as_it_is(tracking):
    assert make_document_payload(tracking.folder, "queries") is None
    path, key, known = tracking.folder / "queries.parquet", f"queries-{hash_json(PLAN)}", set()
    for turns in (1, 2, 2):
        pd.DataFrame([{"split": "dev", "query_id": "q", "turns": turns}]).to_parquet(path)
        write(tracking, "queries")
        found = make_document_payload(tracking.folder, "queries")
        known.add(found.version)
        (run,) = read_offline_runs(tracking.folder / "wandb")
        assert (run.id, run.job_type, run.config) == (key, "queries", {"study": "small", "plan_hash": hash_json(PLAN)})
        noted = hashlib.sha256(path.read_bytes()).hexdigest()
        assert run.summary == {"state": "finished", "queries_sha256": noted}
        ((staged,),) = run.artifacts.values()
        assert (list(run.artifacts), staged.path) == ([key], "queries.parquet")
        kept = locate_staged_file(staged, index_staged_files(tracking.folder / "wandb"), key)
        assert kept.read_bytes() == path.read_bytes()
        assert len(list((tracking.folder / "wandb").glob("offline-run-*"))) == 1
    assert len(known) == 2


def test_it_is_waited_for_until_the_end_of_a_run_is_on_disk(tracking, monkeypatch):
    recorded(tracking.folder, "dev")
    write(tracking, "dev")
    (file,) = (tracking.folder / "wandb").glob("offline-run-*/run-abc.wandb")
    content = file.read_bytes()
    file.write_bytes(content[:-20])
    assert not is_complete(file)
    writer = threading.Timer(0.3, file.write_bytes, [content])
    writer.start()
    offline_files.wait_until_written(file)
    assert file.read_bytes() == content
    writer.join()
    file.write_bytes(content[:-20])
    monkeypatch.setattr("study.tracking.offline_files._FINISH_TIMEOUT_S", 0.1)
    with pytest.raises(TimeoutError, match="did not write the end of the run"):
        offline_files.wait_until_written(file)


def test_another_mode_project_or_server_is_another_mirror(tracking, monkeypatch):
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)
    recorded(tracking.folder, "dev")
    write(tracking, "dev")
    online = tracking.model_copy(update={"mode": "online"})
    assert not done(online, "dev")
    assert done(tracking.model_copy(update={"mode": "disabled"}), "dev")
    note = get_evaluation_path(tracking.folder, "abc", "dev")
    write_json(note, json.loads(note.read_text("utf-8")) | {"/p": "finished"})
    assert done(online, "dev")
    assert not done(online.model_copy(update={"project": "q"}), "dev")
    assert not done(online.model_copy(update={"entity": "team"}), "dev")
    monkeypatch.setenv("WANDB_BASE_URL", "https://another")
    assert not done(online, "dev")


def test_the_owner_of_the_project_may_be_in_the_environment(monkeypatch):
    monkeypatch.delenv("WANDB_ENTITY", raising=False)
    assert (tracking_of(STUDY).project, tracking_of(STUDY).entity) == (STUDY.name, None)
    monkeypatch.setenv("WANDB_ENTITY", "team")
    assert tracking_of(STUDY).entity == "team"
    own = STUDY.model_copy(update={"tracking": TrackingSettings(entity="mine")})
    assert tracking_of(own).entity == "mine"


def test_what_is_brought_to_another_project_leaves_the_study_its_own(tracking):
    for made in (tracking, tracking.model_copy(update={"project": "other", "own": False})):
        write(made, "plan")
    assert read_project(tracking.folder) == ("p", None, None)


def test_of_a_disabled_study_nothing_is_written(tracking):
    recorded(tracking.folder, "dev")
    logger = WandbLogger(tracking.model_copy(update={"mode": "disabled"}), print)
    logger.log_evaluation("abc", "dev")
    assert logger.flush()
    assert not (tracking.folder / "wandb").exists()


def test_two_drivers_write_a_run_once(tracking):
    for split in SPLITS:
        recorded(tracking.folder, split)
    loggers = [WandbLogger(tracking, print) for _ in range(2)]
    for split in SPLITS:
        for logger in loggers:
            logger.log_evaluation("abc", split)
    for logger in loggers:
        assert logger.flush()
        logger.close()
    (run,) = read_offline_runs(tracking.folder / "wandb")
    assert run.history == CURVE
    assert len(list((tracking.folder / "wandb").glob("offline-run-*"))) == 2
    assert not list((tracking.folder / "wandb" / ".locks").iterdir())


def test_a_logger_that_is_killed_is_replaced_and_loses_nothing(tracking):
    said: list[str] = []
    recorded(tracking.folder, "dev")
    logger = WandbLogger(tracking, said.append)
    logger.log_document("plan")
    assert logger.flush()
    logger._process.kill()
    logger.log_evaluation("abc", "dev")
    assert logger.flush()
    logger.close()
    assert done(tracking, "dev")
    assert said == ["cannot write to W&B at the moment (its process was killed by signal 9)"]


def test_files_that_cannot_be_written_are_a_fault_that_says_why(tracking):
    (tracking.folder / "wandb").write_text("a file where a folder should be", encoding="utf-8")
    recorded(tracking.folder, "dev")
    logger = WandbLogger(tracking, print)
    logger.log_evaluation("abc", "dev")
    assert not logger.flush()
    logger.close()
    assert "FileExistsError" in logger.failure_reason
    assert not done(tracking, "dev")
