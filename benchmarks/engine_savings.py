"""Rates of this engine with its savings switched off, to tell what each of them contributes.

`benchmarks.savings` prints them.
"""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.peer_study import AT_ONCE
from trainables.models.packing import PackedBatch
from trainables.models.precision import Precision
from trainables.models.transformer import Transformer
from trainables.rankers.ranker_run import RankerData
from trainables.rankers.ranker_trainer import RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.trial import TrialSpec
from trainables.text.tokens import TokenizedTexts
from trainables.training.batching import BatchSampler
from trainables.training.frozen_features import InMemoryFeatures, make_token_batch
from trainables.training.process import prepare_process
from trainables.utils.arrays import Ints

_WARM_UP, _BATCHES, _SCORED_QUERIES = 4, 16, 100
SWITCHES = {
    "this engine, padded, all tokens, frozen layers each time": (False, False, False),
    "no padding": (True, False, False),
    "last layer for [CLS] alone": (True, True, False),
    "frozen layers once": (True, True, True),
}
"""The switches of `measure_engine`: each has one saving more than the one before."""


def list_training_rows(data: RankerData, trial: TrialSpec, seed: int) -> Ints:
    """Numbers of the pairs in the order in which a run of this seed trains on them."""
    pairs, training = data.select_pairs("train"), trial.specification.training
    sampler = BatchSampler(seed, training, pairs.rows)
    batches = [sampler.sample_rows(step) for step in range(training.instances // training.batch_size)]
    rows: Ints = pairs.first_row + np.concatenate(batches)
    return rows


class Rates(NamedTuple):
    """Pairs a processor second of one process."""

    training: float
    dev: float
    test: float


class FrozenEachTime:
    """Texts with outputs of the frozen layers that are computed at every read, in the precision of the pass.

    Unless `is_packed`, each has as many tokens as the longest that is read with it.
    """

    precision: Precision = "fp32"

    def __init__(self, texts: TokenizedTexts, model: Transformer, is_packed: bool) -> None:
        self.lengths, self._texts, self._model, self._is_packed = texts.lengths, texts, model, is_packed

    def read(self, rows: Ints) -> PackedBatch:
        batch = make_token_batch(self._texts, rows)
        if not self._is_packed:
            batch = pad(batch)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
            return batch._replace(inputs=self._model.run_frozen_layers(batch).float())


def pad(batch: PackedBatch) -> PackedBatch:
    """The texts of a batch with the length of the longest, as if what fills them were tokens."""
    longest = int(batch.lengths.max())
    inputs = torch.zeros(len(batch.lengths), longest, dtype=batch.inputs.dtype)
    inputs[torch.from_numpy(np.arange(longest) < batch.lengths[:, None])] = batch.inputs
    return batch._replace(inputs=inputs.reshape(-1), lengths=np.full_like(batch.lengths, longest))


def measure_engine(
    trial: TrialSpec, is_packed: bool, reads_first: bool, stores_frozen: bool, batches: int = _BATCHES
) -> Rates:
    """Rates of this engine on the first batches of a training and the first queries of dev, with some savings."""
    specification = trial.specification
    training, seed = specification.training, specification.seed
    prepare_process(training.threads)
    if not reads_first:
        settings = specification.model.model_copy(update={"pooling": "mean"})
        trial = trial.model_copy(update={"specification": specification.model_copy(update={"model": settings})})
    data = RankerData(trial)
    model, pairs = data.load_model(seed), data.select_pairs("train")
    scored = data.select_pairs("dev").select_queries(0, _SCORED_QUERIES)
    source: Any = FrozenEachTime(data.tokens, model, is_packed)
    if stores_frozen:
        trained = list_training_rows(data, trial, seed)[: (_WARM_UP + batches) * training.batch_size]
        rows = [*trained, *(scored.first_row + np.arange(len(scored.relevant)))]
        source = InMemoryFeatures(data.tokens, np.unique(rows), model)
    trainer = RankerTrainer(model, training, seed, source)
    segment = Segment(0, training.instances, specification.variant)

    def train(more: int) -> None:
        source.precision = training.precision
        trainer.train(segment, trainer.instances_seen + more * training.batch_size, pairs)

    def score(split: str) -> None:
        source.precision = training.get_scoring_precision(split)
        trainer.score_pairs(scored, source.precision)

    train(_WARM_UP)
    rates = [batches * training.batch_size / take_time(lambda: train(batches))]
    for split in ("dev", "test"):
        score(split)
        rates.append(len(scored.relevant) / take_time(lambda split=split: score(split)))
    return Rates(*rates)


def take_time(work: Callable[[], object]) -> float:
    """Processor seconds of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measure_savings(trial: TrialSpec) -> dict[str, Rates]:
    """Mean rates of as many processes as there are trials at once, by what is switched on."""
    found = dict[str, Rates]()
    with ProcessPoolExecutor(AT_ONCE, get_context("spawn")) as pool:
        for name, switches in SWITCHES.items():
            both = [pool.submit(measure_engine, trial, *switches) for _ in range(AT_ONCE)]
            found[name] = Rates(*map(fmean, zip(*(each.result() for each in both), strict=True)))
    return found
