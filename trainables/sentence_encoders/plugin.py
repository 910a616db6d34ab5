"""Training and evaluation of sentence encoders: implements `trainables.specs.plugin.TrainingBackend`."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from trainables.sentence_encoders import throughput
from trainables.sentence_encoders.runner import EncoderData, EncoderRun, load_model
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, Throughput
from trainables.specs.trial import TrialSpec
from trainables.training.runner import enable_determinism
from trainables.utils.arrays import Ints


def precompute(trial: TrialSpec, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Compute token ids, in one process while the others wait, and then the outputs of the frozen layers."""
    data = EncoderData(trial)
    data.tokenize_once(on_wait)
    model, training = trial.specification.model, trial.specification.training
    if model and training and model.frozen_layers:
        enable_determinism(training.threads)
        yield from data.features.compute_missing(lambda: load_model(trial, 0), data.lease_storage, on_wait)


def start_run(trial: TrialSpec, on_wait: Callable[[], None]) -> ActiveRun:
    """Start a run."""
    return EncoderRun(trial, on_wait)


def load_scored_pairs(trial: TrialSpec, split: str) -> pd.DataFrame:
    """Return query_id, document_id, relevant and pair_id of the pairs of a split."""
    return EncoderData(trial).select_pairs(split)


def embed_sentences(trial: TrialSpec, rows: Ints) -> npt.NDArray[np.float32]:
    """Return the embeddings of sentences by the final weights of a run.

    Args:
        trial: trial of the run; it is trained if needed.
        rows: numbers of the sentences; training sentences have the first numbers.

    Returns:
        Embeddings of shape (sentences, hidden).
    """
    for _ in precompute(trial, lambda: None):
        pass
    run = EncoderRun(trial)
    while run.advance() is None:
        pass
    embeddings: npt.NDArray[np.float32] = run.trainer.embed_rows(rows).numpy()
    return embeddings


def compute_extra_metrics(trial: TrialSpec, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """Return no further metrics."""
    return {}


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of the run on this machine."""
    return throughput.measure_throughput(trial, seconds)
