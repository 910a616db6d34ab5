"""The memory and the open files of a driver and of its worker do not grow with the number of runs.

Two studies of more than 400 real runs, by the real command. One is of the example's trainable: its runs cost almost
nothing compared with what the driver and the worker do around them. The other is of a tiny BERT, which opens tokens,
features and weights.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.plugins import EXAMPLE, ROOT
from tests.processes import tree
from tests.study.command import SMALL, environment, merged
from tests.trainables.small import write_bert

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc"),
]

RUNS = 400
WARM = 20
"""Runs after which the allocator and the caches have their size."""
MARKS = (20, 100, 200, 300, 400)
GROWTH = 4.0
"""MB that 100 more runs may take, by the medians of two halves, which a single step of the allocator moves little. The
driver keeps the summaries of all runs."""
_WORKER = ("ray::Trial", "ray::ResourceTrainable")
"""Titles of a process that runs trials, between two steps and in one."""
NOISE = 3
"""Files that may be open at one moment and not at another."""

SEEDS = f"seeds={list(range(1, 15))}"
ONE = "resources.concurrent=1"


class Sample(NamedTuple):
    """A process at one moment."""

    runs: int
    """That have ended."""
    megabytes: float
    """Resident."""
    files: int
    """Open."""


def test_a_study_of_points_is_flat(tmp_path):
    counts = "search.n_configurations={HARD = 2, SOFT = 6, T-SOFT = 18}"
    settings = ("search.learning_rate=[0.3, 0.5]", "tracking.mode=offline", counts)
    paths = os.pathsep.join([str(EXAMPLE), str(ROOT)])
    _flat(_samples(tmp_path, [str(EXAMPLE / "points.toml"), *settings], PYTHONPATH=paths))


def test_a_study_of_rankers_is_flat(tmp_path):
    settings = (
        f"model.name={write_bert(tmp_path / 'bert')}",
        "model.num_layers=3",
        "model.frozen_layers=1",
        "model.max_length=32",
        *(setting for setting in SMALL if not setting.startswith(("seeds", "search."))),
        "training.instances=64",
        "search.n_configurations={LS = 4, WSLS = 4, T-LS = 12, T-WSLS = 9}",
    )
    _flat(_samples(tmp_path, ["quick", *merged(*settings)], PYTHONPATH=str(ROOT)))


def _flat(found: dict[str, list[Sample]]) -> None:
    for name, samples in found.items():
        rows = [next(sample for sample in samples if sample.runs >= mark) for mark in MARKS]
        print(name, *(f"{row.runs}: {row.megabytes:.0f} MB, {row.files} files" for row in rows), sep="; ")
        warm = [sample for sample in samples if sample.runs >= WARM]
        first, second = warm[: len(warm) // 2], warm[len(warm) // 2 :]
        gain = np.median([sample.megabytes for sample in second]) - np.median([sample.megabytes for sample in first])
        growth = 200 * gain / (warm[-1].runs - warm[0].runs)  # the middles of the halves are half the range apart
        print(f"{name}: {growth:.2f} MB for 100 runs")
        assert growth < GROWTH
        late = [sample for sample in samples if sample.runs >= RUNS / 2]
        third, fourth = ([s.files for s in late if low <= s.runs < low + RUNS / 4] for low in (RUNS / 2, 3 * RUNS / 4))
        assert np.median(fourth) <= np.median(third) + NOISE


def _samples(place: Path, arguments: list[str], **changes: str) -> dict[str, list[Sample]]:
    """Runs a study; how its driver and its one worker were, each time a run had ended."""
    output = [f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}"]
    command = [sys.executable, "-m", "study.run", *arguments, SEEDS, ONE, *output]
    found: dict[str, list[Sample]] = {"driver": [], "worker": []}
    workers, ended = set[int](), 0
    with (
        (place / "out").open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment(**changes)) as driver,
    ):
        while driver.poll() is None:
            now = sum(1 for name in ("record", "test") for _ in (place / "study" / "runs").glob(f"*/{name}.json"))
            workers |= {child.number for child in tree(driver.pid) if _title(child.number).startswith(_WORKER)}
            if now > ended and workers:
                ended = now
                for name, process in (("driver", driver.pid), ("worker", max(workers))):
                    if sample := _sample(process, now):
                        found[name].append(sample)
            time.sleep(0.05)
    assert driver.returncode == 0, (place / "out").read_text()[-2000:]
    assert ended >= RUNS
    assert len(workers) == 1
    return found


def _sample(process: int, runs: int) -> Sample | None:
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return Sample(runs, pages * os.sysconf("SC_PAGE_SIZE") / 1e6, len(os.listdir(f"/proc/{process}/fd")))
    except OSError:  # it has just ended
        return None


def _title(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace")
    except OSError:
        return ""
