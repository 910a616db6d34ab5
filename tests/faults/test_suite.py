"""A suite of two tasks by two samplers with a driver that is killed in the middle ends as one that was left alone."""

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.study.command import environment
from tests.study.suites.command import SAMPLERS, SUITE, command, contents, records, run, write

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
COMPARED = (
    "report/comparisons.json", "report/results.csv", "report/table.md", "suite.json", "*/plan.json", "*/search.json",
    "*/report/comparisons.json", "*/report/results.csv", "*/runs/*/scores.parquet", "*/runs/*/test_scores.parquet",
)  # fmt: skip
KILLS = 3
N_RECORDS = 4 * 2 * (2 + 5 * 2)
"""Records, from each study, on dev and test: BM25 and cosine, and five variants with two seeds."""


def start(place: Path, count: int) -> "subprocess.Popen[bytes]":
    """The suite's process, once there are `count` records."""
    process = subprocess.Popen(command(place), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 900
    while len(records(place)) < count and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    return process


def wait(place: Path, seconds: float) -> None:
    """Waits so long, or until the suite is nearly at its end."""
    deadline = time.monotonic() + seconds
    while len(records(place)) < N_RECORDS - 4 and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_killed_suite_ends_with_the_same_bytes(tmp_path):
    left_alone, killed, draw = tmp_path / "alone", tmp_path / "killed", random.Random(0)
    for place in (left_alone, killed):
        write(place, SUITE + SAMPLERS)
    alone = run(left_alone)
    assert alone.returncode == 0, alone.stdout + alone.stderr
    assert len(records(left_alone)) == N_RECORDS
    known = list[dict[str, int]]()
    for moment in sorted(draw.sample(range(2, N_RECORDS - 4), KILLS)):
        process = start(killed, moment)
        wait(killed, draw.uniform(0, 2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        known.append(records(killed))
        assert len(known[-1]) < N_RECORDS
    last = run(killed)
    assert last.returncode == 0, last.stdout + last.stderr
    after = records(killed)
    for before in known:
        assert {name: after[name] for name in before} == before
    assert "trials at once" not in run(killed).stdout
    assert records(killed) == after
    expected = contents(left_alone, COMPARED)
    assert len(expected) > N_RECORDS
    assert contents(killed, COMPARED) == expected
