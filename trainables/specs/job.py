"""What a trial is asked to do, and what comes back: plain data that travels between processes."""

from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import SerializeAsAny, computed_field, model_validator

from trainables.specs.base import Specification
from trainables.specs.stages import Best
from trainables.utils.settings import Settings


class Job(Settings):
    """One errand of a trial."""

    specification: SerializeAsAny[Specification]
    action: Literal["train", "test"] = "train"
    """Train and evaluate on the development set, or evaluate the trained weights on the test set."""
    metric: str
    cache: Path
    """Prepared data, and what is computed once for many runs."""
    stages: str | None = None
    """Local folder or URL of the states; none: `stages` in the cache."""
    interval: float = 60.0
    """Seconds of training that a kill may cost; 0: a batch."""
    study: str = ""
    """Names the study that asks: what it trained itself, before a kill, was not shared."""
    model_path: Path | None = None
    vectors: Path | None = None
    """File of the word vectors that the curriculum's score reads; none: the model's own input embeddings."""
    scores: bool = False
    """Whether to keep how difficult every query is for this run: it is a scorer."""
    cuts: tuple[int, ...] = ()
    """Instances after which other runs may fork: smoothed states are remembered there."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def trainable(self) -> str:
        """Module of what trains it: a process that reads the job knows by it what the specification is."""
        return type(self.specification).trainable

    @model_validator(mode="before")
    @classmethod
    def _of_its_trainable(cls, job: Any) -> Any:
        if not isinstance(job, dict) or "trainable" not in job:
            return job
        kind = import_module(job["trainable"]).TRAINABLE.specification
        rest = {name: value for name, value in job.items() if name != "trainable"}
        return {**rest, "specification": kind.model_validate(job["specification"])}


class Outcome(NamedTuple):
    """What a finished errand found."""

    split: str
    metric: float
    scores: np.ndarray  # (pairs,) in the order of the candidates
    history: list[dict[str, float]]
    weights: str | None
    checkpoint: Best | None  # the evaluation whose weights these are; None: they are the last ones
    instances_trained: int  # now
    instances_resumed: int  # by earlier tries of the same run, before a kill
    instances_reused: int  # by other runs
    stages_reused: list[str]
    damaged: list[str]  # a line for each state that was found damaged, and computed again
    seconds: float
    texts: int = 0  # that the run's model reads, of all splits; 0: not known
    texts_truncated: int = 0  # of those, how many lost something to the model's max_length
