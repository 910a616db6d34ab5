"""A swept configuration of which a seed fails: what is said, what the study makes of it, and that sweeps after the test
change no choice."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.study.command import copy_cache, records, run, table

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
BROKEN = ("--sweep", "variant=WSLS", "epsilon=0.30000000000000004")
LATE = ("--sweep", "variant=T-LS", "epsilon=0.4", "switch=0.25")


class Swept(NamedTuple):
    """A sweep that fails, the study, a sweep, the study."""

    place: Path
    broken: "subprocess.CompletedProcess[str]"
    before: dict[str, int]
    study: "subprocess.CompletedProcess[str]"
    searches: list[dict[str, Any]]
    tables: list[str]
    late: "subprocess.CompletedProcess[str]"
    again: "subprocess.CompletedProcess[str]"


@pytest.fixture(scope="module")
def swept(finished_study, tmp_path_factory):
    place = tmp_path_factory.mktemp("swept")
    copy_cache(finished_study[0], place)
    path = f"{ROOT / 'tests' / 'faults' / 'injected'}{os.pathsep}{ROOT}"
    faults = {"FAULTS": json.dumps({"0.3 1": "raise"}), "FAULTS_LOG": str(place / "happened.txt"), "PYTHONPATH": path}
    broken = run(place, *BROKEN, **faults)
    before, study = records(place), run(place)
    searches, tables = [searched(place)], [table(place)]
    late, again = run(place, *LATE), run(place)
    return Swept(place, broken, before, study, [*searches, searched(place)], [*tables, table(place)], late, again)


def searched(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / "study" / "search.json").read_text("utf-8"))["systems"]
    return found


def test_a_seed_that_fails_is_status_1_with_its_cause_and_the_others_are_recorded(swept):
    assert swept.broken.returncode == 1
    (line,) = swept.broken.stderr.splitlines()
    assert "no result of this configuration (WSLS epsilon 0.3 seed 1: RuntimeError: no good in " in line
    assert "rerun the same command to retry failed runs" in line
    assert "WSLS epsilon 0.3 seed 2" in swept.broken.stdout
    assert "FAILED" in swept.broken.stdout
    assert len(swept.before) == 2


def test_the_study_completes_it_and_chooses_from_it(swept):
    assert swept.study.returncode == 0, swept.study.stdout + swept.study.stderr
    after = records(swept.place)
    (name,) = [name for name, written in swept.before.items() if after[name] != written]
    entry = json.loads((swept.place / name).read_text("utf-8"))
    assert (entry["state"], entry["config"]["variant"], entry["config"]["seed"]) == ("finished", "WSLS", 1)
    (own,) = [row for row in swept.searches[0]["WSLS"]["proposals"] if row.get("swept")]
    assert (own["state"], own["values"]) == ("complete", {"epsilon": 0.3})


def test_what_is_swept_after_the_test_is_recorded_and_changes_no_choice(swept):
    assert swept.late.returncode == swept.again.returncode == 0
    assert (
        "test scores exist: this configuration is recorded but does not change the study's choice" in swept.late.stdout
    )
    assert swept.tables[0] == swept.tables[1]
    winners = [{name: own["winner"] for name, own in search.items()} for search in swept.searches]
    assert winners[0] == winners[1]
