"""The training backend (`trainables.specs.plugin.TrainingBackend`)."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from dense_retriever.run import RetrieverRun
from dense_retriever.texts import RetrieverData
from dense_retriever.trainer import RetrieverTrainer
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.rankers.ranker_backend import ReferenceRankingRun, load_scored_pairs
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, Throughput
from trainables.specs.trial import TrialSpec
from trainables.training.frozen_features import InMemoryFeatures
from trainables.training.throughput import Workload, measure_workload
from trainables.utils.base_settings import require

__all__ = ["load_scored_pairs"]  # and the functions below
MEASURED_BATCHES, MEASURED_TEXTS = 8, 500


def precompute(trial: TrialSpec, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Compute the tokens and the outputs of the frozen layers."""
    if trial.specification.system == "dense-retriever":
        yield from RetrieverData(trial).precompute(on_wait)


def start_run(trial: TrialSpec, on_wait: Callable[[], None]) -> ActiveRun:
    """Start or resume a run."""
    return ReferenceRankingRun(trial) if trial.specification.system == "sampler" else RetrieverRun(trial, on_wait)


def compute_extra_metrics(trial: TrialSpec, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """Return no further metrics."""
    return {}


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure training on some queries. An evaluation embeds all texts, so its scores take that long."""
    data = RetrieverData(trial)
    data.tokenize_once(lambda: None)
    training = require(data.spec.training)
    segment = Segment(0, training.instances, data.spec.variant.to_constant())
    pairs = data.read_training_pairs(MEASURED_BATCHES * training.batch_size)
    rows = np.unique(data.number_pairs(pairs))
    scores_per_text = len(data.prepared.read_query_ids("dev")) * data.spec.task.depth / len(data.tokens)

    def make_workload(model: SentenceEncoder, features: InMemoryFeatures) -> Workload:
        trainer = RetrieverTrainer(model, data, 0, pairs, features)

        def evaluate() -> int:
            return round(len(trainer.embed_rows(rows[:MEASURED_TEXTS])) * scores_per_text)

        return Workload(trainer, lambda until: trainer.train(segment, until), evaluate)

    return measure_workload(trial, seconds, data, rows, make_workload)
