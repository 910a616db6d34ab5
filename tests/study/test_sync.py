"""A study brought to a W&B server later, by study.sync or by W&B's own command: the same as online, and once."""

import subprocess
import sys

import pandas as pd
import pytest
import wandb

from study.sync import main as sync
from study.tracking import Tracking, WandbLogger
from study.tracking.payload import read_project
from tests.plugins import take_back_plugins
from tests.study.mirrors import LABELS, PLAN, SPLITS, recorded
from trainables.utils.files import write_json
from trainables.utils.hashing import hash_json

pytestmark = pytest.mark.slow
SCHEDULE = """
from trainables.smoothing import SCHEDULES
from trainables.utils.base_settings import Settings

class SteepSettings(Settings):
    steepness: float = 1.0

@SCHEDULES.register("steep", "falls as a power", "an example", settings=SteepSettings)
def steep(epsilon, seen, total, steepness):
    return epsilon * (1 - seen / total) ** steepness
"""


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


def test_offline_and_then_synced_is_the_same_as_online_and_synced_twice_as_once(server, tracking, capsys):
    runs = [f"run{number}" for number in range(3)]
    for run_id in runs:
        for split in SPLITS:
            recorded(tracking.folder, split, run_id=run_id)
    recorded(tracking.folder, "dev", "failed", "bad")
    pd.DataFrame([{"split": "dev", "query_id": "q", "turns": 3}]).to_parquet(tracking.folder / "queries.parquet")
    evaluations = [*((run_id, split) for run_id in runs for split in SPLITS), ("bad", "dev")]
    ours, theirs = (f"{tracking.project[:30]}-{how}" for how in ("ours", "wandb"))
    offline = tracking.model_copy(update={"mode": "offline", "project": theirs})
    for made in (offline, tracking):
        logger = WandbLogger(made, print)
        logger.log_document("plan")
        logger.log_document("queries")
        for run_id, split in evaluations:
            logger.log_evaluation(run_id, split)
        assert logger.flush(), logger.failure_reason
        logger.close()

    def same(project: str) -> bool:
        """Returns True if two projects hold the same; the other one was written online."""
        found, expected = server.runs(project), server.runs(tracking.project)
        about = ("config", "history", "steps", "summary", "state", "group", "job_type", "artifacts", "versions")
        return found.keys() == expected.keys() and all(
            getattr(run, name) == getattr(expected[key], name) for key, run in found.items() for name in about
        )

    shown = server.runs(tracking.project)[f"queries-{hash_json(PLAN)}"]
    assert shown.artifacts == {shown.id: {"queries.parquet": (tracking.folder / "queries.parquet").read_bytes()}}

    for expected in ("; 7 evaluations uploaded now", "; 0 evaluations uploaded now"):
        assert sync([str(tracking.folder), "--project", ours]) == 0
        assert expected in capsys.readouterr().out
        assert same(ours)
    assert read_project(tracking.folder) == (tracking.project, None, None)
    assert "No runs to sync" in command(tracking, "sync", "wandb")
    for synced in (tracking.folder / "wandb").glob("offline-run-*/*.synced"):
        synced.unlink()
    for _ in range(2):
        command(tracking, "sync", "wandb")
        assert same(theirs)
    assert sync([str(tracking.folder), "--project", theirs]) == 0
    assert same(theirs)
    for run_id in ("run1", "bad", shown.id):
        wandb.Api().run(f"{ours}/{run_id}").delete()
    assert sync([str(tracking.folder), "--project", ours]) == 0
    assert "; 3 evaluations uploaded now" in capsys.readouterr().out
    assert same(ours)


def test_a_study_is_synced_with_its_plugins(server, tracking, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(SCHEDULE, encoding="utf-8")
    monkeypatch.setitem(LABELS, "steepness", 3.0)
    plan = PLAN | {"settings": {"plugins": ["mine"]}}
    write_json(tracking.folder / "plan.json", {"plan": plan, "hash": hash_json(plan)})
    recorded(tracking.folder, "dev")
    arguments = [str(tracking.folder), "--project", tracking.project]
    with take_back_plugins(tmp_path):
        assert sync(arguments) == 0
    assert server.runs(tracking.project)["abc"].name == "LS epsilon 0.2 steepness 3 seed 1"
    assert sync(arguments) == 2
    assert "plan.json: plugins: mine (ModuleNotFoundError: " in capsys.readouterr().err


def test_a_server_that_cannot_be_asked_is_one_line(server, tracking, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_HTTP_TIMEOUT", "1")
    server.kill()
    try:
        assert sync([str(tracking.folder)]) == 1
    finally:
        server.start()
    away = capsys.readouterr().err.splitlines()
    assert [
        line.startswith("study.sync: ") and line.endswith("; rerun the same command to resume") for line in away
    ] == [True]
    monkeypatch.setenv("WANDB_API_KEY", "f" * 40)
    assert sync([str(tracking.folder)]) == 2
    (refused,) = capsys.readouterr().err.splitlines()
    assert refused.startswith("study.sync: W&B: the server rejects the API key; expected a key of ")
