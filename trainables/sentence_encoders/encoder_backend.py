"""Training and evaluation of sentence encoders: implements `trainables.specs.plugin.TrainingBackend`."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from trainables.models.sentence_encoder import SentenceEncoder
from trainables.sentence_encoders.encoder_run import EncoderData, EncoderRun
from trainables.sentence_encoders.encoder_trainer import EncoderTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, Throughput
from trainables.specs.sentence_encoder import as_encoder_spec
from trainables.specs.trial import TrialSpec
from trainables.training.frozen_features import InMemoryFeatures
from trainables.training.throughput import Workload, measure_workload
from trainables.utils.base_settings import require

_MEASURED_PAIRS = 250
_MEASURED_BATCHES = 8
"""Batches of training sentences, which are used repeatedly."""


def precompute(trial: TrialSpec, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Compute tokens and outputs of the frozen layers."""
    yield from EncoderData(trial).precompute(on_wait)


def start_run(trial: TrialSpec, on_wait: Callable[[], None]) -> ActiveRun:
    """Start a run."""
    return EncoderRun(trial, on_wait)


def load_scored_pairs(trial: TrialSpec, split: str) -> pd.DataFrame:
    """Return query_id, document_id, relevant and pair_id of the pairs of a split."""
    return EncoderData(trial).select_pairs(split)


def compute_extra_metrics(trial: TrialSpec, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """Return no further metrics."""
    return {}


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of a run on the first sentences and development pairs, see `measure_workload`.

    Training uses the noise with which the run's variant begins.
    """
    specification, data = as_encoder_spec(trial.specification), EncoderData(trial)
    training = require(specification.training)
    data.tokenize_once(lambda: None)
    tokens = data.tokens
    pairs = tokens.get_pairs("dev")[:, :_MEASURED_PAIRS]
    n_training = min(tokens.n_training, _MEASURED_BATCHES * training.batch_size)
    rows = np.union1d(np.arange(n_training), pairs)
    segment = Segment(0, training.instances, specification.variant.to_constant())

    def make_workload(model: SentenceEncoder, features: InMemoryFeatures) -> Workload:
        trainer = EncoderTrainer(model, training, 0, features, n_training)
        return Workload(trainer, lambda until: trainer.train(segment, until), lambda: len(trainer.score_pairs(*pairs)))

    return measure_workload(trial, seconds, data, rows, make_workload)
