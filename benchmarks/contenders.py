"""The same model trained on the same pairs by this engine, transformers.Trainer and CrossEncoderTrainer.

Everybody sees every pair once, in batches of 32, with fused AdamW, clipping and dropout; tokenising is not timed where
the contender allows it to be done before. The libraries that only one contender needs are imported by it.
"""

import logging
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding, TrainingArguments
from transformers import Trainer as TransformersTrainer

from benchmarks.measure import Measure, in_turn
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.packing import PackedBatch
from trainables.models.pretrained import load_tokenizer
from trainables.rankers.ranker_trainer import Pairs, RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.environment import DeviceType, resolve_precision
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerTrainingSettings
from trainables.training.process import keep_freed_memory

BATCH_SIZE = 32
Texts = list[tuple[str, str]]
_RATE, _CLIP = 2e-5, 1.0


class PairList:
    """Pairs of texts, tokenised once; pair 2 i is relevant, 2 i + 1 its negative."""

    def __init__(self, path: Path, texts: list[tuple[str, str]], max_length: int) -> None:
        self.path, self.texts, self.max_length = path, texts, max_length
        self.tokenizer = load_tokenizer(path)
        first, second = ([text[side] for text in texts] for side in (0, 1))
        self.encoded = self.tokenizer(first, second, truncation=True, max_length=max_length)
        self.ids = [np.array(ids) for ids in self.encoded["input_ids"]]
        self.starts = np.array([self.encoded.sequence_ids(row).index(1) for row in range(len(texts))])
        self.lengths = np.array([len(ids) for ids in self.ids])
        self.labels = np.tile([1, 0], len(texts) // 2)

    def read(self, rows: np.ndarray) -> PackedBatch:
        """As this engine takes them."""
        ids = torch.from_numpy(np.concatenate([self.ids[row] for row in rows]))
        return PackedBatch(ids, self.lengths[rows], self.starts[rows])

    @cached_property
    def gigaflops(self) -> float:
        """Useful work of training on a mean pair, of 6 layers of 384: three times the forward pass, with attention."""
        layers, hidden = 6, 384
        return float(np.mean(3 * layers * (24 * self.lengths * hidden**2 + 4 * self.lengths**2 * hidden))) / 1e9


class PairLists(NamedTuple):
    """Pairs of texts in several lists of equal size, one for each round.

    Attributes:
        path: folder of the model with the tokenizer that reads them.
        texts: all pairs; half of every list are relevant.
        max_length: tokens of a pair, at most.
        count: number of lists.
    """

    path: Path
    texts: Texts
    max_length: int
    count: int

    @property
    def size(self) -> int:
        """Pairs of a list."""
        return len(self.texts) // self.count

    def read(self) -> list[PairList]:
        """Tokenise the texts."""
        starts = [self.size * number for number in range(self.count)]
        return [PairList(self.path, self.texts[start : start + self.size], self.max_length) for start in starts]


def measure_in_turn(make: Callable[..., Measure], lists: PairLists, **settings: Any) -> Measure:
    """Return a function that calls what `make` returns for a list and the settings, with the next list in each call."""
    quiet()
    return in_turn([make(pairs, **settings) for pairs in lists.read()])


def own_trainer(
    pairs: PairList, precision: str, seed: int = 1, device: DeviceType = "cpu", **others: Any
) -> RankerTrainer:
    """This engine's trainer of a whole epoch; `others` are further settings of training.

    Freed memory is kept from then on, as in a trial, also for the contenders in this process.
    """
    keep_freed_memory()
    settings = RankerTrainingSettings.model_validate(
        {
            "instances": len(pairs.texts),
            "batch_size": BATCH_SIZE,
            "negatives": 1,
            "learning_rate": _RATE,
            "gradient_norm": _CLIP,
            "precision": precision,
            **others,
        }
    )
    settings = resolve_precision(settings, device)
    return RankerTrainer(CrossEncoder(pairs.path, RankerModelSettings(), seed).to(device), settings, seed, pairs)


def label(pairs: PairList) -> Pairs:
    """All pairs with their labels."""
    given = pairs.labels
    return Pairs(0, given, given, np.where(given == 1, np.nan, 0.5), given)


def own(pairs: PairList, precision: str, device: DeviceType = "cpu", **others: Any) -> Measure:
    """Instances a second of this engine."""
    labels = label(pairs)

    def measure() -> float:
        trainer = own_trainer(pairs, precision, device=device, **others)
        synchronize(device)
        started = time.perf_counter()
        trainer.train(Segment(0, len(pairs.texts), LabelSmoothing()), len(pairs.texts), labels)
        synchronize(device)
        return len(pairs.texts) / (time.perf_counter() - started)

    return measure


def synchronize(device: str) -> None:
    """Wait until a GPU has done what it was given; a processor has."""
    if device == "cuda":
        torch.cuda.synchronize()


class Clock(transformers.TrainerCallback):
    """From the first step's beginning to the training's end."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def on_step_begin(self, *arguments: Any, **names: Any) -> None:
        self.started = getattr(self, "started", time.perf_counter())

    def on_train_end(self, *arguments: Any, **names: Any) -> None:
        synchronize(self.device)
        self.seconds = time.perf_counter() - self.started


def arguments(folder: str, precision: str, device: str = "cpu") -> dict[str, Any]:
    """Return the arguments of every trainer of the libraries."""
    return {
        "output_dir": folder,
        "num_train_epochs": 1,
        "per_device_train_batch_size": BATCH_SIZE,
        "learning_rate": _RATE,
        "max_grad_norm": _CLIP,
        "optim": "adamw_torch_fused",
        "bf16": precision == "bf16",
        "use_cpu": device == "cpu",
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": 1,
    }


def transformers_trainer(pairs: PairList, precision: str) -> Measure:
    """Instances a second of transformers.Trainer, which takes pairs of similar length together."""
    from datasets import Dataset

    columns = {name: pairs.encoded[name] for name in pairs.encoded}
    data = Dataset.from_dict({**columns, "labels": pairs.labels.tolist()})

    def measure() -> float:
        model = AutoModelForSequenceClassification.from_pretrained(pairs.path, num_labels=2)
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            trainer = TransformersTrainer(
                model=model,
                args=TrainingArguments(**arguments(folder, precision), train_sampling_strategy="group_by_length"),
                train_dataset=data,
                data_collator=DataCollatorWithPadding(pairs.tokenizer),
                callbacks=[clock],
            )
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        return len(pairs.texts) / clock.seconds

    return measure


def cross_encoder_trainer(pairs: PairList, precision: str, device: str = "cpu", **config: Any) -> Measure:
    """Instances a second of sentence_transformers.CrossEncoderTrainer; it tokenises as it goes.

    `config` are settings of the model that differ from those in its folder.
    """
    from datasets import Dataset
    from sentence_transformers.cross_encoder import CrossEncoder as SentenceCrossEncoder
    from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
    from sentence_transformers.cross_encoder.losses import CrossEntropyLoss

    first, second = ([text[side] for text in pairs.texts] for side in (0, 1))
    data = Dataset.from_dict({"query": first, "document": second, "label": pairs.labels.tolist()})

    def measure() -> float:
        model = SentenceCrossEncoder(
            str(pairs.path), num_labels=2, max_length=pairs.max_length, device=device, config_kwargs=config
        )
        clock = Clock(device)
        with tempfile.TemporaryDirectory() as folder:
            trainer = CrossEncoderTrainer(
                model=model,
                args=CrossEncoderTrainingArguments(**arguments(folder, precision, device)),
                train_dataset=data,
                loss=CrossEntropyLoss(model),
                callbacks=[clock],
            )
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        return len(pairs.texts) / clock.seconds

    return measure


def quiet() -> None:
    """No progress bars or notices of the libraries between the figures."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in ("sentence_transformers", "datasets"):
        logging.getLogger(name).setLevel(logging.ERROR)
