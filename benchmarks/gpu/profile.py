"""Kernels of a step and of an evaluation, and the share of the time in which the GPU computes, by torch's profiler."""

import time
from collections.abc import Callable, Iterator

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity

from benchmarks import contenders
from benchmarks.gpu import models
from benchmarks.gpu.models import Size
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, measured
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing

_STEPS = 10


def run(place: Place) -> Iterator[Row]:
    """Profiles ten steps and an evaluation of each size and distribution of lengths."""
    sizes: tuple[Size, ...] = ("base", "minilm") if place.is_real else ("tiny",)
    for size in sizes:
        path = models.write_model(place.folder, size)
        for kind in models.LENGTHS:
            lengths = models.draw_lengths(kind, 2 * _STEPS * contenders.BATCH_SIZE, 512 if place.is_real else 24)
            pairs = models.make_pairs(path, lengths)
            trainer, labels = contenders.own_trainer(pairs, "bf16", device="cuda"), contenders.label(pairs)
            segment, half = Segment(0, len(lengths), LabelSmoothing()), len(lengths) // 2
            trainer.train(segment, half, labels)
            trainer.score_pairs(labels, "bf16")
            count = profile if place.is_real else count_pretended
            kernels, busy = count(lambda: trainer.train(segment, len(lengths), labels))  # noqa: B023
            yield measured(f"{size}, {kind}: kernels of a step", [kernels / _STEPS], "", busy)
            kernels, busy = count(lambda: trainer.score_pairs(labels, "bf16"))  # noqa: B023
            yield measured(f"{size}, {kind}: kernels of 128 pairs", [kernels * 128 / len(lengths)], "", busy)


def profile(work: Callable[[], object]) -> tuple[int, str]:
    """Return the kernels of some work, and the share of its time in which one of them ran."""
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA]) as profiler:
        torch.cuda.synchronize()
        started = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - started
    events = [each for each in profiler.events() or () if each.device_type == DeviceType.CUDA]
    kernels = [each for each in events if not each.name.startswith(("Memcpy", "Memset"))]
    microseconds = sum(each.time_range.elapsed_us() for each in kernels)
    return len(kernels), f"busy {microseconds / 1e6 / seconds:.0%} of the time"


def count_pretended(work: Callable[[], object]) -> tuple[int, str]:
    """Return the kernels on a pretend GPU, and its copies and waits."""
    from tests.pretend_gpu.counting import count

    with count() as counts:
        work()
    return counts.kernels, f"{counts.copies} copies and {counts.waits} waits in all"
