"""Interleaved measurement: every round runs every contender once, so that a noisy minute hits all of them."""

import itertools
import math
import multiprocessing
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median
from typing import Any

import torch

Measure = Callable[[], float]
"""Does some work once; returns units a second."""


def interleaved(measures: dict[str, Measure], rounds: int, seconds: float = math.inf) -> dict[str, list[float]]:
    """Rates by contender, one a round; an unmeasured round comes first.

    After one measured round, none begins later than `seconds` after the start.
    """
    found: dict[str, list[float]] = {name: [] for name in measures}
    started = time.monotonic()
    for number in range(rounds + 1):
        if number > 1 and time.monotonic() - started > seconds:
            break
        for name, measure in measures.items():
            value = measure()
            if number:
                found[name].append(value)
    return found


def show(title: str, unit: str, found: dict[str, list[float]], base: str | None = None) -> None:
    """One line a contender; ratios are to `base` (none: the first), taken within each round."""
    print(title, flush=True)
    reference = found[base] if base else next(iter(found.values()))
    for name, rates in found.items():
        ratios = [rate / other for rate, other in zip(rates, reference, strict=True)]
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        print(f"  {name:44} {median(rates):9.1f} {unit}   ratio {median(ratios):6.2f} ({spread})", flush=True)


def rate(work: Callable[[], object], units: float) -> Measure:
    """Units of `work` a second."""

    def measure() -> float:
        started = time.perf_counter()
        work()
        return units / (time.perf_counter() - started)

    return measure


def in_turn(measures: Sequence[Measure]) -> Measure:
    """Each call measures the next one, after the last again the first.

    With other texts in each, no contender computes shapes that it has just computed, for which oneDNN has kernels.
    """
    following = itertools.cycle(measures)
    return lambda: next(following)()


def run_apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns in a process of its own; it and its arguments can be pickled."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


@contextmanager
def apart(makers: Mapping[str, Callable[[], Measure]]) -> Iterator[dict[str, Measure]]:
    """The measures, each made and called in a process of its own, as users run it; `makers` can be pickled.

    In one process, the kernels and the memory that one contender leaves behind slow the next one down.
    """
    context, threads = multiprocessing.get_context("spawn"), torch.get_num_threads()
    with ExitStack() as stack:
        pools = {
            name: stack.enter_context(ProcessPoolExecutor(1, context, _begin, (make, threads)))
            for name, make in makers.items()
        }
        yield {name: partial(_measure_in, pool) for name, pool in pools.items()}


_measure: Measure
"""Measure of this process, if `apart` started it."""


def _begin(make: Callable[[], Measure], threads: int) -> None:
    global _measure
    torch.set_num_threads(threads)
    _measure = make()


def _measure_in(pool: ProcessPoolExecutor) -> float:
    return pool.submit(_measure_here).result()


def _measure_here() -> float:
    return _measure()


def matmul_peak(dtype: torch.dtype, size: int = 1536) -> float:
    """GFLOP/s of a square matrix product with the current number of threads: the best of five."""
    left, right = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
    best = 0.0
    for _ in range(5):
        started = time.perf_counter()
        left @ right
        best = max(best, 2 * size**3 / (time.perf_counter() - started) / 1e9)
    return best


def describe_share(share: float) -> str:
    """Describe a share of the FLOP/s of a matmul; one above 1 is void, because nothing is faster than that."""
    void = "" if share <= 1 else "; void: the machine was busy while the matmul was timed, measure again"
    return f"{share:.0%} of the FLOP/s of a matmul{void}"


def machine() -> str:
    """Return the machine and the versions that the figures belong to."""
    return f"{platform.machine()}, {torch.get_num_threads()} thread(s), torch {torch.__version__}"
