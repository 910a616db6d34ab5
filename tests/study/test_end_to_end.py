"""A study from its command line to its table, run again, killed and taken up, read back from W&B's files alone."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from study.config import load
from study.sharing import shared, unshared
from tests.study.command import SMALL, command, comparisons, environment, records, run, table, weights

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A finished small study, and what it printed."""
    place = tmp_path_factory.mktemp("finished")
    result = run(place)
    assert result.returncode == 0, result.stdout + result.stderr
    return place, result.stdout


def test_every_run_has_a_record_and_a_wandb_run(finished):
    place, _ = finished
    done = records(place)
    trained = [name for name in done if name.endswith("record.json")]
    tested = [name for name in done if name.endswith("test.json")]
    assert len(trained) == 1 + 2 * (2 + 5)
    assert len(tested) == 1 + 2 * 6
    ids = {path.name.rsplit("-", 1)[1] for path in (place / "study" / "wandb").glob("offline-run-*")}
    assert {Path(name).parent.name for name in trained} <= ids


def test_the_table_names_every_system_and_the_last_lines_say_what_was_found(finished):
    place, printed = finished
    for name in ("BERT", "LS", "T-LS", "WSLS", "T-WSLS", "BM25", "untrained"):
        assert f"| {name} |" in table(place)
    assert "would have been seen" in printed or "differ" in printed
    assert "report.html" in printed


def test_two_stage_runs_start_from_the_constant_runs_checkpoints(finished):
    place, printed = finished
    assert "instances shared" in printed
    entries = [json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/record.json")]
    assert sum(entry["summary"]["instances_reused"] for entry in entries) > 0


def test_no_more_is_trained_than_was_planned(finished):
    place, printed = finished
    study = load("quick", [*SMALL, f"cache.folder={place / 'cache'}"])
    found = re.search(r"(\d+) instances trained, (\d+) without sharing", printed)
    assert found
    assert shared(study).low <= int(found[1]) <= shared(study).high
    assert int(found[2]) == unshared(study)


def test_again_trains_nothing_and_prints_the_same_table(finished):
    place, _ = finished
    before, printed_table = records(place), table(place)
    started = time.monotonic()
    again = run(place)
    assert again.returncode == 0, again.stderr
    assert records(place) == before
    assert table(place) == printed_table
    assert "trials at once" not in again.stdout
    assert time.monotonic() - started < 120


def _interruptible() -> None:
    """A shell's background jobs, and all that they start, ignore Ctrl-C otherwise."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def started(place: Path, count: int) -> subprocess.Popen[str]:
    """The study's process, once it has written `count` records."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command(place), env=environment(), text=True, preexec_fn=_interruptible, **pipes)
    deadline = time.monotonic() + 200
    while len(records(place)) < count and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(0.05)
    return process


@pytest.mark.timeout(600)
def test_interrupted_and_killed_it_goes_on_and_ends_with_the_same_table(finished, tmp_path):
    reference, _ = finished
    for kind in ("prepared", "sources"):
        shutil.copytree(reference / "cache" / kind, tmp_path / "cache" / kind)
    interrupted = started(tmp_path, 3)
    interrupted.send_signal(signal.SIGINT)
    _, told = interrupted.communicate(timeout=100)
    assert interrupted.returncode == 1
    assert "finished runs are safe" in told

    killed = started(tmp_path, len(records(tmp_path)) + 4)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    time.sleep(3)  # trials of a dead driver end by themselves
    before = records(tmp_path)
    assert 7 <= len(before) < len(records(reference))

    again = run(tmp_path)
    assert again.returncode == 0, again.stderr
    after = records(tmp_path)
    assert {name: after[name] for name in before} == before
    assert table(tmp_path) == table(reference)
    assert comparisons(tmp_path / "study" / "report") == comparisons(reference / "study" / "report")
    assert weights(tmp_path) == weights(reference)


def test_the_offline_wandb_folder_alone_gives_the_same_comparisons(finished, tmp_path):
    place, _ = finished
    shutil.copytree(place / "study" / "wandb", tmp_path / "elsewhere" / "wandb")
    (tmp_path / "home").mkdir()
    report = subprocess.run(
        [sys.executable, "-m", "analysis.report", str(tmp_path / "elsewhere"), "--output", str(tmp_path / "report")],
        capture_output=True,
        text=True,
        env=environment(HOME=str(tmp_path / "home")),
        timeout=120,
        check=False,
    )
    assert report.returncode == 0, report.stderr
    assert comparisons(tmp_path / "report") == comparisons(place / "study" / "report")


def test_the_records_give_the_same_table_as_wandb(finished, tmp_path):
    place, _ = finished
    study = tmp_path / "study"
    shutil.copytree(place / "study", study, ignore=shutil.ignore_patterns("wandb", "report"))
    report = subprocess.run(
        [sys.executable, "-m", "analysis.report", str(study)], capture_output=True, text=True, timeout=120, check=False
    )
    assert report.returncode == 0, report.stderr
    assert (study / "report" / "table.md").read_text("utf-8") == table(place)


def test_another_study_in_the_same_folder_is_refused(finished):
    place, _ = finished
    refused = run(place, "name=other")
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "results of the study 'small'; expected those of 'other'" in refused.stderr
