"""The real command line with a small suite: real weights, real docstrings of two libraries, real Ray."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.study.command import environment

SUITE = """
name = "tiny"
base = "quick"

[study]
seeds = [1, 2]
training.instances = 64
task.train_queries = 40
task.dev_queries = 20
task.test_queries = 40

[study.search]
sampler = "grid"
epsilon = [0.2]
schedule_settings.switch = [0.5]
n_configurations = { LS = 1, T-LS = 1, WSLS = 1, T-WSLS = 1 }

[axes.task.networkx]
task.libraries = ["networkx"]
[axes.task.pandas]
task.libraries = ["pandas"]
"""
TWO_SYSTEMS = SUITE.replace("[study]", '[study]\nvariants = ["BERT", "LS"]').replace(
    "{ LS = 1, T-LS = 1, WSLS = 1, T-WSLS = 1 }", "{ LS = 1 }"
)
SAMPLERS = """
[axes.sampler.BM25]
[axes.sampler.random]
task.sampler = { name = "random", weak_label = "bm25" }
"""


def write(place: Path, text: str = SUITE) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / "suite.toml").write_text(text)
    return place / "suite.toml"


def command(place: Path, *arguments: str) -> list[str]:
    """A suite with results and cache under `place`."""
    output = (f"output.folder={place / 'suite'}", f"cache.folder={place / 'cache'}")
    return [sys.executable, "-m", "study.run", str(place / "suite.toml"), *output, *arguments]


def run(place: Path, *arguments: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    """Runs the suite to its end."""
    return subprocess.run(
        command(place, *arguments),
        capture_output=True,
        text=True,
        env=environment(**changes),
        timeout=1500,
        check=False,
    )


def records(place: Path) -> dict[str, int]:
    """Every record of all studies and when it was written, in nanoseconds."""
    found = [path for name in ("record.json", "test.json") for path in (place / "suite").glob(f"*/runs/*/{name}")]
    return {str(path.relative_to(place)): path.stat().st_mtime_ns for path in found}


def contents(place: Path, patterns: Sequence[str]) -> dict[str, bytes]:
    """Files of the suite by their names relative to its folder."""
    folder = place / "suite"
    found = (path for pattern in patterns for path in folder.glob(pattern))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
