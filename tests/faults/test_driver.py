"""A study with a driver that is interrupted and killed again and again ends as one that was left alone."""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import pytest

from tests.processes import Process, processes, tree
from tests.study.command import (
    comparisons,
    copy_cache,
    finish,
    kill_within_a_run,
    records,
    results,
    run,
    started,
    table,
    weights,
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

KILLS = 3
PAIRS = (
    'variants=["BERT", "T-WSLS"]',
    "training.unit=pair",
    "training.batch_size=32",
    "training.negatives=9",
    "training.instances=704",
    "cache.checkpoint_interval=0",
)
"""Batches of single pairs: an epoch of 600 pairs ends within a batch. Each batch is a checkpoint."""
SIGNALS = {"SIGINT": "interrupted", "SIGTERM": "interrupted by SIGTERM", "SIGHUP": "interrupted by SIGHUP"}


def configurations(place: Path) -> Counter[tuple[Any, ...]]:
    """Counts the runs of each configuration."""
    found = (json.loads(path.read_text("utf-8"))["config"] for path in (place / "study").glob("runs/*/record.json"))
    return Counter((entry["variant"], entry["epsilon"], entry["switch"], entry["configuration_id"]) for entry in found)


class Disturbed(NamedTuple):
    """A study that was ended several times, and what was known each time."""

    reference: Path
    place: Path
    told: list[str]
    left: set[Process]
    known: list[dict[str, int]]
    last: "subprocess.CompletedProcess[str]"


@pytest.fixture(scope="module")
def disturbed(finished_study, tmp_path_factory):
    reference, place, draw = finished_study[0], tmp_path_factory.mktemp("disturbed"), random.Random(0)
    copy_cache(reference, place)
    told, known, children = list[str](), list[dict[str, int]](), set[Process]()
    for name in SIGNALS:
        process = started(place, len(records(place)) + 1)  # a record of its own: it hears signals
        alone, *others = sorted(tree(process.pid), key=lambda one: one.number != process.pid)
        for child in others if name == "SIGHUP" else []:  # a terminal that is closed tells all of them
            os.kill(child.number, signal.SIGHUP)
        process.send_signal(getattr(signal, name))
        told.append(process.communicate(timeout=60)[1])
        assert process.returncode == 1
        known.append(records(place))
        children |= {alone, *others}
    time.sleep(5)
    left = children & processes().keys()
    for moment in sorted(draw.sample(range(len(known[-1]) + 1, len(records(reference)) - 3), KILLS)):
        process = started(place, max(moment, len(records(place))))
        time.sleep(draw.uniform(0, 1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        known.append(records(place))
        assert len(known[-1]) < len(records(reference)), "it had ended before it was killed"
    return Disturbed(reference, place, told, left, known, run(place))


def test_it_ends_and_the_table_is_the_undisturbed_one(disturbed):
    assert disturbed.last.returncode == 0, disturbed.last.stdout + disturbed.last.stderr
    assert table(disturbed.place) == table(disturbed.reference)
    reports = (disturbed.place / "study" / "report", disturbed.reference / "study" / "report")
    assert comparisons(reports[0]) == comparisons(reports[1])
    assert weights(disturbed.place) == weights(disturbed.reference)


def test_an_interrupted_study_says_what_is_safe_and_how_to_go_on(disturbed):
    lines = zip(SIGNALS.values(), disturbed.told, strict=True)
    for what, told in lines:
        safe = rf"\d+ finished runs? kept in {re.escape(str(disturbed.place / 'study'))}"
        assert re.fullmatch(rf"study\.run: {what}; {safe}; rerun the same command to resume\n", told)


def test_an_interrupted_study_leaves_no_process(disturbed):
    assert disturbed.left == set()


def test_no_finished_run_is_repeated(disturbed):
    after = records(disturbed.place)
    assert len(disturbed.known[-1]) > len(disturbed.known[0]) > 0
    for before in disturbed.known:
        assert {name: after[name] for name in before} == before


def test_no_configuration_is_proposed_twice_and_none_next_to_the_undisturbed_ones(disturbed):
    found = configurations(disturbed.place)
    assert found == configurations(disturbed.reference)
    assert Counter(variant for variant, *_ in found) == {
        "BERT": 1,
        "BM25": 1,
        "cosine": 1,
        "LS": 1,
        "T-LS": 2,
        "WSLS": 1,
        "T-WSLS": 1,
    }


def test_nothing_is_left_behind(disturbed):
    paths = disturbed.place.rglob("*")
    assert [
        path.name
        for path in paths
        if path.suffix == ".claim" or path.name.startswith(".tune") or path.parent.name == "crash_reports"
    ] == []


def test_no_proposal_is_left_without_an_end(disturbed):
    """search.json has every proposal once and with its end, as in the undisturbed study."""
    paths = [place / "study" / "search.json" for place in (disturbed.place, disturbed.reference)]
    found, expected = (json.loads(path.read_text("utf-8"))["systems"] for path in paths)
    assert found == expected
    for system in found.values():
        values = [json.dumps(proposal["values"], sort_keys=True) for proposal in system["proposals"]]
        assert len(values) == len(set(values)) == system["proposed"]
        assert {proposal["state"] for proposal in system["proposals"]} <= {"complete", "dropped"}


def test_no_trial_of_optuna_is_left_running(disturbed):
    storage = f"sqlite:///{disturbed.place / 'study' / 'report' / 'optuna.db'}"
    names = optuna.get_all_study_names(storage)
    assert sorted(names) == ["LS", "T-LS", "T-WSLS", "WSLS"]
    for name in names:
        assert all(trial.state.is_finished() for trial in optuna.load_study(study_name=name, storage=storage).trials)


def test_a_study_of_pairs_that_is_killed_within_runs_gives_the_same_bytes(tmp_path_factory):
    reference, place = (tmp_path_factory.mktemp(name) for name in ("pairs", "killed-pairs"))
    finish(reference, *PAIRS)
    copy_cache(reference, place)
    for instances in (96, 384, 640):  # early, late in the first epoch, and in the second one
        kill_within_a_run(place, instances, *PAIRS)
        assert len(records(place)) < len(records(reference)), "it had ended before it was killed"
    finish(place, *PAIRS)
    assert results(place) == results(reference)
    entries = [json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/record.json")]
    resumed = [entry["summary"].get("instances_resumed", 0) for entry in entries]
    assert max(resumed) >= 640, "no killed run went on from within its second epoch"
