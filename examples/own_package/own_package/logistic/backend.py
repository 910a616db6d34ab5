"""The training backend (`trainables.specs.plugin.TrainingBackend`)."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from own_package.logistic.data import draw_points
from own_package.logistic.run import LogisticRun
from trainables.specs.plugin import PrecomputeProgress, Throughput
from trainables.specs.trial import TrialSpec


def precompute(trial: TrialSpec, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Compute nothing: runs share nothing but checkpoints."""
    return iter(())


def start_run(trial: TrialSpec, on_wait: Callable[[], None]) -> LogisticRun:
    """Start or resume a run."""
    return LogisticRun(trial, on_wait)


def load_scored_pairs(trial: TrialSpec, split: str) -> pd.DataFrame:
    """Return a row for each score, in the order of the scores."""
    relevant = draw_points(trial.specification.task, split)[1]
    queries, candidates = np.indices(relevant.shape).reshape(2, -1)
    names = {"query_id": [f"{split}-{query}" for query in queries], "document_id": [f"d{c}" for c in candidates]}
    return pd.DataFrame({**names, "relevant": relevant.ravel()})


def compute_extra_metrics(trial: TrialSpec, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """Return no further metrics."""
    return {}


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Return rough numbers: a run takes milliseconds."""
    return Throughput(loading=0.0, frozen=None, training=10_000.0, evaluation=1_000_000.0)
