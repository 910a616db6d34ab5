"""A sequential study with a driver that is killed in several groups takes the same looks and gives the same bytes."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from analysis.readers.study_reader import read_records, read_wandb_files
from analysis.tables.main import build_report_data
from tests.study.command import copy_cache, finish, records, results, run, started

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SEQUENTIAL = (
    'variants=["BERT", "LS"]',
    "search.n_configurations.LS=2",
    "confirm.seeds=6",
    "confirm.group_size=2",
    "analysis.seeds=own",
)
BY_EQUIVALENCE = (
    "analysis.margin=0.9",
    "analysis.seeds=own",
    "confirm.seeds=9",
    "confirm.group_size=3",
    "training.learning_rate=0.005",
)
"""All differences are within the margin, so the first look or the second decides. At the quick study's rate so short a
training gives LS the values of BERT everywhere, which is not decided."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    place = tmp_path_factory.mktemp("sequential")
    done = run(place, *SEQUENTIAL)
    assert done.returncode == 0, done.stdout + done.stderr
    return place, done.stdout


def looks(place: Path) -> list[list[dict[str, Any]]]:
    rows = json.loads((place / "study" / "report" / "comparisons.json").read_text("utf-8"))
    return [row["looks"] for row in rows]


def test_it_looks_after_each_group_and_says_so(reference):
    place, told = reference
    lines = re.findall(r"^look (\d), (\d) fresh seeds: (\d) of 1 comparisons decided", told, re.MULTILINE)
    assert [(number, seeds) for number, seeds, _ in lines] == [("1", "2"), ("2", "4"), ("3", "6")][: len(lines)]
    assert {tuple(look["seeds"] for look in own) for own in looks(place)} == {(2, 4, 6)[: len(lines)]}


def test_a_study_that_is_killed_in_its_groups_takes_the_same_looks(reference, tmp_path):
    place, whole = reference[0], len(records(reference[0]))
    copy_cache(place, tmp_path)
    for count in (11, 19, 26):  # of 9 of the search, and 8 of each group
        process = started(tmp_path, count, *SEQUENTIAL)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert len(records(tmp_path)) < whole, "it had ended before it was killed"
    finish(tmp_path, *SEQUENTIAL)
    assert results(tmp_path) == results(place)
    assert looks(tmp_path) == looks(place)


def test_records_and_offline_files_give_the_same_looks(reference):
    folder = reference[0] / "study"
    first, second = (build_report_data(read(folder)) for read in (read_records, read_wandb_files))
    assert first.looks == second.looks
    assert first.comparisons == second.comparisons


def test_a_decided_study_runs_no_further_group(tmp_path):
    done = run(tmp_path, *SEQUENTIAL, *BY_EQUIVALENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "; the confirmation stops" in done.stdout
    seeds = {json.loads(path.read_text("utf-8"))["config"]["seed"] for path in records_of(tmp_path)}
    assert max(seed for seed in seeds if seed is not None) < 109
    again = run(tmp_path, *SEQUENTIAL, *BY_EQUIVALENCE)
    assert again.returncode == 0
    assert not re.search(r"^ *\d+/\d+ ", again.stdout, re.MULTILINE), "a finished study trained again"


def records_of(place: Path) -> list[Path]:
    return list((place / "study").glob("runs/*/record.json"))
