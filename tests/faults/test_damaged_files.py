"""Files of a cache and of a study's folder that are damaged, gone or not to be read: the same bytes in the end.

Starting over a damaged cache, resuming in a damaged folder, and damage while a study runs: each is
repaired, or reported in one line with a remedy that lets the same command repair it. Never another number.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.damages import DAMAGES
from tests.study.command import command, copy_cache, environment, proposals, report, run, started

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

CACHE = (
    "prepared/*/queries.parquet", "prepared/*/documents.parquet", "prepared/*/candidates.parquet",
    "prepared/*/domains-*.parquet", "prepared/*/domains-*.sha256", "prepared/*/meta.json",
    "prepared/*/statistics.json", "prepared/*/SHA256SUMS", "sources/*.json", "sources/*.sha256", "tokens/*/ids.npy",
    "tokens/*/offsets.npy", "tokens/*/starts.npy", "tokens/*/meta.json", "tokens/*/SHA256SUMS",
    "features/*/part-*.npy", "features/*/part-*.sha256", "stages/*/stage.json", "stages/*/state.safetensors",
)  # fmt: skip
STUDY = (
    "data.json", "search.json", "clock.json", "queries.parquet", "runs/*/record.json", "runs/*/test.json",
    "runs/*/scores.parquet", "runs/*/test_scores.parquet", "runs/*/history.json", "runs/*/mirrored-dev.json",
    "runs/*/mirrored-test.json", "wandb/.project.json", "wandb/.plan-*.json", "wandb/.report-*.json",
    "report/findings.json", "report/comparisons.json", "report/results.csv", "report/table.md", "report/optuna.db",
)  # fmt: skip
SOMEBODY = 12345
ALLOWED = shutil.which("unshare") and subprocess.run(["unshare", "-r", "true"], capture_output=True).returncode == 0


def check(place: Path, reference: Path, ended: "subprocess.CompletedProcess[str]") -> None:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert report(place) == report(reference)
    assert proposals(place) == proposals(reference)


def states(place: Path) -> list[str]:
    """Reads the state of every recorded evaluation."""
    found = [*place.glob("study/runs/*/record.json"), *place.glob("study/runs/*/test.json")]
    return [json.loads(path.read_text("utf-8"))["state"] for path in found]


def one_line(ended: "subprocess.CompletedProcess[str]") -> str:
    assert ended.returncode in (1, 2), ended.stdout + ended.stderr
    (line,) = ended.stderr.strip().splitlines()
    assert line.startswith("study.run: ")
    return line


def some(folder: Path, patterns: Iterable[str], every: int = 2) -> list[Path]:
    """Selects every second file of each kind."""
    found = [sorted(folder.glob(pattern))[::every] for pattern in patterns]
    assert all(found), patterns
    return [path for paths in found for path in paths]


@pytest.fixture
def copy(finished_study, tmp_path):
    """A finished study with its cache, where others have not been."""
    shutil.copytree(finished_study[0], tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_study_that_starts_over_a_damaged_cache_is_the_undisturbed_one(finished_study, tmp_path, damage):
    copy_cache(finished_study[0], tmp_path, stages=True)
    for path in some(tmp_path / "cache", CACHE):
        DAMAGES[damage](path)
    ended = run(tmp_path)
    check(tmp_path, finished_study[0], ended)
    assert "are damaged or lack checksums: preparing them again" in ended.stdout
    assert damage == "missing" or "; it was removed and recomputed" in ended.stdout


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_study_that_resumes_among_damaged_files_is_the_undisturbed_one(finished_study, copy, damage):
    damaged = [*some(copy / "cache", CACHE), *some(copy / "study", STUDY)]
    for path in damaged:
        DAMAGES[damage](path)
    ended = run(copy)
    check(copy, finished_study[0], ended)
    for path in damaged:
        if path.name in ("record.json", "test.json") and damage != "missing":
            assert f"{path}: " in ended.stdout


@pytest.mark.parametrize("kind", STUDY)
def test_each_kind_of_file_of_a_study_is_made_good_alone(finished_study, copy, kind):
    for path in some(copy / "study", [kind], every=100):
        DAMAGES["flipped"](path)
    check(copy, finished_study[0], run(copy))


@pytest.mark.parametrize("kind", ["wandb/offline-run-*/run-*.wandb", "wandb/scores/*.parquet"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_of_wandb_are_an_error_or_completed_and_written_again_without_them(
    finished_study, copy, kind, damage
):
    for path in some(copy / "study", [kind], every=3):
        DAMAGES[damage](path)
    ended = run(copy)
    if ended.returncode:
        assert "wandb" in one_line(ended)
        shutil.rmtree(copy / "study" / "wandb")
        for path in (copy / "study").glob("runs/*/mirrored-*.json"):
            path.unlink()
        ended = run(copy)
    check(copy, finished_study[0], ended)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_plan_is_an_error_and_never_declared_again(finished_study, copy, damage):
    plan = copy / "study" / "plan.json"
    kept = plan.read_bytes()
    DAMAGES[damage](plan)
    assert f"{plan}: " in one_line(run(copy))
    plan.write_bytes(kept)
    check(copy, finished_study[0], run(copy))


@pytest.mark.skipif(os.geteuid() == 0 and not ALLOWED, reason="root reads everything, and may have no namespace here")
@pytest.mark.parametrize("kinds", [CACHE, STUDY], ids=["cache", "study"])
def test_files_that_may_not_be_read_stop_a_study_in_one_line_and_change_nothing(finished_study, copy, kinds):
    """The root of a user namespace may not read the files of others."""
    folder = copy / ("cache" if kinds is CACHE else "study")
    if kinds is CACHE:
        shutil.rmtree(copy / "study" / "runs")
    found = some(folder, [kind for kind in kinds if kind.startswith(("runs", "stages"))], every=1)
    for path in found:
        path.chmod(0o600 if os.geteuid() == 0 else 0)
        if os.geteuid() == 0:
            os.chown(path, SOMEBODY, SOMEBODY)
    alone = ["unshare", "-r"] if os.geteuid() == 0 else []
    first = subprocess.run(
        [*alone, *command(copy)], capture_output=True, text=True, env=environment(), timeout=800, check=False
    )
    assert "no permission" in one_line(first)
    assert "FAILED" not in first.stdout
    for path in found:
        if os.geteuid() == 0:
            os.chown(path, 0, 0)
        path.chmod(0o644)
    assert "failed" not in states(copy)
    check(copy, finished_study[0], run(copy))


def ended(process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    out, err = process.communicate(timeout=800)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.mark.parametrize("damage", ["flipped", "truncated", "missing"])
def test_damage_while_a_study_runs_is_made_good_by_it_or_by_the_next_start(finished_study, tmp_path, damage):
    """Files that a process may have mapped are flipped and not cut, since a cut would end it."""
    copy_cache(finished_study[0], tmp_path)
    process = started(tmp_path, 3)
    kinds = [kind for kind in CACHE if damage != "truncated" or not kind.endswith(".npy")]
    kinds = [kind for kind in kinds if not kind.startswith("stages")]
    for path in some(tmp_path / "cache", kinds):
        DAMAGES[damage](path)
    first = ended(process)
    if first.returncode:
        assert "rerun the same command to" in one_line(first)
        first = run(tmp_path)
    check(tmp_path, finished_study[0], first)


def test_a_cache_that_is_moved_away_for_a_while_leaves_no_trace(finished_study, tmp_path):
    """No run fails by it, no search is told of it, and the report is the undisturbed one."""
    copy_cache(finished_study[0], tmp_path)
    process = started(tmp_path, 3)
    (tmp_path / "cache").rename(tmp_path / "away")
    (tmp_path / "cache").write_text("nothing can be made here")
    first = ended(process)
    assert "rerun the same command to" in one_line(first)
    assert set(states(tmp_path)) == {"finished"}
    (tmp_path / "cache").unlink()
    (tmp_path / "away").rename(tmp_path / "cache")
    check(tmp_path, finished_study[0], run(tmp_path))
