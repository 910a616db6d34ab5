"""Interleaved measurement: every round runs every contender once, so that a noisy minute hits all of them."""

import math
import platform
import time
from collections.abc import Callable
from statistics import median

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


def matmul_peak(dtype: torch.dtype, size: int = 1536) -> float:
    """GFLOP/s of a square matrix product with the current number of threads: the best of five."""
    left, right = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
    best = 0.0
    for _ in range(5):
        started = time.perf_counter()
        left @ right
        best = max(best, 2 * size**3 / (time.perf_counter() - started) / 1e9)
    return best


def machine() -> str:
    """What the figures belong to."""
    return f"{platform.machine()}, {torch.get_num_threads()} thread(s), torch {torch.__version__}"
