"""The same sentence encoder trained on the same sentences by this engine and by sentence-transformers' trainer.

SimCSE's loss: InfoNCE over two dropout views, for sentence-transformers every sentence as its own positive. Both see
the same batches, from the same weights, with fused AdamW, linear decay, clipping and dropout. This engine's tokens are
made before; sentence-transformers tokenises as it goes.
"""

import tempfile
import time
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
from transformers import PrinterCallback

from benchmarks.contenders import Clock, arguments
from trainables.models.packing import PackedBatch
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.models.tokenizer import load_tokenizer
from trainables.sentence_encoders.trainer import EncoderTrainer, sample_batch
from trainables.specs.checkpoints import Segment
from trainables.specs.sentence_encoder import EncoderModelSettings, EncoderTrainingSettings, NoiseSmoothing
from trainables.training.frozen_features import make_token_batch
from trainables.training.process import prepare_process
from trainables.utils.arrays import Ints

BATCH_SIZE, LONGEST = 64, 32
_RATE, _CLIP, _TEMPERATURE = 3e-5, 1.0, 0.05


class SentenceList:
    """Distinct sentences, tokenised once, as this engine takes them."""

    def __init__(self, path: Path, texts: list[str]) -> None:
        self.texts = texts
        ids = load_tokenizer(path)(texts, truncation=True, max_length=LONGEST)["input_ids"]
        self.lengths: Ints = np.array([len(own) for own in ids])
        self.starts, self.offsets, self.flat = self.lengths, np.cumsum([0, *self.lengths]), np.concatenate(ids)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def training(self) -> int:
        """All of them."""
        return len(self)

    def read(self, rows: Ints) -> PackedBatch:
        """These sentences."""
        return make_token_batch(self, rows)


class Training(NamedTuple):
    """What both do."""

    path: Path
    sentences: SentenceList
    steps: int
    pooling: str = "cls"
    precision: str = "fp32"
    device: str = "cpu"
    dropout: float = 0.1

    @property
    def total(self) -> int:
        """Sentences that are seen."""
        return self.steps * BATCH_SIZE

    def encoder(self, seed: int) -> SentenceEncoder:
        """This engine's model."""
        settings = EncoderModelSettings.model_validate({"pooling": self.pooling})
        return SentenceEncoder(self.path, settings, seed).to(self.device)

    def texts(self, seed: int) -> list[str]:
        """The sentences batch after batch, as this engine draws them."""
        rows = (sample_batch(seed, step, len(self.sentences), BATCH_SIZE) for step in range(self.steps))
        return [self.sentences.texts[row] for row in np.concatenate(list(rows))]


class Trained(NamedTuple):
    """What came of it."""

    losses: list[float]
    rate: float  # sentences a second


def own(training: Training, seed: int) -> Trained:
    """This engine, as a run uses it."""
    settings = EncoderTrainingSettings.model_validate(
        {
            "instances": training.total,
            "batch_size": BATCH_SIZE,
            "learning_rate": _RATE,
            "gradient_norm": _CLIP,
            "temperature": _TEMPERATURE,
            "dropout": training.dropout,
            "precision": training.precision,
        }
    )
    prepare_process(torch.get_num_threads())
    trainer = EncoderTrainer(training.encoder(seed), settings, seed, training.sentences)
    started = time.perf_counter()
    trainer.train(Segment(0, training.total, NoiseSmoothing()), training.total)
    if training.device == "cuda":
        torch.cuda.synchronize()
    return Trained([row["train/loss"] for row in trainer.history], training.total / (time.perf_counter() - started))


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


def sentence_transformers(training: Training, seed: int) -> Trained:
    """SentenceTransformerTrainer with dynamic padding."""
    torch.use_deterministic_algorithms(False)
    model = _model(training, seed)
    loss, clock, texts = _Loss(model), Clock(), training.texts(seed)
    with tempfile.TemporaryDirectory() as folder:
        special = {
            "per_device_train_batch_size": BATCH_SIZE,
            "learning_rate": _RATE,
            "max_grad_norm": _CLIP,
            "use_cpu": training.device == "cpu",
            "seed": seed,
            "batch_sampler": _in_order,
        }
        trainer = _Trainer(
            model=model,
            args=SentenceTransformerTrainingArguments(**arguments(folder, training.precision) | special),
            train_dataset=Dataset.from_dict({"anchor": texts, "positive": texts}),
            loss=loss,
            callbacks=[clock],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return Trained([value.item() for value in loss.values], training.total / clock.seconds)


def _model(training: Training, seed: int) -> SentenceTransformer:
    """With this engine's dense layer and tanh on [CLS]."""
    dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), training.dropout)
    body = modules.Transformer(str(training.path), max_seq_length=LONGEST, config_kwargs=dropout)
    hidden, head = body.get_embedding_dimension(), training.encoder(seed).head
    parts: list[nn.Module] = [body, modules.Pooling(hidden, training.pooling)]
    if head is not None:
        parts.append(modules.Dense(hidden, hidden, init_weight=head.weight.detach(), init_bias=head.bias.detach()))
    return SentenceTransformer(modules=parts, device=training.device)


def _in_order(dataset: Dataset, batch_size: int, drop_last: bool, **names: Any) -> DefaultBatchSampler:
    return DefaultBatchSampler(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last)
