"""Training and evaluation of sentence encoders: implements `trainables.specs.plugin.TrainingBackend`."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from trainables.sentence_encoders import throughput
from trainables.sentence_encoders.precompute import precompute_inputs
from trainables.sentence_encoders.runner import EncoderData, EncoderRun
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, Throughput
from trainables.specs.trial import TrialSpec


def precompute(trial: TrialSpec, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Compute tokens and outputs of the frozen layers."""
    yield from precompute_inputs(trial, on_wait)


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
    """Measure the throughput of the run on this machine."""
    return throughput.measure_throughput(trial, seconds)
