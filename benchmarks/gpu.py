"""A BERT-base-sized cross-encoder on a GPU: what share of its matrix units training uses; skipped where there is none.

python -m benchmarks.gpu [ROUNDS]
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from transformers import BertConfig, BertModel

from benchmarks.contenders import quiet
from benchmarks.measure import Measure, interleaved, machine, show
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.packing import PackedBatch
from trainables.rankers.trainer import Pairs, RankerTrainer
from trainables.specs.checkpoints import Segment
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerTrainingSettings
from trainables.training.determinism import enable_determinism
from trainables.utils.random import make_generator

_LONGEST, _BATCH_SIZE, _STEPS = 512, 32, 64


class Made(NamedTuple):
    """Pairs of drawn lengths and of one word: the arithmetic does not depend on the words."""

    lengths: np.ndarray  # (pairs,)

    def read(self, rows: np.ndarray) -> PackedBatch:
        """As the engine takes them."""
        lengths = self.lengths[rows]
        return PackedBatch(torch.full((int(lengths.sum()),), 7), lengths, lengths // 2)


def drawn(mean: float, spread: float) -> Made:
    """Log-normal lengths of which `spread` is the logarithm's standard deviation, cut at 512."""
    draws = make_generator(1, "benchmark", 0).lognormal(np.log(mean) - spread**2 / 2, spread, _BATCH_SIZE * _STEPS)
    return Made(np.clip(draws.round(), 8, _LONGEST).astype(np.int64))


def teraflops(model: BertModel, pairs: Made) -> float:
    """Useful work of training on all pairs: three times the forward pass, attention included."""
    layers, hidden, lengths = model.config.num_hidden_layers, model.config.hidden_size, pairs.lengths
    return float(np.sum(3 * layers * (24 * lengths * hidden**2 + 4 * lengths**2 * hidden))) / 1e12


def training(path: Path, pairs: Made, device: str, tokens: int) -> Measure:
    """Instances a second of one trial."""
    count = len(pairs.lengths)
    settings = RankerTrainingSettings.model_validate(
        {"instances": count, "batch_size": _BATCH_SIZE, "precision": "bf16", "tokens_per_micro_batch": tokens}
    )
    labels = np.tile([1, 0], count // 2)
    every = Pairs(0, labels, np.where(labels == 1, np.nan, 0.5), 2)

    def measure() -> float:
        trainer = RankerTrainer(CrossEncoder(path, RankerModelSettings(), 1).to(device), settings, 1, pairs)
        torch.cuda.synchronize()
        started = time.perf_counter()
        trainer.train(Segment(0, count, LabelSmoothing()), count, every)
        torch.cuda.synchronize()
        return count / (time.perf_counter() - started)

    return measure


def matmul_peak(size: int = 8192) -> float:
    """TFLOP/s of a square product in bf16: the best of ten."""
    left, right = (torch.randn(size, size, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    best = 0.0
    for _ in range(10):
        torch.cuda.synchronize()
        started = time.perf_counter()
        left @ right
        torch.cuda.synchronize()
        best = max(best, 2 * size**3 / (time.perf_counter() - started) / 1e12)
    return best


def main() -> None:
    """Prints instances a second and the share of the matrix units."""
    if not torch.cuda.is_available():
        print("no CUDA GPU here: nothing measured")
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    quiet()
    print(f"{machine()}, {torch.cuda.get_device_name()}, {rounds} rounds, bf16")
    enable_determinism(threads=2)
    peak = matmul_peak()
    with tempfile.TemporaryDirectory() as folder:
        model = BertModel(BertConfig())
        model.save_pretrained(folder)
        for title, pairs in (("question pairs", drawn(30, 0.4)), ("long-tailed", drawn(85, 0.9))):
            measures = {
                f"{tokens} tokens at once": training(Path(folder), pairs, "cuda", tokens) for tokens in (4096, 16384)
            }
            found = interleaved(measures, rounds)
            show(f"{title}, BERT-base: training", "instances/s", found)
            for name, rates in found.items():
                reached = median(rates) * teraflops(model, pairs) / len(pairs.lengths)
                print(f"  {name}: {reached:.0f} useful TFLOP/s, {reached / peak:.0%} of the {peak:.0f} of a matmul")


if __name__ == "__main__":
    main()
