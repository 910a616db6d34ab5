"""Trials at once on one GPU, as `resources.gpu` = 1, 0.5 and 0.25 run them: each is a process of its own."""

import multiprocessing
import time
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

_TOGETHER, _ROUNDS = (1, 2, 4), 3
_SETTINGS = {"cuda": {"precision": "bf16", "tokens_per_micro_batch": 16384}, "cpu": {"precision": "fp32"}}
_WAIT = 300.0
"""Seconds that a trial waits for the others to be ready."""
_start: Barrier
"""In the process of a trial: where it waits for the others."""


def run(place: Place) -> list[Row]:
    """Measures MiniLM's and BERT-base's size; a processor trains two trials of a tiny model."""
    sizes: tuple[Size, ...] = ("minilm", "base")
    if place.is_gpu:
        return [row for size in sizes for row in measure_size(place, size)]
    path = models.write_model(place.folder, "bert", "tiny")
    rate = train_together(path, place.device, batches=2, count=2)
    checked = confirmed("2 trials at once", rate > 0, "a tiny model on the processor")
    return [checked, *(not_measured(format_name(size, count)) for size in sizes for count in _TOGETHER)]


def measure_size(place: Place, size: Size) -> list[Row]:
    """Rates by the number of trials; as each trial warms up by itself, all rounds count."""
    path, rates = models.write_model(place.folder, "bert", size), dict[int, list[float]]()
    notes, started = dict[int, str](), time.monotonic()
    for number in range(_ROUNDS):
        if number and time.monotonic() - started > place.seconds / 2:
            break
        for count in _TOGETHER:
            try:
                rates.setdefault(count, []).append(train_together(path, place.device, 128, count))
            except torch.OutOfMemoryError:
                notes[count] = "too little memory"
    return [
        not_measured(format_name(size, count), notes[count])
        if count in notes
        else measured(format_name(size, count), rates[count], "instances/s together")
        for count in _TOGETHER
    ]


def format_name(size: Size, count: int) -> str:
    """Name of a row."""
    return f"{size}, question pairs: {count} at once, resources.gpu = {1 / count:g}"


def train_together(path: Path, device: str, batches: int, count: int) -> float:
    """Instances a second of `count` trials together, which all begin at the same time."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, _keep_barrier, (context.Barrier(count),)) as pool:
        return sum(pool.map(_train, [path] * count, [device] * count, [batches] * count))


def _keep_barrier(start: Barrier) -> None:
    global _start
    _start = start


def _train(path: Path, device: str, batches: int) -> float:
    """Instances a second of one trial; a first epoch is not measured."""
    try:
        contenders.quiet()
        prepare_process(threads=1)
        pairs = models.make_pairs(path, models.draw_lengths("question pairs", batches * contenders.BATCH_SIZE))
        measure = contenders.own(pairs, device=device, **_SETTINGS[device])
        measure()
        _start.wait(_WAIT)
        return measure()
    except Exception:
        _start.abort()  # the others do not wait for this trial
        raise
