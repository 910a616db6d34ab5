"""What the scribe brings to a W&B server, with the real client: every run and every point once, whatever fails."""

import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.wandb_files import PROVENANCE
from study import record
from study.sync import main as sync
from study.tracking import Scribe, Tracking
from study.tracking.content import project_of
from study.tracking.markers import mirrored
from tests.study.test_tracking import CURVE, LABELS, PLAN, SPLITS, recorded
from tests.wandb_server import Server, ServerRun
from trainables.files import write_json
from trainables.specification import digest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def tracking(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracking]:
    """Of a project of the test's own."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "study"
    write_json(folder / "plan.json", {"plan": PLAN, "hash": digest(PLAN)})
    yield Tracking(mode="online", project=tmp_path.name, folder=folder)
    server.heal()


def scribed(tracking: Tracking, *evaluations: tuple[str, record.Split]) -> Scribe:
    """A scribe that has written these evaluations, as far as it could."""
    scribe = Scribe(tracking, print)
    for run_id, split in evaluations:
        scribe.evaluation(run_id, split)
    scribe.settle()
    scribe.close()
    return scribe


def whole(run: ServerRun, folder: Path, splits: tuple[record.Split, ...] = SPLITS) -> None:
    """Asserts that the server has exactly what the records say."""
    entries = [entry for split in splits if (entry := record.read(folder, run.id, split))]
    assert run.state == ("failed" if entries[-1]["state"] == "failed" else "finished")
    assert run.history == record.history(folder, run.id)
    assert run.steps == list(range(len(run.history)))
    wanted = {key: value for entry in entries for key, value in entry["summary"].items()}
    assert {key: run.summary.get(key) for key in wanted} == wanted
    assert run.config == entries[0]["config"] | {key: entries[0][key] for key in PROVENANCE if key in entries[0]}
    files = {f"scores-{split}-{run.id}": record.scores_file(folder, run.id, split) for split in splits}
    expected = {name: {"scores.parquet": path.read_bytes()} for name, path in files.items() if path.is_file()}
    assert run.artifacts == expected
    assert set(run.versions.values()) <= {1}


def test_a_run_is_shown_while_it_trains_and_ends_as_its_record_says(server: Server, tracking: Tracking) -> None:
    scribe = Scribe(tracking, print)
    scribe.rows(LABELS, CURVE[:1], 0)
    deadline = time.monotonic() + 60
    while not (found := server.runs(tracking.project).get("abc")) or not found.history:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (found.state, found.history) == ("running", CURVE[:1])
    for split in SPLITS:
        recorded(tracking.folder, split)
        scribe.evaluation("abc", split)
    assert scribe.settle(), scribe.reason
    scribe.close()
    assert scribe.shown("abc") == f"{server.url}/{server.entity}/{tracking.project}/runs/abc"
    whole(server.runs(tracking.project)["abc"], tracking.folder)


def test_rows_that_are_told_again_or_with_a_gap_are_no_other_points(server: Server, tracking: Tracking) -> None:
    scribe = Scribe(tracking, print)
    for start in (1, 0, 0):
        scribe.rows(LABELS, CURVE[start : start + 1], start)
    recorded(tracking.folder, "dev")
    scribe.evaluation("abc", "dev")
    assert scribe.settle(), scribe.reason
    scribe.close()
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))


def test_a_run_whose_driver_stopped_goes_on_where_it_was(server: Server, tracking: Tracking) -> None:
    scribe = Scribe(tracking, print)
    scribe.rows(LABELS, CURVE[:1], 0)
    scribe.close()
    stopped = server.runs(tracking.project)["abc"]
    assert stopped.state == "running"  # for W&B, until it misses the signs of life
    assert stopped.history in ([], CURVE[:1])
    again = Scribe(tracking, print)
    again.rows(LABELS, CURVE, 0)
    recorded(tracking.folder, "dev")
    again.evaluation("abc", "dev")
    assert again.settle(), again.reason
    again.close()
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))


def test_a_scribe_killed_at_any_moment_loses_and_doubles_nothing(server: Server, tracking: Tracking) -> None:
    evaluations = [(f"run{number}", split) for number in range(8) for split in SPLITS]
    for run_id, split in evaluations:
        recorded(tracking.folder, split, run_id=run_id)
    for seconds in (3.0, 4.0):
        scribe = Scribe(tracking, print)
        for run_id, split in evaluations:
            scribe.evaluation(run_id, split)
        process = scribe._process
        assert process is not None
        time.sleep(seconds)
        scribe._kill(process)
    scribe = scribed(tracking, *evaluations)
    assert not scribe.missing, scribe.reason
    found = server.runs(tracking.project)
    assert len(found) == 8
    for run in found.values():
        whole(run, tracking.folder)


def test_a_server_that_goes_and_comes_back_has_everything_once(server: Server, tracking: Tracking) -> None:
    evaluations = [(f"run{number}", split) for number in range(12) for split in SPLITS]
    for run_id, split in evaluations:
        recorded(tracking.folder, split, run_id=run_id)
    scribe = Scribe(tracking, print)
    scribe.document("plan")
    assert scribe.settle(), scribe.reason
    for run_id, split in evaluations:
        scribe.evaluation(run_id, split)
    while scribe.written < 3:
        time.sleep(0.02)
    server.kill()
    back = threading.Timer(4.0, server.start)
    back.start()
    try:
        assert scribe.settle(), scribe.reason
    finally:
        back.join()
    scribe.close()
    found = {name: run for name, run in server.runs(tracking.project).items() if run.job_type != "plan"}
    assert len(found) == 12
    for run in found.values():
        whole(run, tracking.folder)


@pytest.mark.long  # the client waits
def test_without_a_server_the_study_ends_and_a_later_start_brings_all(
    server: Server, tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("study.tracking.scribe._TRIES", 1)
    recorded(tracking.folder, "dev")
    server.kill()
    try:
        away = scribed(tracking, ("abc", "dev"))
    finally:
        server.start()
    assert away.evaluations == 1
    assert "connection refused" in away.reason
    assert "127.0.0.1" not in away.reason
    assert not mirrored(tracking, "abc", "dev", "finished")
    assert not scribed(tracking, ("abc", "dev")).missing
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))


@pytest.mark.long  # the client waits
def test_a_server_that_takes_nothing_is_given_up(
    server: Server, tracking: Tracking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("study.tracking.scribe._PATIENCE", 8.0)
    recorded(tracking.folder, "dev")
    server.fail(503, times=None, path="file_stream")
    started = time.monotonic()
    away = scribed(tracking, ("abc", "dev"))
    assert (away.evaluations, away.reason) == (1, "no answer for 8 s")
    assert time.monotonic() - started < 60
    server.heal()
    assert not scribed(tracking, ("abc", "dev")).missing
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))


@pytest.mark.parametrize(("key", "told"), [("f" * 40, "401"), ("short", "API key must"), ("", "No API key")])
def test_a_key_that_is_wrong_stops_no_study(
    server: Server, tracking: Tracking, monkeypatch: pytest.MonkeyPatch, key: str, told: str, tmp_path: Path
) -> None:
    recorded(tracking.folder, "dev")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_API_KEY", key)
    refused = scribed(tracking, ("abc", "dev"))
    assert told in refused.reason
    monkeypatch.setenv("WANDB_API_KEY", server.key)
    assert not scribed(tracking, ("abc", "dev")).missing
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))


def test_a_busy_server_is_asked_again(server: Server, tracking: Tracking) -> None:
    for split in SPLITS:
        recorded(tracking.folder, split)
    server.fail(429, times=3, retry_after=1)
    assert not scribed(tracking, *(("abc", split) for split in SPLITS)).missing
    whole(server.runs(tracking.project)["abc"], tracking.folder)


def test_a_failed_run_is_shown_as_failed_until_it_is_made_good(server: Server, tracking: Tracking) -> None:
    recorded(tracking.folder, "dev", "failed")
    assert not scribed(tracking, ("abc", "dev")).missing
    run = server.runs(tracking.project)["abc"]
    assert (run.state, run.summary["error"]) == ("failed", "the loss is nan")
    recorded(tracking.folder, "dev")
    assert not scribed(tracking, ("abc", "dev")).missing
    run = server.runs(tracking.project)["abc"]
    whole(run, tracking.folder, ("dev",))
    assert "error" not in run.summary


def command(tracking: Tracking, *arguments: str) -> str:
    """Runs `wandb` in the study's folder; returns what it said."""
    done = subprocess.run(
        [sys.executable, "-m", "wandb", *arguments],
        cwd=tracking.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout + done.stderr


def test_offline_and_then_synced_is_the_same_as_online_and_synced_twice_as_once(
    server: Server, tracking: Tracking, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [f"run{number}" for number in range(3)]
    for run_id in runs:
        for split in SPLITS:
            recorded(tracking.folder, split, run_id=run_id)
    recorded(tracking.folder, "dev", "failed", "bad")
    evaluations = [*((run_id, split) for run_id in runs for split in SPLITS), ("bad", "dev")]
    ours, theirs = (f"{tracking.project[:30]}-{how}" for how in ("ours", "wandb"))
    offline = tracking.model_copy(update={"mode": "offline", "project": theirs})
    for made in (offline, tracking):
        scribe = Scribe(made, print)
        scribe.document("plan")
        for run_id, split in evaluations:
            scribe.evaluation(run_id, split)
        assert scribe.settle(), scribe.reason
        scribe.close()

    def same(project: str) -> bool:
        """Whether two projects hold the same; the other one was written online."""
        found, expected = server.runs(project), server.runs(tracking.project)
        about = ("config", "history", "steps", "summary", "state", "group", "job_type", "artifacts", "versions")
        return found.keys() == expected.keys() and all(
            getattr(run, name) == getattr(expected[key], name) for key, run in found.items() for name in about
        )

    for expected in ("7 evaluations of them new", "0 evaluations of them new"):
        assert sync([str(tracking.folder), "--project", ours]) == 0
        assert expected in capsys.readouterr().out
        assert same(ours)
    assert project_of(tracking.folder) == (tracking.project, None)
    assert "No runs to sync" in command(tracking, "sync", "wandb")
    for synced in (tracking.folder / "wandb").glob("offline-run-*/*.synced"):
        synced.unlink()
    for _ in range(2):
        command(tracking, "sync", "wandb")
        assert same(theirs)
    assert sync([str(tracking.folder), "--project", theirs]) == 0
    assert same(theirs)


def test_nothing_that_names_key_user_host_or_home_leaves_or_stays(
    server: Server, tracking: Tracking, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home-of-somebody"
    home.mkdir()
    for name, value in {"HOME": str(home), "USER": "somebody-here", "LOGNAME": "somebody-here"}.items():
        monkeypatch.setenv(name, value)
    before = len(server.requests)
    for split in SPLITS:
        recorded(tracking.folder, split)
    for mode in ("offline", "online"):
        assert not scribed(tracking.model_copy(update={"mode": mode}), *(("abc", split) for split in SPLITS)).missing
    assert len(server.requests) > before
    secrets = [server.key, "home-of-somebody", "somebody-here", str(tmp_path), str(ROOT), sys.prefix, str(Path.home())]
    host = platform.node()
    secrets += [host] if len(host) > 3 else []
    sent = b"\n".join(list(server.everything())[before:])
    kept = {path: path.read_bytes() for path in tracking.folder.rglob("*") if path.is_file()}
    assert any(path.suffix == ".wandb" for path in kept)
    for secret in secrets:
        assert secret.encode() not in sent
        assert not [path for path, content in kept.items() if secret.encode() in content]


@pytest.mark.long  # the client waits
@pytest.mark.parametrize("where", ["file_stream", "CommitArtifact"])
def test_what_a_server_refuses_in_silence_is_noticed_and_brought_later(
    server: Server, tracking: Tracking, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr("study.tracking.scribe._TRIES", 1)
    recorded(tracking.folder, "dev")
    server.fail(404 if where == "file_stream" else 400, times=None, path=where)
    refused = scribed(tracking, ("abc", "dev"))
    assert refused.evaluations == 1
    assert refused.reason
    server.heal()
    assert not scribed(tracking, ("abc", "dev")).missing
    whole(server.runs(tracking.project)["abc"], tracking.folder, ("dev",))
