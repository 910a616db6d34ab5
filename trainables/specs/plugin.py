"""What a trainable brings to the system. Loads neither torch nor numpy: the modules that do are named.

A trainable is one module that provides `TRAINABLE`; its specification's class names that module.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from trainables.specs.base import CommonTask, Specification

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from trainables.specs.job import Job, Outcome


class Parts(NamedTuple):
    """How far what runs share is, before any of them trains."""

    done: int
    total: int


class Rates(NamedTuple):
    """What a trial does in a second."""

    loading: float  # seconds until a run has its model
    frozen: float | None  # pairs or sentences through the frozen layers; none where no layer is frozen
    training: float  # instances
    evaluation: float  # pairs


class Running(Protocol):
    """A run in progress."""

    @property
    def seen(self) -> int:
        """Instances trained so far."""

    @property
    def history(self) -> list[dict[str, float]]:
        """The curve, one row a batch or evaluation."""

    def advance(self) -> "Outcome | None":
        """Trains up to the next evaluation or state worth remembering; the outcome once all is done."""

    def close(self) -> None:
        """Gives up what it has claimed."""


class Runs(Protocol):
    """How runs are trained and evaluated; the module may load torch."""

    def groundwork(self, job: "Job", waited: Callable[[], None]) -> Iterator[Parts]:
        """Does this process's share of what runs share, until nothing is missing; tells of its progress."""

    def begin(self, job: "Job", waited: Callable[[], None]) -> Running:
        """Takes up a run. `waited` is called again and again while another run trains what this one needs."""

    def scored(self, job: "Job", split: str) -> "pd.DataFrame":
        """query_id, document_id, relevant of what a run's scores are of, in their order, and pair_id where these are
        sentence pairs."""

    def measured(self, job: "Job", scores: "np.ndarray", frame: "pd.DataFrame") -> dict[str, float]:
        """Further metrics of a run, by name, beside the job's own."""

    def rates(self, job: "Job", seconds: float) -> Rates:
        """How fast a training run is here, by that many seconds of training and a third of them of evaluation."""


class Prepared(Protocol):
    """Data that lies ready under its fingerprint."""

    @property
    def fingerprint(self) -> str:
        """What identifies it."""

    @property
    def settings(self) -> CommonTask:
        """Its task, without paths."""

    @property
    def domains(self) -> str | None:
        """Digest of the domains of its queries; none: it has none."""

    def meta(self) -> dict[str, Any]:
        """fingerprint, settings, and `splits`: by split at least `queries`, what an epoch passes over in training and
        what a metric is averaged over else."""


class Data(Protocol):
    """Where the data comes from, and what a study and its report should know of it; the module loads no torch."""

    def prepare(self, task: CommonTask, cache: Path, progress: Callable[[str], None]) -> Prepared:
        """Makes the data, or finds that this was done; UserError where the sources are not what the task says."""

    def find(self, task: CommonTask, cache: Path) -> Prepared | None:
        """What is prepared already; UserError as above."""

    def check(self, study: Any, prepared: Prepared) -> None:
        """UserError where this study cannot be run on it; a plan asks too, so no model is loaded."""

    def described(self, prepared: Prepared) -> dict[str, Any]:
        """What a report tells of it: fingerprint, skipped, splits, `overlaps` (`text_overlap`) where there
        are any, and whatever else."""

    def summary(self, study: Any, prepared: Prepared) -> Iterator[str]:
        """The same for people, line by line; tokens included, which are made on the way."""

    def attributes(self, study: Any, resolved: Any, scorer: str) -> "pd.DataFrame | None":
        """split, query_id of what is evaluated, and columns by which the report may group it; None: there are none."""


class Trainable(NamedTuple):
    """A kind of run."""

    specification: type[Specification]
    runs_module: str
    """Provides what `Runs` says."""
    data_module: str
    """Provides what `Data` says."""

    @property
    def runs(self) -> Runs:
        """The module, imported when it is first asked for."""
        return cast(Runs, import_module(self.runs_module))

    @property
    def data(self) -> Data:
        """The module, imported when it is first asked for."""
        return cast(Data, import_module(self.data_module))


def of(specification: Specification | type[Specification]) -> Trainable:
    """The trainable of a run."""
    found: Trainable = import_module(specification.trainable).TRAINABLE
    return found
