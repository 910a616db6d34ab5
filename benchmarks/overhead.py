"""What a study costs beside its runs: the real command line on many very short runs.

python -m benchmarks.overhead [REPEATS] [FOLDER]

Machinery is the wall time without the start of Ray (from the line that names the plan to the line that names the
places, its import included), without preparation (made by a study before), and without the seconds that the runs
themselves report, divided by the places: what is left is settings, plan, trials' starts and ends, records, the report,
and W&B, which another process writes meanwhile. FOLDER is a study that was started once and finished, by default
results/quick, whose wall time (clock.json) the share is of. Of every trial the time from its record to the next trial
at the same place is told; where that takes more than 3 seconds, Tune started another process.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

_STUDY = (
    "name=overhead",
    'variants=["BERT", "LS", "T-LS"]',
    'task.libraries=["networkx"]',
    "task.train_queries=60",
    "task.dev_queries=20",
    "task.test_queries=20",
    "training.instances=32",
    "training.evaluations=1",
)
_RESTART = 3.0
_PLACES = 2


class Study(NamedTuple):
    """Seconds of a study that ran."""

    wall: float
    ray: float
    trials: int
    inside: float  # the runs' own
    pauses: list[float]

    @property
    def machinery(self) -> float:
        """A run's share."""
        return (self.wall - self.ray - self.inside / _PLACES) / self.trials


def conduct(place: Path, cache: Path, seeds: list[int]) -> Study:
    """Runs the study to its end."""
    command = [sys.executable, "-m", "study.run", "quick", *_STUDY, f"seeds={seeds}", f"output.folder={place}"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    marks, started = {}, time.time()
    with subprocess.Popen([*command, f"cache.folder={cache}"], stdout=subprocess.PIPE, text=True, env=kept) as process:
        assert process.stdout is not None
        for line in process.stdout:
            marks.setdefault("plan" if ", plan " in line else "places" if "trials at once" in line else "", time.time())
    if process.returncode:
        raise RuntimeError("the study failed")
    trials = sorted(_trials(place))
    free, pauses = [marks["places"]] * _PLACES, []
    for begun, ended, _ in trials:
        last = max((moment for moment in free if moment <= begun + 0.05), default=min(free))
        free.remove(last)
        free.append(ended)
        pauses.append(begun - last)
    inside = sum(seconds for *_, seconds in trials)
    return Study(time.time() - started, marks["places"] - marks["plan"], len(trials), inside, pauses)


def _trials(place: Path) -> list[tuple[float, float, float]]:
    """Of every trial when it began, when it was recorded, and its own seconds."""
    found = []
    for name, key in (("record.json", "seconds"), ("test.json", "test/seconds")):
        for path in place.glob(f"runs/*/{name}"):
            seconds = json.loads(path.read_bytes())["summary"][key]
            ended = path.stat().st_mtime
            found.append((ended - seconds, ended, seconds))
    return found


def main(repeats: int, reference: Path) -> None:
    """Prints seconds a run and their share."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        place, cache = Path(name), Path(name, "cache")
        conduct(place / "prepared", cache, [1])
        for repeat in range(repeats):
            one = conduct(place / str(repeat), cache, [10 * repeat + seed for seed in range(2, 8)])
            found.append(one)
            restarts = [pause for pause in one.pauses if pause > _RESTART]
            rest = [pause for pause in one.pauses if pause <= _RESTART]
            print(
                f"{one.trials} trials: wall {one.wall:.0f} s, start of Ray {one.ray:.0f} s, runs {one.inside:.0f} s "
                f"on {_PLACES} places; {one.machinery:.2f} s of machinery a run; "
                f"between trials {median(rest):.2f} s, processes started {len(restarts)} in {sum(restarts):.0f} s",
                flush=True,
            )
    values = sorted(one.machinery for one in found)
    print(f"machinery {median(values):.2f} s a run ({values[0]:.2f}-{values[-1]:.2f}); the bar is 1.5, the goal 0.5")
    if reference.is_dir():
        trials = len(_trials(reference))
        wall = json.loads((reference / "clock.json").read_bytes())["seconds"]
        beside = median(values) * trials
        print(f"{beside / wall:.1%} of the {wall:.0f} s of {reference.name}, {trials} trials; the bar is 5 %")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, Path(sys.argv[2] if len(sys.argv) > 2 else "results/quick"))
