"""Training and evaluation of rankers by this engine and by a contender.

The contender of training is sentence-transformers' CrossEncoderTrainer, where it is installed; that of evaluation is
the model of transformers with dynamic padding. All compute in bf16, attention by scaled_dot_product_attention; only
this engine uses deterministic algorithms.
"""

import gc
import time
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from benchmarks import contenders
from benchmarks.contenders import PairList
from benchmarks.gpu import models
from benchmarks.gpu.models import Size
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, confirmed, measured
from benchmarks.measure import Measure, interleaved, rate
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import LabelSmoothing

_RIVAL_PACKAGES = ("accelerate", "datasets", "sentence_transformers", "sklearn")


class Case(NamedTuple):
    """A model, the lengths of its pairs, and the pairs of a batch."""

    size: Size
    lengths: np.ndarray
    batch_size: int = contenders.BATCH_SIZE


def list_cases(place: Place) -> dict[str, Case]:
    """Return the cases by name; those of a pretend GPU have a batch of short pairs."""
    if not place.is_real:
        return {"tiny, question pairs": Case("tiny", models.draw_lengths("question pairs", 32, 24))}
    short, long = (models.draw_lengths(kind, 64 * contenders.BATCH_SIZE) for kind in models.LENGTHS)
    return {
        "BERT-base, question pairs": Case("base", short),
        "BERT-base, long-tailed": Case("base", long),
        "MiniLM, question pairs": Case("minilm", short),
        "MiniLM, long-tailed": Case("minilm", long),
        "BERT-base, 16,384 tokens a step": Case("base", np.full(2048, 128), 128),
    }


def run(place: Place) -> Iterator[Row]:
    """Measures all cases; a pretend GPU runs each measure once."""
    peak = measure_matmul_peak(8192 if place.is_real else 64)
    if place.is_real:
        yield measured("square product of 8192 in bf16", [peak], "TFLOP/s", "best of ten")
    cases = list_cases(place)
    for number, (title, case) in enumerate(cases.items()):
        pairs = models.make_pairs(models.write_model(place.folder, case.size), case.lengths)
        seconds = place.share(2 * (len(cases) - number))
        for work, measures in list_measures(pairs, case.batch_size).items():
            yield from compare(f"{title}: {work}", measures, pairs, place, seconds, peak)


def list_measures(pairs: PairList, batch_size: int) -> dict[str, dict[str, Measure]]:
    """Return the measures by work and contender; the first is this engine's."""
    settings = {"precision": "bf16", "evaluation_precision": "bf16"}
    training = {
        "this engine": contenders.own(pairs, device="cuda", **settings, batch_size=batch_size),
        "this engine with CUDA graphs": partial(measure_graphs, pairs, settings, batch_size),
    }
    if batch_size == contenders.BATCH_SIZE and all(map(find_spec, _RIVAL_PACKAGES)):
        training["CrossEncoderTrainer"] = contenders.cross_encoder_trainer(pairs, "bf16", "cuda")
    evaluation = {"this engine": partial(measure_own_evaluation, pairs, settings)}
    return {"training": training, "evaluation": evaluation | {"dynamic padding": partial(measure_padded, pairs)}}


def compare(
    title: str, measures: dict[str, Measure], pairs: PairList, place: Place, seconds: float, peak: float
) -> Iterator[Row]:
    """Rows of one work; on a pretend GPU the measures only run."""
    memory = dict[str, int]()
    tracked = {name: partial(track, measure, name, memory) for name, measure in measures.items()}
    if not place.is_real:
        yield confirmed(f"{title}: the code of all runs", all(measure() > 0 for measure in tracked.values()))
        return
    found = interleaved(tracked, place.rounds, seconds)
    own = found["this engine"]
    for name, rates in found.items():
        note = f"{memory[name] / 2**30:.1f} GiB at most"
        if rates is not own:
            ratios = [one / other for one, other in zip(own, rates, strict=True)]
            note += f"; this engine {median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) times as fast"
        elif "training" in title:
            share = median(rates) / len(pairs.texts) * models.compute_teraflops(pairs.path, pairs.lengths) / peak
            note += f"; {share:.1%} of the matmul peak"
        yield measured(f"{title}, {name}", rates, "pairs/s", note)


def track(measure: Measure, name: str, memory: dict[str, int]) -> float:
    """The measure with deterministic algorithms for this engine alone; notes the largest memory of its rounds."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.use_deterministic_algorithms(name.startswith("this engine"))
    try:
        return measure()
    finally:
        torch.use_deterministic_algorithms(True)
        memory[name] = max(memory.get(name, 0), torch.cuda.max_memory_allocated())


def measure_graphs(pairs: PairList, settings: dict[str, str], batch_size: int) -> float:
    """Pairs a second in the second epoch of a training with CUDA graphs; in the first one most of them are captured."""
    count, labels = len(pairs.texts), contenders.label(pairs)
    sizes = {"batch_size": batch_size, "instances": 2 * count}
    trainer = contenders.own_trainer(pairs, device="cuda", **settings, **sizes, cuda_graphs=True)
    trainer.train(Segment(0, 2 * count, LabelSmoothing()), count, labels)
    torch.cuda.synchronize()

    def train() -> None:
        trainer.train(Segment(0, 2 * count, LabelSmoothing()), 2 * count, labels)
        torch.cuda.synchronize()

    return rate(train, count)()


def measure_own_evaluation(pairs: PairList, settings: dict[str, str]) -> float:
    """Pairs a second of this engine's evaluation, in batches of pairs of similar length."""
    trainer, labels = contenders.own_trainer(pairs, device="cuda", **settings), contenders.label(pairs)
    torch.cuda.synchronize()
    return rate(lambda: trainer.score_pairs(labels), len(pairs.texts))()


def measure_padded(pairs: PairList) -> float:
    """Pairs a second in batches of 128 in the given order, each padded to its longest pair."""
    model = load_padded(pairs).eval()

    def work() -> None:
        with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
            parts = torch.arange(len(pairs.texts)).split(128)
            torch.cat([model(**pad(pairs, rows.tolist())).logits for rows in parts]).cpu()

    torch.cuda.synchronize()
    return rate(work, len(pairs.texts))()


def load_padded(pairs: PairList) -> torch.nn.Module:
    """The model of transformers with a classifier."""
    options = {"num_labels": 2, "attn_implementation": "sdpa", "dtype": torch.float32}
    model: torch.nn.Module = AutoModelForSequenceClassification.from_pretrained(pairs.path, **options)
    return model.to("cuda")


def pad(pairs: PairList, rows: list[int]) -> dict[str, torch.Tensor]:
    """Inputs of the model for these pairs."""
    features = [{name: pairs.encoded[name][row] for name in pairs.encoded} for row in rows]
    return {name: values.to("cuda") for name, values in pairs.tokenizer.pad(features, return_tensors="pt").items()}


def measure_matmul_peak(size: int) -> float:
    """TFLOP/s of a square product in bf16: the best of ten."""
    left, right = (torch.randn(size, size, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    rates = []
    for _ in range(10):
        torch.cuda.synchronize()
        started = time.perf_counter()
        left @ right
        torch.cuda.synchronize()
        rates.append(2 * size**3 / (time.perf_counter() - started) / 1e12)
    return max(rates)
