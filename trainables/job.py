"""What a trial is asked to do, and what comes back: plain data that travels between processes."""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from trainables.specification import RunSpecification, Settings


class Job(Settings):
    """One errand of a trial."""

    specification: RunSpecification
    action: Literal["train", "test"] = "train"
    """Train and evaluate on the development set, or evaluate the trained weights on the test set."""
    metric: str
    cache: Path
    model_path: Path | None = None
    cuts: tuple[int, ...] = ()
    """Instances after which other runs may fork: smoothed states are remembered there."""


class Outcome(NamedTuple):
    """What a finished errand found."""

    split: str
    metric: float
    scores: np.ndarray  # (pairs,) in the order of the candidates
    history: list[dict[str, float]]
    weights: str | None
    instances_trained: int
    instances_reused: int
    stages_reused: list[str]
    seconds: float
