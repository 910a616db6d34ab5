"""What a trainable brings to the system. Loads neither torch nor numpy: the modules that do are named.

A trainable is one module that provides `TRAINABLE`; its specification's class names that module.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from trainables.specs.base import BaseTaskSettings, RunSpec

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from trainables.specs.trial import TrialResult, TrialSpec


class PrecomputeProgress(NamedTuple):
    """How far what runs share is, before any of them trains."""

    done: int
    total: int


class Throughput(NamedTuple):
    """What a trial does in a second."""

    loading: float  # seconds until a run has its model
    frozen: float | None  # pairs or sentences through the frozen layers; none where no layer is frozen
    training: float  # instances
    evaluation: float  # pairs


class ActiveRun(Protocol):
    """A run in progress."""

    @property
    def instances_seen(self) -> int:
        """Instances trained so far."""

    @property
    def history(self) -> list[dict[str, float]]:
        """The curve, one row a batch or evaluation."""

    def advance(self) -> "TrialResult | None":
        """Trains up to the next evaluation or state worth remembering; the outcome once all is done."""

    def close(self) -> None:
        """Gives up what it has claimed."""


class TrainingBackend(Protocol):
    """How runs are trained and evaluated; the module may load torch."""

    def precompute(self, trial: "TrialSpec", on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
        """Does this process's share of what runs share, until nothing is missing; tells of its progress."""

    def start_run(self, trial: "TrialSpec", on_wait: Callable[[], None]) -> ActiveRun:
        """Takes up a run. `waited` is called again and again while another run trains what this one needs."""

    def load_scored_pairs(self, trial: "TrialSpec", split: str) -> "pd.DataFrame":
        """query_id, document_id, relevant of what a run's scores are of, in their order, and pair_id where these are
        sentence pairs."""

    def compute_extra_metrics(
        self, trial: "TrialSpec", scores: "np.ndarray", frame: "pd.DataFrame"
    ) -> dict[str, float]:
        """Further metrics of a run, by name, beside the job's own."""

    def measure_throughput(self, trial: "TrialSpec", seconds: float) -> Throughput:
        """How fast a training run is here, by that many seconds of training and a third of them of evaluation."""


class PreparedData(Protocol):
    """Data that lies ready under its fingerprint."""

    @property
    def fingerprint(self) -> str:
        """What identifies it."""

    @property
    def settings(self) -> BaseTaskSettings:
        """Its task, without paths."""

    @property
    def domains(self) -> str | None:
        """Digest of the domains of its queries; none: it has none."""

    def read_metadata(self) -> dict[str, Any]:
        """fingerprint, settings, and `splits`: by split at least `queries`, what an epoch passes over in training and
        what a metric is averaged over else."""


class DataBackend(Protocol):
    """Where the data comes from, and what a study and its report should know of it; the module loads no torch."""

    def prepare_data(self, task: BaseTaskSettings, cache: Path, progress: Callable[[str], None]) -> PreparedData:
        """Makes the data, or finds that this was done; UserError where the sources are not what the task says."""

    def find_prepared_data(self, task: BaseTaskSettings, cache: Path) -> PreparedData | None:
        """What is prepared already; UserError as above."""

    def check_data(self, study: Any, prepared: PreparedData) -> None:
        """UserError where this study cannot be run on it; a plan asks too, so no model is loaded."""

    def describe_data(self, prepared: PreparedData) -> dict[str, Any]:
        """What a report tells of it: fingerprint, skipped, splits, `overlaps` (`text_overlap`) where there
        are any, and whatever else."""

    def summarize_data(self, study: Any, prepared: PreparedData) -> Iterator[str]:
        """The same for people, line by line; tokens included, which are made on the way."""

    def compute_query_attributes(self, study: Any, resolved: Any, scorer: str) -> "pd.DataFrame | None":
        """split, query_id of what is evaluated, and columns by which the report may group it; None: there are none."""


class TrainablePlugin(NamedTuple):
    """A kind of run."""

    specification: type[RunSpec]
    training_module: str
    """Provides what `Runs` says."""
    data_module: str
    """Provides what `Data` says."""

    @property
    def training_backend(self) -> TrainingBackend:
        """The module, imported when it is first asked for."""
        return cast(TrainingBackend, import_module(self.training_module))

    @property
    def data_backend(self) -> DataBackend:
        """The module, imported when it is first asked for."""
        return cast(DataBackend, import_module(self.data_module))


def get_trainable(specification: RunSpec | type[RunSpec]) -> TrainablePlugin:
    """The trainable of a run."""
    found: TrainablePlugin = import_module(specification.trainable).TRAINABLE
    return found
