"""The driver of a study with 10,000 runs on 1,000 places, in simulated time.

The scheduler is the real one, with the sampler of the quick study (TPE), and `benchmarks.schedule` simulates the
trials. Each study runs in a process of its own, so that its peak memory is its own.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.resume import make_study
from benchmarks.scale.memory import read_peak_memory
from benchmarks.schedule import QUICK, Phase, Simulation, bound
from search_spaces.search import SeedAveragedSearch
from study.config.loader import Study

_CONFIGURATIONS = 2000
_PLACES = 1000
_ROUND_SIZES = (50, 200)
_OTHER_PLACES = (250, 500, 2000)
"""Places of which only the makespan is measured, with the last size of a round."""
_LOOKS = 200
"""Ended trials between two calls of `list_needed_checkpoints`, which the eviction makes after a trial."""


class Timer:
    """Seconds and number of the calls of a function."""

    def __init__(self) -> None:
        self.seconds = list[float]()

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its calls timed."""

        def call(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds.append(time.perf_counter() - started)

        return call


class Result(NamedTuple):
    """Figures of a simulated study."""

    runs: int  # recorded trainings
    makespan: float  # seconds of simulated time
    phases: dict[str, Phase]
    decisions: Timer  # each start and each end of a trial
    deciding: float  # seconds of all decisions, without the proposals
    proposals: Timer  # each round
    needed: Timer  # each list of the needed checkpoints
    peak: int  # bytes


def simulate(configurations: int, round_size: int, places: int | None) -> Result:
    """Run a study in simulated time; to be called in a process of its own."""
    decisions, proposals, needed = Timer(), Timer(), Timer()
    SeedAveragedSearch.ask = proposals.wrap(SeedAveragedSearch.ask)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as name:
        study = _with_rounds(make_study(Path(name), configurations), round_size)
        simulation = Simulation(study, Path(name, "records"), QUICK, 0, places)
        scheduler, ended = simulation.scheduler, 0
        mark_ended, list_needed = decisions.wrap(scheduler.mark_ended), needed.wrap(scheduler.list_needed_checkpoints)

        def end(request: Any) -> None:
            nonlocal ended
            mark_ended(request)
            ended += 1
            if places and ended % _LOOKS == 0:
                list_needed()

        scheduler.mark_ended = end  # type: ignore[method-assign]
        scheduler.pop_request = decisions.wrap(scheduler.pop_request)  # type: ignore[method-assign]
        first_round = sum(proposals.seconds)
        makespan = simulation.run()
        deciding = sum(decisions.seconds) - (sum(proposals.seconds) - first_round)  # proposals are made when trials end
        runs = len(scheduler.store.list_run_ids())
    peak = read_peak_memory()
    return Result(runs, makespan, simulation.phases, decisions, deciding, proposals, needed, peak)


def _with_rounds(study: Study, round_size: int) -> Study:
    return study.model_copy(update={"search": study.search.model_copy(update={"parallel": round_size})})


def _run_alone(*arguments: Any) -> Result:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(simulate, *arguments).result()


def _show_makespan(found: Result, endless: Result, places: int) -> None:
    train, test, least = endless.phases["train"], endless.phases["test"], bound(endless.phases, places)
    print(f"  {places} places: makespan {found.makespan:.0f} s, {found.makespan / least:.3f} of the bound: ", end="")
    print(f"work over places {train.work / places:.0f} s, longest path {train.end:.0f} s, ", end="")
    print(f"tests {test.work / places:.0f} s", flush=True)


def measure() -> None:
    """Print decisions a second, memory, makespan and its bound."""
    for round_size in _ROUND_SIZES:
        found, endless = (_run_alone(_CONFIGURATIONS, round_size, places) for places in (_PLACES, None))
        print(f"{found.runs} runs, {_PLACES} places, {round_size} proposals a system at once:")
        count, longest = len(found.decisions.seconds), max(found.decisions.seconds)
        print(f"  {count} decisions, {count / found.deciding:.0f} a second without proposals")
        print(f"  proposals of {len(found.proposals.seconds)} rounds {sum(found.proposals.seconds):.0f} s; ", end="")
        print(f"the longest decision, with its proposals {longest:.1f} s")
        looks = found.needed.seconds
        print(f"  a list of the needed checkpoints {median(looks):.3f} s, at most {max(looks):.3f}")
        print(f"  peak memory {found.peak / 1e6:.0f} MB")
        _show_makespan(found, endless, _PLACES)
    for places in _OTHER_PLACES:
        _show_makespan(_run_alone(_CONFIGURATIONS, _ROUND_SIZES[-1], places), endless, places)
