"""Cross-encoders of the size of BERT-base on a GPU; skipped where there is none.

The share of the GPU's matrix units that training uses, the kernels of attention beside each other, and the types of
encoders. Weights are random, since the time does not depend on them.

python -m benchmarks.gpu [ROUNDS]
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from transformers import AutoConfig, AutoModel, BertConfig

from benchmarks.contenders import quiet
from benchmarks.measure import Measure, interleaved, machine, show
from trainables.models import attention
from trainables.models.attention import Kernel
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


def teraflops(pairs: Made) -> float:
    """Useful work of training BERT-base on all pairs: three times the forward pass, attention included."""
    layers, hidden, lengths = BertConfig().num_hidden_layers, BertConfig().hidden_size, pairs.lengths
    return float(np.sum(3 * layers * (24 * lengths * hidden**2 + 4 * lengths**2 * hidden))) / 1e12


class Case(NamedTuple):
    """How a cross-encoder is trained and evaluated."""

    path: Path
    tokens: int = 16384  # at once
    kernel: Kernel | None = None  # None: the one that the engine chooses
    dropout: float = 0.1
    precision: str = "bf16"

    def make_trainer(self, pairs: Made) -> RankerTrainer:
        """A fresh one."""
        settings = RankerTrainingSettings.model_validate(
            {
                "instances": len(pairs.lengths),
                "batch_size": _BATCH_SIZE,
                "negatives": 1,
                "precision": self.precision,
                "evaluation_precision": self.precision,
                "tokens_per_micro_batch": self.tokens,
                "dropout": self.dropout,
            }
        )
        return RankerTrainer(CrossEncoder(self.path, RankerModelSettings(), 1).to("cuda"), settings, 1, pairs)

    def measure(self, pairs: Made, train: bool) -> Measure:
        """Instances a second of one trial that trains or evaluates."""
        count = len(pairs.lengths)
        labels = np.tile([1, 0], count // 2)
        every = Pairs(0, labels, labels, np.where(labels == 1, np.nan, 0.5), 2, labels)
        choose = attention.choose_kernel

        def measure() -> float:
            trainer = self.make_trainer(pairs)
            with patch.object(attention, "choose_kernel", lambda *given: self.kernel or choose(*given)):
                torch.cuda.synchronize()
                started = time.perf_counter()
                if train:
                    trainer.train(Segment(0, count, LabelSmoothing()), count, every)
                else:
                    trainer.score_pairs(every)
                torch.cuda.synchronize()
                return count / (time.perf_counter() - started)

        return measure


def write_model(folder: Path, kind: str) -> Path:
    """A model of this type, as large as its authors' base model."""
    sizes = {
        "deberta-v2": {
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "intermediate_size": 3072,
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 256,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "position_biased_input": False,
        }
    }
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.for_model(kind, **sizes.get(kind, {}))).save_pretrained(folder / kind)
    return folder / kind


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


def show_cases(title: str, cases: dict[str, Case], pairs: Made, rounds: int) -> dict[str, list[float]]:
    """Training and evaluation of every case; returns the rates of training."""
    trained = interleaved({name: case.measure(pairs, train=True) for name, case in cases.items()}, rounds)
    show(f"{title}: training", "instances/s", trained)
    evaluated = interleaved({name: case.measure(pairs, train=False) for name, case in cases.items()}, rounds)
    show(f"{title}: evaluation", "pairs/s", evaluated)
    return trained


def main() -> None:
    """Prints instances a second and the share of the matrix units."""
    if not torch.cuda.is_available():
        print("no CUDA GPU here: nothing measured")
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    quiet()
    print(f"{machine()}, {torch.cuda.get_device_name()}, {rounds} rounds")
    enable_determinism(threads=2)
    peak = matmul_peak()
    with tempfile.TemporaryDirectory() as folder:
        paths = {kind: write_model(Path(folder), kind) for kind in ("bert", "modernbert", "deberta-v2", "mpnet")}
        for title, pairs in (("question pairs", drawn(30, 0.4)), ("long-tailed", drawn(85, 0.9))):
            sizes = {f"{tokens} tokens at once, bf16": Case(paths["bert"], tokens) for tokens in (4096, 16384)}
            for name, rates in show_cases(f"{title}, BERT-base", sizes, pairs, rounds).items():
                reached = median(rates) * teraflops(pairs) / len(pairs.lengths)
                print(f"  {name}: {reached:.0f} useful TFLOP/s, {reached / peak:.0%} of the {peak:.0f} of a matmul")
            kernels = {
                "explicit, dropout 0.1, bf16": Case(paths["bert"], kernel="explicit"),
                "fused, dropout 0.1, bf16": Case(paths["bert"], kernel="fused"),
                "explicit, no dropout, bf16": Case(paths["bert"], kernel="explicit", dropout=0.0),
                "fused, no dropout, bf16": Case(paths["bert"], kernel="fused", dropout=0.0),
                "varlen, no dropout, bf16": Case(paths["bert"], kernel="varlen", dropout=0.0),
                "explicit, no dropout, fp32": Case(paths["bert"], kernel="explicit", dropout=0.0, precision="fp32"),
                "fused, no dropout, fp32": Case(paths["bert"], kernel="fused", dropout=0.0, precision="fp32"),
            }
            show_cases(f"{title}, BERT-base, kernels of attention", kernels, pairs, rounds)
            show_cases(f"{title}, types", {kind: Case(path) for kind, path in paths.items()}, pairs, rounds)


if __name__ == "__main__":
    main()
