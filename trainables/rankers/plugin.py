"""Training and evaluation of rankers: implements `trainables.specs.plugin.TrainingBackend`."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from trainables.data.ranking_dataset import RankingDataset
from trainables.losses import LOSSES
from trainables.metrics import expected_calibration_error
from trainables.rankers import throughput
from trainables.rankers.difficulty import save_difficulty_scores
from trainables.rankers.precompute import precompute_inputs
from trainables.rankers.runner import RankerRun, evaluate_reference_ranking
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, Throughput
from trainables.specs.ranker import as_ranker_spec
from trainables.specs.trial import TrialResult, TrialSpec


def precompute(trial: TrialSpec, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Compute tokens, outputs of the frozen layers and difficulty scores.

    A ranking that is not trained needs none of them.
    """
    if trial.specification.system == "cross-encoder":
        yield from precompute_inputs(trial, on_wait)


def start_run(trial: TrialSpec, on_wait: Callable[[], None]) -> ActiveRun:
    """Start a run; a scoring run also saves the difficulty scores that other runs need."""
    if trial.specification.system == "sampler":
        return _ReferenceRankingRun(trial)
    run = RankerRun(trial, on_wait)
    return _DifficultyModelRun(run) if trial.scores else run


def load_scored_pairs(trial: TrialSpec, split: str) -> pd.DataFrame:
    """Return the documents that the scores of a split are of, see `RankingDataset.read_evaluated`."""
    task, fingerprint = as_ranker_spec(trial.specification).task, trial.specification.data
    return RankingDataset(fingerprint, trial.cache / "prepared" / fingerprint, task).read_evaluated(split)


def compute_extra_metrics(trial: TrialSpec, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """Return the expected calibration error of the candidates, for scores from which a probability follows."""
    specification = as_ranker_spec(trial.specification)
    model, loss = specification.model, LOSSES[specification.variant.loss]
    is_difference = model is not None and model.ranking_score == "difference" and specification.system != "sampler"
    if not (is_difference and loss.has_probabilities):
        return {}
    is_scored = scores > -np.inf
    return {"ECE": expected_calibration_error(scores[is_scored], frame["relevant"].to_numpy()[is_scored])}


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """Measure the throughput of the run on this machine."""
    return throughput.measure_throughput(trial, seconds)


class _ReferenceRankingRun:
    """A run of BM25's own ranking or that of the first stage, which is not trained."""

    instances_seen = 0

    def __init__(self, trial: TrialSpec) -> None:
        self._trial = trial
        self.history: list[dict[str, float]] = []

    def advance(self) -> TrialResult:
        """Return the result of the ranking."""
        return evaluate_reference_ranking(self._trial)

    def close(self) -> None:
        """Do nothing, since no lease is held."""


class _DifficultyModelRun:
    """A run that saves difficulty scores before its run record exists."""

    def __init__(self, run: RankerRun) -> None:
        self._run = run
        self._result: TrialResult | None = None
        self._steps: Iterator[None] | None = None

    @property
    def instances_seen(self) -> int:
        """Instances trained so far."""
        return self._run.instances_seen

    @property
    def history(self) -> list[dict[str, float]]:
        """Learning curve of the run."""
        return self._run.history

    def advance(self) -> TrialResult | None:
        """Do the next step of the run, then of scoring, and return the result after the last step."""
        self._result = self._result or self._run.advance()
        if self._result is None:
            return None
        self._steps = self._steps or save_difficulty_scores(self._run)
        return None if next(self._steps, self) is None else self._result

    def close(self) -> None:
        """Release the leases of the run."""
        self._run.close()
