"""Trials at once on one GPU, as `resources.gpu` = 1, 0.5, 0.33 and 0.25 run them: each is a process of its own."""

import multiprocessing
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

import torch

from benchmarks import contenders
from benchmarks.gpu import models
from benchmarks.gpu.models import Size
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, confirmed, measured, not_measured
from trainables.training.process import prepare_process

_WAIT = 300.0
"""Seconds that a trial waits for the others to be ready."""
_start: Barrier
"""In the process of a trial: where it waits for the others."""


def run(place: Place) -> Iterator[Row]:
    """Measures MiniLM's and BERT-base's size; on a pretend GPU two trials of a tiny model train."""
    if not place.is_real:
        path = models.write_model(place.folder, "tiny")
        yield confirmed("2 trials at once", train_together(path, batches=1, count=2) > 0)
        return
    sizes: tuple[Size, ...] = ("minilm", "base")
    for size in sizes:
        path = models.write_model(place.folder, size)
        for count in (1, 2, 3, 4):
            name = f"{size}, question pairs: {count} at once, resources.gpu = {1 / count:.2g}"
            try:
                with Utilization() as busy:
                    found = train_together(path, 128, count)
            except torch.OutOfMemoryError:
                yield not_measured(name, "too little memory")
            else:
                yield measured(name, [found], "instances/s together", busy.describe())


class Utilization:
    """Share of the time in which a kernel ran, by nvidia-smi, sampled inside a block; the larger half counts.

    The smaller half holds the start of the processes.
    """

    def __enter__(self) -> "Utilization":
        self._samples, self._is_over = list[int](), threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while not self._is_over.wait(0.5):
            try:
                self._samples.append(int(subprocess.check_output(command, text=True).split()[0]))
            except (OSError, ValueError, subprocess.CalledProcessError):
                return

    def describe(self) -> str:
        """Return the share as text, empty without nvidia-smi."""
        upper = sorted(self._samples)[len(self._samples) // 2 :]
        return f"busy {sum(upper) / len(upper):.0f} % of the time" if upper else ""


def train_together(path: Path, batches: int, count: int) -> float:
    """Instances a second of `count` trials together, which all begin at the same time."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, _keep_barrier, (context.Barrier(count),)) as pool:
        return sum(pool.map(_train, [path] * count, [batches] * count))


def _keep_barrier(start: Barrier) -> None:
    global _start
    _start = start


def _train(path: Path, batches: int) -> float:
    """Instances a second of one trial; a first epoch is not measured."""
    try:
        contenders.quiet()
        prepare_process(threads=1)
        pairs = models.make_pairs(path, models.draw_lengths("question pairs", batches * contenders.BATCH_SIZE))
        measure = contenders.own(pairs, "bf16", device="cuda")
        measure()
        _start.wait(_WAIT)
        return measure()
    except Exception:
        _start.abort()  # the others do not wait for this trial
        raise
