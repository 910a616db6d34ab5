"""Interface of a trainable: the backends for training and data that it provides.

A trainable is a module that defines `TRAINABLE`; the class of its specification names that module. This module loads
neither torch nor numpy, because a plugin names the modules of its backends instead of importing them.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, cast

from trainables.specs.run_spec import BaseTaskSettings, RunSpec

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from torch import Tensor

    from trainables.specs.trial import TrialResult, TrialSpec


class PrecomputeProgress(NamedTuple):
    """Progress of the precomputation that runs share: parts done, of all parts."""

    done: int
    total: int


class Throughput(NamedTuple):
    """Speed of a trial: units per second, except `loading`."""

    loading: float  # seconds until a run has its model
    frozen: float | None  # pairs or sentences through the frozen layers; None if no layer is frozen
    training: float  # instances
    evaluation: float  # pairs


class ActiveRun(Protocol):
    """A run in progress."""

    @property
    def instances_seen(self) -> int:
        """Instances trained so far."""

    @property
    def history(self) -> list[dict[str, float]]:
        """Learning curve: one row per batch or evaluation."""

    def advance(self) -> "TrialResult | None":
        """Train up to the next evaluation or checkpoint, and return the result once the run is complete."""

    def close(self) -> None:
        """Release the leases of the run."""


class TrainingBackend(Protocol):
    """Trains and evaluates runs; the module may load torch."""

    def precompute(self, trial: "TrialSpec", on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
        """Compute missing parts of what runs share, together with other processes, until none is missing.

        `on_wait` is called repeatedly while another process computes a part.

        Yields:
            The progress after each part.
        """

    def start_run(self, trial: "TrialSpec", on_wait: Callable[[], None]) -> ActiveRun:
        """Start or resume a run; `on_wait` is called repeatedly while another run trains what this run needs."""

    def load_scored_pairs(self, trial: "TrialSpec", split: str) -> "pd.DataFrame":
        """Return the pairs that the scores of a run belong to, in the order of the scores.

        It is not called for a run with pairs of its own, `TrialResult.pairs`, which have the same columns.

        Returns:
            One row per score with the columns query_id, document_id and relevant; also pair_id for sentence pairs, and
            grade, -1 without a qrel, for candidates that a first stage retrieved. A relevant document that it missed
            has a row, with the score -inf.
        """

    def compute_extra_metrics(
        self, trial: "TrialSpec", scores: "np.ndarray", frame: "pd.DataFrame"
    ) -> dict[str, float]:
        """Return further metrics of a run, name -> value, in addition to the metric of the trial."""

    def measure_throughput(self, trial: "TrialSpec", seconds: float) -> Throughput:
        """Measure the speed on this machine by training for some seconds and evaluating for a third of them."""


class PreparedData(Protocol):
    """Prepared data on disk, found by its fingerprint."""

    @property
    def fingerprint(self) -> str:
        """Hash of the settings and texts that the data was prepared from."""

    @property
    def settings(self) -> BaseTaskSettings:
        """Settings of the task, without paths."""

    @property
    def domains(self) -> str | None:
        """Hash of the domains of the queries; None if they have no domains."""

    def read_metadata(self) -> dict[str, Any]:
        """Return the keys `fingerprint`, `settings` and `splits`.

        `splits` has at least `queries` for each split: the number of queries or sentences in an epoch for the training
        split, and the number that a metric is averaged over for the others.
        """


class DataBackend(Protocol):
    """Prepares data and describes it for the study and the report; the module loads no torch."""

    def prepare_data(self, task: BaseTaskSettings, cache: Path, progress: Callable[[str], None]) -> PreparedData:
        """Return the prepared data, after preparing it if necessary; `progress` receives lines of text.

        Raises:
            UserError: the sources do not match the settings of the task.
        """

    def find_prepared_data(self, task: BaseTaskSettings, cache: Path) -> PreparedData | None:
        """Return the data if it is already prepared, otherwise None.

        Raises:
            UserError: the sources do not match the settings of the task.
        """

    def check_data(self, study: Any, prepared: PreparedData) -> None:
        """Check that a study can use the data.

        A dry run calls this too, so it must not load a model.

        Raises:
            UserError: the study cannot be run on the data.
        """

    def describe_data(self, prepared: PreparedData) -> dict[str, Any]:
        """Return the description of the data for the report.

        It has the keys `fingerprint`, `skipped` and `splits`, `overlaps` (see `text_overlap`) if there are any, and
        others that depend on the trainable.
        """

    def summarize_data(self, study: Any, prepared: PreparedData) -> Iterator[str]:
        """Yield the lines of a summary for the user; this tokenizes the texts if necessary."""

    def compute_query_attributes(self, study: Any, resolved: Any, scorer: str) -> "pd.DataFrame | None":
        """Return split, query_id and one column per attribute by which the report may group the evaluated queries.

        None if there are no attributes.
        """


ExportForm = Literal["classification", "modules", "adapter"]
"""Form of an exported ranker: a model for sequence classification, modules of sentence-transformers, or what LoRA
trained, as an adapter of peft."""


class ExportedModel(NamedTuple):
    """An exported model as its card describes it, beyond the study's results."""

    task: str
    """Task by its name on the Hugging Face hub, such as "text-ranking"."""
    tags: tuple[str, ...]
    """Tags for the hub."""
    library_class: str
    """Class that loads the folder: CrossEncoder or SentenceTransformer (sentence-transformers), or PeftModel (peft)."""
    transformers_class: str
    """Class of transformers that loads the folder: for the whole model, or for its encoder alone."""
    is_whole: bool
    """True if the class of transformers loads the whole model."""
    needs_code: bool
    """True if the folder contains code, which the libraries run only with `trust_remote_code`."""
    has_probabilities: bool
    """True if the sigmoid of a score is the probability of relevance."""
    notes: tuple[str, ...]
    """What a user must do to a text before the model reads it, and where the libraries differ from the study."""
    sources: tuple[str, ...]
    """Papers and collections that the data and the method of the run come from."""
    example: tuple[tuple[str, str], ...]
    """Some pairs of texts of the test split, as the model reads them."""


class ExportBackend(Protocol):
    """Writes trained models as folders that other programs load; the module may load torch."""

    def export_model(
        self, trial: "TrialSpec", weights: "Mapping[str, Tensor]", folder: Path, form: ExportForm | None = None
    ) -> ExportedModel:
        """Write the model of a run, with its final weights by name as a checkpoint has them, to an existing folder.

        Without a form, that which most programs load.

        Raises:
            UserError: no other program can compute what the model computes, or it cannot be written in this form.
        """

    def score_with_export(
        self, trial: "TrialSpec", folder: Path, split: str, limit: int
    ) -> "tuple[np.ndarray, np.ndarray]":
        """Score up to `limit` pairs of the prepared data with an exported model, loaded as a user loads it.

        Pairs that the export cuts in another way than the study are left out.

        Returns:
            Positions of the pairs in the order of `TrainingBackend.load_scored_pairs`, and their scores, both (pairs,).
        """


class TrainablePlugin(NamedTuple):
    """A trainable: the class of its specifications and the modules of its backends."""

    specification: type[RunSpec]
    training_module: str
    """Module that implements `TrainingBackend`."""
    data_module: str
    """Module that implements `DataBackend`."""
    export_module: str | None = None
    """Module that implements `ExportBackend`. None if models of this trainable cannot be exported."""

    @property
    def training_backend(self) -> TrainingBackend:
        """Training backend, imported on first use."""
        return cast(TrainingBackend, import_module(self.training_module))

    @property
    def data_backend(self) -> DataBackend:
        """Data backend, imported on first use."""
        return cast(DataBackend, import_module(self.data_module))

    @property
    def export_backend(self) -> ExportBackend:
        """Export backend, imported on first use; there must be one."""
        assert self.export_module is not None
        return cast(ExportBackend, import_module(self.export_module))

    def load_statistics(self, prepared: PreparedData) -> dict[str, Any] | None:
        """Return counts and mean lengths of the data for a person, on which no run and no plan depends.

        They come from the function `load_statistics` of the data backend, which is optional.

        Returns:
            JSON object with `columns`, the names of splits or evaluation sets; `rows`, each with `name`, the `decimals`
            that are shown and `values`, one per column, None where it has no such value; and `legend`, what is counted.
        """
        load = getattr(self.data_backend, "load_statistics", None)
        return load(prepared) if load else None


def get_trainable(specification: RunSpec | type[RunSpec]) -> TrainablePlugin:
    """Return the trainable of a specification, or of a class of specifications."""
    plugin: TrainablePlugin = import_module(specification.trainable).TRAINABLE
    return plugin
