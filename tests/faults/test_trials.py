"""Trials that raise, hang, are killed once, allocate without end or score NaN: a study goes on and says why.

One study with a fault on almost every configuration, and a second start of it when the faults are gone.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from study.execution.failure import MAX_ATTEMPTS as TRIES_OF_MACHINE
from tests.study.command import copy_cache, finish, proposals, report, run, table

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only"),
]

ROOT = Path(__file__).parents[2]
STUDY = (
    'variants=["BERT", "LS"]',
    "search.epsilon=[0.1, 0.2, 0.3, 0.4]",
    "search.n_configurations.LS=4",
    "search.round_size=4",
    "training.instances=64",
    "trial.memory=2GB",
)
FAULTS = {
    "0.0 2": "hang",
    "0.1 1": "raise",
    "0.2 2": "allocate",
    "0.3 1": "score nan",
    "0.3 2": "be killed once",
    "0.4 1": "raise once",
}
"""By epsilon and seed; epsilon 0 is the baseline."""
CAUSES = {
    "0.0 2": (
        "a step took longer than trial.minutes = ",
        "; it hung in tests/faults/injected/sitecustomize.py:",
        "called from trainables/rankers/ranker_run.py:",
    ),
    "0.1 1": ("RuntimeError: no good in ", ", said (address)"),
    "0.2 2": ("more than trial.memory = 2 GB was needed: MemoryError",),
    "0.3 1": ("FloatingPointError: 3 of 200 dev scores are not finite after 32 instances",),
}
TRIES = {"hang": 1, "raise": 2, "allocate": 2, "score nan": 1, "be killed once": 2, "raise once": 2}


class Twice(NamedTuple):
    """A study with faults, and again without."""

    place: Path
    first: "subprocess.CompletedProcess[str]"
    happened: list[str]
    recorded: dict[str, dict[str, Any]]
    second: "subprocess.CompletedProcess[str]"


def trained(place: Path) -> dict[str, dict[str, Any]]:
    """The records of the baseline's and of LS's training, by epsilon and seed."""
    found = [json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/record.json")]
    return {
        f"{e['config']['epsilon']} {e['config']['seed']}": e for e in found if e["config"]["variant"] in ("BERT", "LS")
    }


def patience(reference: Path) -> float:
    """Minutes that no healthy step takes on this machine, in its present mood."""
    found = [json.loads(path.read_text("utf-8")) for path in (reference / "study").glob("runs/*/record.json")]
    return (10 + 4 * max(entry["summary"]["seconds"] for entry in found)) / 60


@pytest.fixture(scope="module")
def twice(finished_study, tmp_path_factory):
    place = tmp_path_factory.mktemp("faults")
    copy_cache(finished_study[0], place)
    log, path = place / "happened.txt", f"{ROOT / 'tests' / 'faults' / 'injected'}{os.pathsep}{ROOT}"
    limit = f"trial.minutes={patience(finished_study[0]):.2f}"
    injected = {"FAULTS": json.dumps(FAULTS), "FAULTS_LOG": str(log), "PYTHONPATH": path}
    first = run(place, *STUDY, limit, **injected)
    happened, recorded = log.read_text().splitlines(), trained(place)
    return Twice(place, first, happened, recorded, run(place, *STUDY, limit))


@pytest.mark.parametrize("name", CAUSES)
def test_each_failure_is_recorded_with_its_cause_and_told_by_configuration_and_seed(twice, name):
    epsilon, seed = name.split()
    error = twice.recorded[name]["summary"]["error"]
    assert twice.recorded[name]["state"] == "failed"
    assert all(part in error for part in CAUSES[name]), error
    label = f"BERT seed {seed}" if epsilon == "0.0" else f"LS epsilon {epsilon} seed {seed}"
    (line,) = [line for line in twice.first.stdout.splitlines() if re.match(rf" *\d+/\d+ +{label} ", line)]
    assert f"FAILED: {error}" in line


def test_the_study_goes_on_and_says_what_is_missing(twice):
    assert twice.first.returncode == 1
    (line,) = twice.first.stderr.splitlines()
    assert "no complete test result of BERT" in line
    assert "rerun the same command to retry failed runs" in line
    assert twice.recorded.keys() == {f"{epsilon} {seed}" for epsilon in (0.0, 0.1, 0.2, 0.3, 0.4) for seed in (1, 2)}


def test_a_trial_is_one_line_however_often_it_was_tried(twice):
    lines = re.findall(r"^ *\d+/\d+ +(.+?)  +(?:FAILED: |(dev|test)/)", twice.first.stdout, re.MULTILINE)
    assert set(Counter(lines).values()) == {1}
    assert "raylet" not in twice.first.stdout


def test_what_would_only_fail_again_is_not_tried_again(twice):
    assert Counter(twice.happened) == TRIES


@pytest.mark.parametrize("name", ["0.4 1", "0.3 2"])
def test_a_second_try_that_ends_well_leaves_nothing_of_the_first(twice, name):
    assert twice.recorded[name]["state"] == "finished"
    assert "error" not in twice.recorded[name]["summary"]


def test_a_trial_that_is_killed_again_and_again_stops_the_study_and_is_no_result(finished_study, tmp_path):
    """The system kills the nearest process when memory runs out: that says nothing about the configuration."""
    copy_cache(finished_study[0], tmp_path)
    path, log = f"{ROOT / 'tests' / 'faults' / 'injected'}{os.pathsep}{ROOT}", tmp_path / "happened.txt"
    injected = {"FAULTS": json.dumps({"0.0 2": "be killed"}), "FAULTS_LOG": str(log), "PYTHONPATH": path}
    first = run(tmp_path, **injected)
    assert first.returncode == 1
    (line,) = first.stderr.splitlines()
    assert line.startswith(f"study.run: BERT seed 2, {TRIES_OF_MACHINE} attempts: the trial's process was killed")
    assert "; rerun the same command to resume; full traceback: " in line
    assert log.read_text().splitlines() == TRIES_OF_MACHINE * ["be killed"]
    assert "FAILED" not in first.stdout
    assert "0.0 2" not in trained(tmp_path)
    finish(tmp_path)
    assert report(tmp_path) == report(finished_study[0])
    assert proposals(tmp_path) == proposals(finished_study[0])


def test_an_incomplete_configuration_is_not_averaged(twice):
    assert twice.recorded["0.2 1"]["state"] == "finished"
    row = next(line for line in table(twice.place).splitlines() if line.startswith("| LS |"))
    assert "| 0.4 |" in row


def test_the_next_start_tries_again_what_the_test_set_has_not_fixed(twice):
    assert twice.second.returncode == 0, twice.second.stdout + twice.second.stderr
    after = trained(twice.place)
    assert after["0.0 2"]["state"] == "finished"
    assert {name: entry for name, entry in after.items() if name != "0.0 2"} == {
        name: entry for name, entry in twice.recorded.items() if name != "0.0 2"
    }


def test_no_path_host_or_address_is_recorded(twice):
    study = twice.place / "study"
    files = [*study.glob("runs/*/*.json"), *(path for path in study.glob("report/*") if path.suffix != ".png")]
    private = [str(twice.place), f"{Path.home()}/", str(ROOT), "somebody", "secret/", "10.1.2.3"]
    for file in files:
        text = file.read_bytes().decode("latin-1")
        assert [word for word in private if word in text] == [], file.name
        assert re.search(rf"\b{re.escape(platform.node())}\b", text) is None, file.name
    assert list((twice.place / "cache" / "crash_reports").iterdir()) == []
