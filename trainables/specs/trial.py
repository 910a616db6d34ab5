"""Input and output of a trial: plain data that processes exchange."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import SerializeAsAny, computed_field, model_validator

from trainables.specs.checkpoint_chain import BestEvaluation
from trainables.specs.run_spec import RunSpec
from trainables.utils.base_settings import Settings
from trainables.utils.errors import MachineError, UserError
from trainables.utils.plugins import find_changed_plugins, load_plugins

if TYPE_CHECKING:
    import pandas as pd


class Collection(Settings):
    """Prepared data that trained models are evaluated on, in addition to the test split."""

    label: str
    data: str
    """Fingerprint of the prepared data."""
    metric: str
    task: dict[str, Any]
    """Settings of the data without paths."""


class TrialSpec(Settings):
    """Specification of a trial: train one run, or evaluate it on the test split."""

    specification: SerializeAsAny[RunSpec]
    action: Literal["train", "test"] = "train"
    """Either train and evaluate on the dev split, or evaluate the trained weights on the test split."""
    metric: str
    cache: Path
    """Folder of the prepared data and of everything that is computed once for many runs."""
    checkpoints: str | None = None
    """Local folder or URL of the checkpoints. If None, the folder `stages` in the cache."""
    checkpoint_interval: float = 60.0
    """Seconds of training that a killed process may lose; 0 saves a resume checkpoint after every batch."""
    study: str = ""
    """Name of the study; what a run of it trained before a kill counts as resumed, not as shared."""
    model_path: Path | None = None
    vectors: Path | None = None
    """File of the word vectors for the difficulty score. If None, the input embeddings of the model."""
    saves_difficulty: bool = False
    """True if this is a scoring run, which saves the difficulty score of every query."""
    plugins: tuple[str, ...] = ()
    """Plug-ins of the study, which a process that reads the trial imports."""
    collections: tuple[Collection, ...] = ()
    """Further data that the trained weights are evaluated on."""
    fork_points: tuple[int, ...] = ()
    """Instances after which other runs may fork; checkpoints of smoothed segments are saved there."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def trainable(self) -> str:
        """Module of the trainable; a process that reads the trial gets the class of the specification from it."""
        return type(self.specification).trainable

    @model_validator(mode="before")
    @classmethod
    def _parse_specification(cls, trial: Any) -> Any:
        if not isinstance(trial, dict) or "trainable" not in trial:
            return trial
        try:
            load_plugins(trial.get("plugins", ()))
        except UserError as error:
            raise MachineError(f"on this node: {error}") from error
        if changed := find_changed_plugins(trial["specification"].get("plugins", ())):
            raise MachineError(f"this node has other code of the plug-in {changed[0].split()[0]}, which the run uses")
        kind = import_module(trial["trainable"]).TRAINABLE.specification
        rest = {name: value for name, value in trial.items() if name != "trainable"}
        return {**rest, "specification": kind.model_validate(trial["specification"])}


class TrialResult(NamedTuple):
    """Result of a finished trial."""

    split: str
    metric: float
    scores: np.ndarray  # (pairs,) in the order of `pairs`, or of `TrainingBackend.load_scored_pairs`
    history: list[dict[str, float]]
    weights_hash: str | None
    best_evaluation: BestEvaluation | None  # that chose the final weights; None if they are the last ones
    instances_trained: int  # by this trial
    instances_resumed: int  # trained by earlier attempts of the same run, before a kill
    instances_reused: int  # trained by other runs
    checkpoints_reused: list[str]
    damaged: list[str]  # one line for each damaged file that was removed and recomputed
    seconds: float
    collections: dict[str, np.ndarray] = {}  # noqa: RUF012  # label -> scores of a further collection, (pairs,)
    texts: int = 0  # number of texts of all splits that the model reads; 0 if unknown
    texts_truncated: int = 0  # number of these texts that were cut to the max_length of the model
    pairs: "pd.DataFrame | None" = None  # pairs of the scores, if each run has its own: those that it retrieved
