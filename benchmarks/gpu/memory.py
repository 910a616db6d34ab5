"""A trial next to a process that runs out of memory: that process fails, and the trial has the same bits."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from benchmarks import contenders
from benchmarks.gpu import models
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, confirmed
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing
from trainables.training.process import prepare_process

_FRACTION = 0.45


def run(place: Place) -> Iterator[Row]:
    """Trains alone and next to the neighbour, each in a process of its own."""
    path, batches = models.write_model(place.folder, "minilm" if place.is_real else "tiny"), 64
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        alone = pool.submit(train, path, batches if place.is_real else 1).result()
        neighbour = pool.submit(run_out_of_memory)
        together = pool.submit(train, path, batches if place.is_real else 1).result()
        yield confirmed("a process that needs more than its share runs out of memory", neighbour.result())
    yield confirmed("a trial next to it has the bits that it has alone", alone == together)


def train(path: Path, batches: int) -> str:
    """Hash of the weights of a trial with its share of the memory."""
    contenders.quiet()
    prepare_process(threads=1)
    torch.cuda.set_per_process_memory_fraction(_FRACTION)
    pairs = models.make_pairs(path, models.draw_lengths("question pairs", batches * contenders.BATCH_SIZE))
    trainer = contenders.own_trainer(pairs, "bf16", device="cuda")
    trainer.train(Segment(0, len(pairs.texts), LabelSmoothing()), len(pairs.texts), contenders.label(pairs))
    return trainer.hash_weights()


def run_out_of_memory() -> bool:
    """Take more and more memory; returns whether that ended with torch's error, below the whole memory."""
    torch.cuda.set_per_process_memory_fraction(_FRACTION)
    total, kept = torch.cuda.get_device_properties(0).total_memory, list[torch.Tensor]()
    try:
        while sum(own.numel() for own in kept) < total:
            kept.append(torch.empty(total // 20, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        return True
    return False
