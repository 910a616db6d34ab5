"""How runs of rankers are trained and evaluated: what `trainables.specs.plugin.Runs` asks for."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from trainables.data.ranking_dataset import RankingDataset
from trainables.metrics import expected_calibration_error
from trainables.rankers import precompute as shared
from trainables.rankers import throughput as ranker_calibration
from trainables.rankers.difficulty import save_difficulty_scores
from trainables.rankers.runner import RankerRun, evaluate_bm25_ranking
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, Throughput
from trainables.specs.ranker import as_ranker_spec
from trainables.specs.trial import TrialResult, TrialSpec


def precompute(trial: TrialSpec, on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Tokens, what the frozen layers make of them, difficulties; an order that needs no model needs none of it."""
    if trial.specification.system == "cross-encoder":
        yield from shared.precompute_inputs(trial, on_wait)


def start_run(trial: TrialSpec, on_wait: Callable[[], None]) -> ActiveRun:
    """The run; a scorer also keeps what others will ask of it."""
    if trial.specification.system == "sampler":
        return _ReferenceRankingRun(trial)
    run = RankerRun(trial, on_wait)
    return _DifficultyModelRun(run) if trial.scores else run


def load_scored_pairs(trial: TrialSpec, split: str) -> pd.DataFrame:
    """query_id, document_id, relevant of the candidates."""
    task, fingerprint = as_ranker_spec(trial.specification).task, trial.specification.data
    frame = RankingDataset(fingerprint, trial.cache / "prepared" / fingerprint, task).read_candidates(split)
    return frame[["query_id", "document_id", "relevant"]]


def compute_extra_metrics(trial: TrialSpec, scores: np.ndarray, frame: pd.DataFrame) -> dict[str, float]:
    """The expected calibration error, of scores that are logits."""
    if trial.specification.system == "sampler":
        return {}
    return {"ECE": expected_calibration_error(scores, frame["relevant"])}


def measure_throughput(trial: TrialSpec, seconds: float) -> Throughput:
    """How fast the run is here."""
    return ranker_calibration.measure_throughput(trial, seconds)


class _ReferenceRankingRun:
    """The negative sampler's own order, which nobody trains."""

    instances_seen = 0

    def __init__(self, trial: TrialSpec) -> None:
        self._trial = trial
        self.history: list[dict[str, float]] = []

    def advance(self) -> TrialResult:
        """The candidates in that order."""
        return evaluate_bm25_ranking(self._trial)

    def close(self) -> None:
        """Nothing is claimed."""


class _DifficultyModelRun:
    """A run that keeps how difficult queries are for it before its record says that it is there."""

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
        """The run's curve."""
        return self._run.history

    def advance(self) -> TrialResult | None:
        """The run's steps, then those of scoring."""
        self._result = self._result or self._run.advance()
        if self._result is None:
            return None
        self._steps = self._steps or save_difficulty_scores(self._run)
        return None if next(self._steps, self) is None else self._result

    def close(self) -> None:
        """Gives up what the run has claimed."""
        self._run.close()
