"""The real command line at a size for tests: real weights, real docstrings, real Ray, real W&B files."""

import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.processes import heed_interruptions

SMALL = (
    "name=small",
    "seeds=[1, 2]",
    'variants=["BERT", "LS", "T-LS", "WSLS", "T-WSLS"]',
    'task.libraries=["networkx"]',
    "task.train_queries=60",
    "task.dev_queries=20",
    "task.test_queries=40",
    "training.instances=128",
    "search.round_size=1",
    *(
        f"search.n_configurations.{name}={count}"
        for name, count in {"LS": 1, "WSLS": 1, "T-LS": 2, "T-WSLS": 1}.items()
    ),
)

SECRETS = dict.fromkeys(
    ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "WANDB_API_KEY", "HF_TOKEN", "A_TOKEN"), "k7" * 20
)
"""Credentials of the environment, which reach the trials but no file."""


def find_secrets(*folders: Path) -> list[Path]:
    """The files that contain one of them."""
    (secret,) = set(SECRETS.values())
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return [path for path in files if secret.encode() in path.read_bytes()]


def merged(*overrides: str) -> list[str]:
    """The overrides, of those of one key the last."""
    return list({override.partition("=")[0]: override for override in overrides}.values())


def command(place: Path, *arguments: str) -> list[str]:
    """A small study with results and cache under `place`."""
    output = (f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}")
    return [sys.executable, "-m", "study.run", "quick", *merged(*SMALL, *output, *arguments)]


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without W&B's variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return kept | changes


def run(place: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Runs the small study to its end."""
    return subprocess.run(
        command(place, *arguments), capture_output=True, text=True, env=environment(**changes), timeout=800, check=False
    )


def finish(place: Path, *arguments: str, **changes: str) -> str:
    """Runs the small study to its end, which is a good one; returns what it printed."""
    done = run(place, *arguments, **changes)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def call(module: str, folder: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Calls a command in this process, from a folder and without W&B's variables."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        for name in os.environ.keys() - environment().keys():
            patch.delenv(name)
        for name, value in changes.items():
            patch.setenv(name, value)
        try:
            status = importlib.import_module(module).main([*arguments])
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def called(folder: Path, *arguments: str, timeout: int = 120, **changes: str) -> subprocess.CompletedProcess[str]:
    """Calls this interpreter in a folder; the project is found from there."""
    own = environment(**{"PYTHONPATH": str(Path(__file__).parents[2])} | changes)
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=own, timeout=timeout, check=False)


def light(
    folder: Path, *arguments: str, module: str = "study.run", more: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder; it fails where it loads what only training or a search needs, or more libraries."""
    names = {"torch", "ray", "transformers", "wandb", "optuna", *more}
    code = (
        f"import sys; from {module} import main\n"
        f"try: status = main({list(arguments)!r})\nexcept SystemExit as end: status = end.code\n"
        f"heavy = {names} & set(sys.modules)\n"
        "assert not heavy, heavy\nsys.exit(status)"
    )
    return called(folder, "-c", code)


def copy_cache(reference: Path, place: Path, stages: bool = False) -> None:
    """Lets a study under `place` begin with what another one has prepared, and maybe trained."""
    left_out = shutil.ignore_patterns() if stages else shutil.ignore_patterns("stages")
    shutil.copytree(reference / "cache", place / "cache", ignore=left_out)


def table(place: Path) -> str:
    """The tables as the report has them."""
    return (place / "study" / "report" / "table.md").read_text(encoding="utf-8")


def report(place: Path) -> dict[str, bytes]:
    """Reads the files of a report that other programs read."""
    names = ("table.md", "comparisons.json", "results.csv")
    return {name: (place / "study" / "report" / name).read_bytes() for name in names}


def proposals(place: Path) -> Any:
    """Reads what the searches proposed and were told."""
    systems = json.loads((place / "study" / "search.json").read_text("utf-8"))["systems"]
    return {name: [(row["values"], row["reported"]) for row in found["proposals"]] for name, found in systems.items()}


def comparisons(folder: Path) -> Any:
    """The report's comparisons."""
    return json.loads((folder / "comparisons.json").read_text(encoding="utf-8"))


def records(place: Path) -> dict[str, int]:
    """Every record and when it was written, in nanoseconds."""
    found = [path for pattern in ("record.json", "test.json") for path in (place / "study").glob(f"runs/*/{pattern}")]
    return {str(path.relative_to(place)): path.stat().st_mtime_ns for path in found}


def weights(place: Path) -> dict[str, str]:
    """The hash of the final weights by run."""
    found = (json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/record.json"))
    return {entry["id"]: entry["summary"]["weights"] for entry in found if entry["summary"].get("weights")}


def kill_within_a_run(place: Path, instances: int, *arguments: str) -> None:
    """Starts a study that keeps every batch, and kills its process once a run has seen so many instances or more."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command(place, *arguments), env=environment(), text=True, **pipes)
    deadline = time.monotonic() + 400
    checkpoints = "cache/stages/resume/*/[0-9]*/stage.json"
    while not any(int(path.parent.name) >= instances for path in place.glob(checkpoints)):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def started(place: Path, count: int, *arguments: str) -> "subprocess.Popen[str]":
    """The small study's process, once there are `count` records; it heeds signals."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        command(place, *arguments), env=environment(), text=True, preexec_fn=heed_interruptions, **pipes
    )
    deadline = time.monotonic() + 600
    while len(records(place)) < count and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    return process


def results(place: Path) -> dict[str, bytes]:
    """The scores of all runs and the report's comparisons, byte for byte."""
    study = place / "study"
    paths = [*study.glob("runs/*/*scores.parquet"), study / "report" / "comparisons.json"]
    return {str(path.relative_to(study)): path.read_bytes() for path in paths}
