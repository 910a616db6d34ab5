"""How runs of rankers are trained and evaluated: what `trainables.specs.plugin.Runs` asks for."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from trainables.data.ranking_dataset import Prepared
from trainables.metrics import expected_calibration_error
from trainables.rankers import precompute as shared
from trainables.rankers import throughput as ranker_calibration
from trainables.rankers.difficulty import save_model_scores
from trainables.rankers.runner import RankerRun, sampler_outcome
from trainables.specs.job import Job, Outcome
from trainables.specs.plugin import Parts, Rates, Running
from trainables.specs.ranker import ranking


def groundwork(job: Job, waited: Callable[[], None]) -> Iterator[Parts]:
    """Tokens, what the frozen layers make of them, difficulties; an order that needs no model needs none of it."""
    if job.specification.system == "cross-encoder":
        yield from shared.groundwork(job, waited)


def begin(job: Job, waited: Callable[[], None]) -> Running:
    """The run; a scorer also keeps what others will ask of it."""
    if job.specification.system == "sampler":
        return _Order(job)
    run = RankerRun(job, waited)
    return _Scorer(run) if job.scores else run


def scored(job: Job, split: str) -> pd.DataFrame:
    """query_id, document_id, relevant of the candidates."""
    task, fingerprint = ranking(job.specification).task, job.specification.data
    frame = Prepared(fingerprint, job.cache / "prepared" / fingerprint, task).candidates(split)
    return frame[["query_id", "document_id", "relevant"]]


def measured(job: Job, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """The expected calibration error, of scores that are logits."""
    if job.specification.system == "sampler":
        return {}
    return {"ECE": expected_calibration_error(scores, frame["relevant"])}


def rates(job: Job, seconds: float) -> Rates:
    """How fast the run is here."""
    return ranker_calibration.rates(job, seconds)


class _Order:
    """The negative sampler's own order, which nobody trains."""

    seen = 0

    def __init__(self, job: Job) -> None:
        self._job = job
        self.history: list[dict[str, float]] = []

    def advance(self) -> Outcome:
        """The candidates in that order."""
        return sampler_outcome(self._job)

    def close(self) -> None:
        """Nothing is claimed."""


class _Scorer:
    """A run that keeps how difficult queries are for it before its record says that it is there."""

    def __init__(self, run: RankerRun) -> None:
        self._run = run
        self._outcome: Outcome | None = None
        self._steps: Iterator[None] | None = None

    @property
    def seen(self) -> int:
        """Instances trained so far."""
        return self._run.seen

    @property
    def history(self) -> list[dict[str, float]]:
        """The run's curve."""
        return self._run.history

    def advance(self) -> Outcome | None:
        """The run's steps, then those of scoring."""
        self._outcome = self._outcome or self._run.advance()
        if self._outcome is None:
            return None
        self._steps = self._steps or save_model_scores(self._run)
        return None if next(self._steps, self) is None else self._outcome

    def close(self) -> None:
        """Gives up what the run has claimed."""
        self._run.close()
