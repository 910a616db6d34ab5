"""What a trial is asked to do, and what comes back: plain data that travels between processes."""

from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import SerializeAsAny, computed_field, model_validator

from trainables.specs.base import RunSpec
from trainables.specs.checkpoints import BestEvaluation
from trainables.utils.settings import Settings


class TrialSpec(Settings):
    """One errand of a trial."""

    specification: SerializeAsAny[RunSpec]
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
    def _parse_specification(cls, trial: Any) -> Any:
        if not isinstance(trial, dict) or "trainable" not in trial:
            return trial
        kind = import_module(trial["trainable"]).TRAINABLE.specification
        rest = {name: value for name, value in trial.items() if name != "trainable"}
        return {**rest, "specification": kind.model_validate(trial["specification"])}


class TrialResult(NamedTuple):
    """What a finished errand found."""

    split: str
    metric: float
    scores: np.ndarray  # (pairs,) in the order of the candidates
    history: list[dict[str, float]]
    weights_hash: str | None
    best_evaluation: BestEvaluation | None  # the evaluation whose weights these are; None: they are the last ones
    instances_trained: int  # now
    instances_resumed: int  # by earlier tries of the same run, before a kill
    instances_reused: int  # by other runs
    checkpoints_reused: list[str]
    damaged: list[str]  # a line for each state that was found damaged, and computed again
    seconds: float
    texts: int = 0  # that the run's model reads, of all splits; 0: not known
    texts_truncated: int = 0  # of those, how many lost something to the model's max_length
