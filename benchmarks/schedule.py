"""How well a study keeps its places busy: simulated makespans against a lower bound that respects the rounds.

python -m benchmarks.schedule [FOLDER] [SEEDS]

The real scheduler decides what starts; only time is simulated. A run loads its model, trains what no other run has
trained before it, waits where another is training just that, and evaluates. What each of this takes comes from the
records of a study in FOLDER, by default from those of the quick study on the machine of RESULTS.md.

The bound: every stretch of training is done once, whoever does it. The training phase takes at least its work divided
by the places, and at least its time with a place for every run, which is the longest path through the rounds and the
stages they share (a round of a search begins when all of the one before it has ended). The test phase begins when all
training has ended; it takes at least its work divided by the places, and of the k * places + 1 longest tests at least
k + 1 share a place. The bound is the sum of both phases' largest.
"""

import hashlib
import heapq
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from study.config.loader import Study, load_study
from study.records import run_record as record
from study.records.run_store import RunStore
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import ResolvedInputs, TrialRequest
from trainables.specs.base import Environment
from trainables.specs.checkpoints import plan_checkpoints

_WORKERS = (1, 10, 100)
_SAMPLER = 0.05
"""Seconds to look up BM25's order."""
_HERE = Environment(device="cpu", instruction_set="any", torch="1", transformers="1", numpy="1")


class Times(NamedTuple):
    """Seconds, and the quotients of single runs' seconds to these."""

    start: float  # until a run trains: its model and data are loaded
    instance: float  # to train one
    evaluation: float  # of the development set
    test: float  # a whole test request
    spread: tuple[float, ...]

    def drawn(self, what: str) -> float:
        """A quotient for this piece of work, the same whoever does it and when."""
        return self.spread[int.from_bytes(hashlib.sha256(what.encode()).digest()[:8]) % len(self.spread)]


def measured(folder: Path) -> Times:
    """A line through the seconds of a study's trainings by the instances trained; half of what is left at no instances
    is before training."""
    entries = [json.loads(path.read_bytes()) for path in sorted(folder.glob("runs/*/record.json"))]
    tests = [json.loads(path.read_bytes()) for path in sorted(folder.glob("runs/*/test.json"))]
    summaries = [one["summary"] for one in entries if one["state"] == "finished" and one["config"]["seed"] is not None]
    trained = np.array([[1.0, one["instances_trained"]] for one in summaries])
    seconds = np.array([one["seconds"] for one in summaries])
    (fixed, instance), *_ = np.linalg.lstsq(trained, seconds, rcond=None)
    tested = [one["summary"]["test/seconds"] for one in tests if one["config"]["seed"] is not None]
    spread = tuple(round(float(quotient), 3) for quotient in np.sort(seconds / (trained @ (fixed, instance))))
    return Times(float(fixed) / 2, float(instance), float(fixed) / 2, median(tested), spread)


QUICK = Times(
    4.19, 0.0278, 4.19, 46.2, (0.75, 0.81, 0.83, 0.92, 0.95, 1.0, 1.02, 1.04, 1.05, 1.06, 1.08, 1.14, 1.25, 1.39)
)
"""37 runs of the quick study, two at once on two cores."""


def _steps(scheduler: StudyScheduler, request: TrialRequest) -> list[tuple[int, str]]:
    """Instances and key of the states that a run comes by."""
    run = request.trial.specification
    if run.training is None or request.trial.action == "test":
        return []
    return list(zip(plan_checkpoints(run, request.trial.cuts), scheduler.list_checkpoint_keys(run), strict=True))


class Phase:
    """Seconds of work and of time."""

    def __init__(self) -> None:
        self.pieces, self.end = list[float](), 0.0

    @property
    def work(self) -> float:
        """Of all places."""
        return sum(self.pieces)


class Simulation:
    """A study on so many places (none: as many as it likes)."""

    def __init__(self, study: Study, folder: Path, times: Times, seed: int, workers: int | None) -> None:
        resolved = ResolvedInputs("fingerprint", "sha256:0", Path("/nowhere"), _HERE)
        self.scheduler = StudyScheduler(study, resolved, RunStore(folder), "plan-hash")
        self._times, self._seed = times, seed
        self._free = workers if workers else sys.maxsize
        self._kept: set[str] = set()
        self._busy: set[str] = set()
        self.phases = {"train": Phase(), "test": Phase()}

    def run(self) -> float:
        """Seconds until the study is finished."""
        now, numbers = 0.0, count()
        moments: list[tuple[float, int, TrialRequest, Generator[float | str]]] = []
        waiting: dict[str, list[tuple[TrialRequest, Generator[float | str]]]] = defaultdict(list)
        while True:
            while self._free and (request := self.scheduler.pop_request()) is not None:
                self._free -= 1
                heapq.heappush(moments, (now, next(numbers), request, self._life(request)))
            if not moments:
                break
            now, _, request, life = heapq.heappop(moments)
            step = next(life, None)
            if isinstance(step, str):
                waiting[step].append((request, life))
            elif step is not None:
                self.phases[request.trial.action].pieces.append(step)
                heapq.heappush(moments, (now + step, next(numbers), request, life))
            else:
                self._end(request)
                self.phases[request.trial.action].end = now
            for key in [key for key in waiting if key not in self._busy]:
                for freed, its_life in waiting.pop(key):
                    heapq.heappush(moments, (now, next(numbers), freed, its_life))
        assert self.scheduler.is_finished
        return now

    def _life(self, request: TrialRequest) -> Generator[float | str]:
        """Seconds of each piece of a run's work, and keys of the stages that it waits for in between."""
        run, times = request.trial.specification, self._times
        if run.system == "sampler":
            yield _SAMPLER
            return
        if request.trial.action == "test":
            yield times.test * times.drawn(f"{self._seed}/test/{run.id}")
            return
        own = times.drawn(f"{self._seed}/{run.id}")
        yield times.start * own
        steps, seen = _steps(self.scheduler, request), 0
        while True:
            seen = max((stop for stop, key in steps if key in self._kept), default=seen)
            ahead = next(((stop, key) for stop, key in steps if stop > seen), None)
            if ahead is None:
                break
            stop, key = ahead
            if key in self._busy:
                yield key
                continue
            self._busy.add(key)
            yield times.instance * (stop - seen) * times.drawn(f"{self._seed}/{key}")
            self._busy.remove(key)
            self._kept.add(key)
        yield times.evaluation * own

    def _end(self, request: TrialRequest) -> None:
        self._free += 1
        run = request.trial.specification
        value = int(hashlib.sha256(f"{self._seed}/{run.id}".encode()).hexdigest()[:8], 16) / 2**32
        summary = {"state": "finished", f"{request.split}/{request.trial.metric}": value}
        entry = {"id": run.id, "state": "finished", "config": request.labels, "summary": summary}
        record.write_run_record(self.scheduler.store.folder, request.split, entry, None)
        self.scheduler.mark_ended(request)


def simulated(study: Study, times: Times, seed: int, workers: int | None) -> tuple[float, Simulation]:
    """The makespan, and what it was made of."""
    with tempfile.TemporaryDirectory() as folder:
        made = Simulation(study, Path(folder), times, seed, workers)
        return made.run(), made


def bound(endless: dict[str, Phase], workers: int) -> float:
    """The lower bound for so many places, from the phases of the same study with endless ones."""
    train, test = endless["train"], endless["test"]
    longest = sorted(test.pieces, reverse=True)
    together = [sum(longest[k * workers - k : k * workers + 1]) for k in range(1 + (len(longest) - 1) // workers)]
    return max(train.work / workers, train.end) + max(test.work / workers, *together)


def studies() -> dict[str, Study]:
    """A small one, the papers', and a large search."""
    fixed = ["training.precision=fp32"]
    large = [*fixed, "search.round_size=10", f"search.epsilon={[round(0.02 * i, 2) for i in range(1, 21)]}"]
    large += [f"search.n_configurations.{name}=20" for name in ("LS", "WSLS", "T-LS", "T-WSLS")]
    made: dict[str, Callable[[], Study]] = {
        "the quick study": lambda: load_study("quick", fixed),
        "the papers' grid, 5 seeds": lambda: load_study("wsls-docstrings", fixed),
        "20 proposals a variant, 10 at once": lambda: load_study("quick", large),
    }
    return {name: make() for name, make in made.items()}


def main(folder: str | None, seeds: int) -> None:
    """Prints makespans, bounds and their ratios."""
    times = measured(Path(folder)) if folder else QUICK
    print(
        f"seconds: start {times.start:.2f}, an instance {times.instance:.4f}, evaluation {times.evaluation:.2f}, "
        f"test {times.test:.1f}; single runs {times.spread[0]:.2f} to {times.spread[-1]:.2f} of that; {seeds} seeds"
    )
    for name, study in studies().items():
        print(f"{name}\n  {'places':>6} {'bound':>10} {'makespan':>10}  ratio (range)", flush=True)
        endless = {seed: simulated(study, times, seed, None)[1] for seed in range(seeds)}
        for workers in _WORKERS:
            bounds = [bound(endless[seed].phases, workers) for seed in range(seeds)]
            found = [simulated(study, times, seed, workers)[0] for seed in range(seeds)]
            ratios = [one / least for one, least in zip(found, bounds, strict=True)]
            spread = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
            print(f"  {workers:6} {median(bounds):8.0f} s {median(found):8.0f} s  {spread}", flush=True)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if not argument.isdigit()]
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    main(arguments[0] if arguments else None, numbers[0] if numbers else 3)
