"""Measures a driver with up to 1,000 trials at once: trials a second, its processor time and its memory.

    python -m benchmarks.driver [--places 10 100 1000] [--seconds 30]

A real study of the example's trainable: its driver, Ray Tune, its records and a Ray node with as many logical cores as
places. Only the processes of trials are few, because 1,000 of them need 150 GB: `HOSTS` processes run the trials in
threads. They sleep instead of training, and return whole records.
"""

import gc
import os
import resource
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import ray
from ray.tune.execution import class_cache

from benchmarks.hosted_trials import Host, HostedClass
from benchmarks.measure import machine, run_apart
from records.run_record import SPLITS, read_run_record
from study.config.loader import load_study
from study.execution.trial_runner import StudyTrials
from study.utils.live_view import LiveView
from study.workflows import session
from study.workflows.open_study import open_study
from trainables.utils.cli import Parser

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_package"
HOSTS = 4
_ROUNDS = 1
"""Trainings for each place."""
_RAY = {
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
    "RAY_worker_niceness": "0",
}
"""Settings of Ray: no process for each core before there is a trial, and hosts with the priority of the driver."""


class Figures(NamedTuple):
    """Time and memory of one driver."""

    places: int
    trials: int
    wall_seconds: float
    processor_seconds: float
    """Processor time of the driver for all trials."""
    most_at_once: int
    megabytes_before: float
    megabytes_after: float
    complete: int
    """Runs with two finished records."""


def measure(places: int, seconds: float) -> Figures:
    """Run a study in this process; its trainings can all run at once."""
    os.environ |= _RAY | {"PYTHONPATH": os.pathsep.join([str(EXAMPLE), str(ROOT)]), "RAY_AUTH_TOKEN": "0" * 64}
    sys.path.insert(0, str(EXAMPLE))
    sys.stdout.flush()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(patch("os.sched_getaffinity", lambda _: range(places)))
        settings = [f"seeds={list(range(1, places * _ROUNDS // 2 + 1))}", 'variants=["HARD", "SOFT"]']
        settings += ["search.softness=[0.1]", "search.n_configurations={SOFT = 1}", "search.round_size=1"]
        folders = [f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}"]
        opened = session.StudySession(open_study(load_study(str(EXAMPLE / "points.toml"), [*settings, *folders])), 0.0)
        _use_hosts(stack, places, seconds)
        stack.enter_context(closing(opened.wandb_logger))
        view = stack.enter_context(LiveView())
        peak = _Peak(opened.trials)
        gc.collect()
        before, started, processor = _read_memory(), time.monotonic(), time.process_time()
        session.run_trials([peak.trials], None, view)
        wall, processor = time.monotonic() - started, time.process_time() - processor
        folder = opened.scheduler.folder
        runs = [path.name for path in (folder / "runs").iterdir()]
        records = {run: [read_run_record(folder, run, split) for split in SPLITS] for run in runs}
        done = [entry for found in records.values() for entry in found if entry and entry["state"] == "finished"]
        complete = sum(all(entry and entry["state"] == "finished" for entry in found) for found in records.values())
        return Figures(places, len(done), wall, processor, peak.most, before, _read_memory(), complete)


def _use_hosts(stack: ExitStack, places: int, seconds: float) -> None:
    """Let Tune start its trials on a few processes, once Ray runs."""
    classes, lock = dict[type, HostedClass](), threading.Lock()

    def get(self: Any, trainable: type) -> HostedClass:
        with lock:
            if trainable not in classes:
                options = {"num_cpus": 0, "max_concurrency": places // HOSTS + 16}
                hosts = [ray.remote(**options)(Host).remote(seconds) for _ in range(HOSTS)]
                classes[trainable] = HostedClass(trainable, hosts)
            return classes[trainable]

    stack.enter_context(patch.object(class_cache._ActorClassCache, "get", get))


class _Peak:
    """Counts how many trials run at once.

    Attributes:
        trials: the trials of a study, which are counted.
        most: the largest number.
    """

    def __init__(self, trials: StudyTrials) -> None:
        self.most, self._count = 0, 0

        def start() -> None:
            self._count += 1
            self.most = max(self.most, self._count)
            trials.on_trial_start()

        def end() -> None:
            self._count -= 1
            trials.on_trial_end()

        self.trials = replace(trials, on_trial_start=start, on_trial_end=end)


def _read_memory() -> float:
    """Return the megabytes of this process in memory; where the system does not say, the most there ever were."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Print a line for each number of places."""
    parser = Parser("benchmarks.driver", __doc__)
    parser.add_argument("--places", type=int, nargs="+", default=[10, 100, 1000], help="trials at once")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds that a training sleeps")
    arguments = parser.parse_args()
    print(f"{machine()}; {HOSTS} processes run the trials, a training sleeps {arguments.seconds:g} s", flush=True)
    for places in arguments.places:
        found = run_apart(measure, places, arguments.seconds)
        print(
            f"{found.places:5} places, {found.most_at_once:4} trials at once: {found.trials} trials in "
            f"{found.wall_seconds:.0f} s, {found.trials / found.wall_seconds:.1f} a second; the driver computes "
            f"{1000 * found.processor_seconds / found.trials:.1f} ms a trial and grows from "
            f"{found.megabytes_before:.0f} to {found.megabytes_after:.0f} MB; {found.complete} runs have both records",
            flush=True,
        )


if __name__ == "__main__":
    main()
