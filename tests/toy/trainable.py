"""A logistic scorer of candidates that are a few numbers each: a trainable that trains in milliseconds, and for real.

It stands for whatever is trained next, so everything of it but its search space is in this file. Data is drawn from the
task's settings wherever it is needed; a run's states are kept and shared as every trainable's are.
"""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from trainables.specs.base import BaseModelSettings, BaseSmoothing, BaseTaskSettings, BaseTrainingSettings, RunSpec
from trainables.specs.plugin import ActiveRun, PrecomputeProgress, StatisticsRow, StatisticsTable, TrainablePlugin
from trainables.utils.base_settings import PositiveInt, Proportion
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json
from trainables.utils.random import make_generator

if TYPE_CHECKING:
    import pandas as pd

    from trainables.specs.checkpoint_chain import Checkpoint
    from trainables.specs.trial import TrialResult, TrialSpec

SPLITS = ("train", "dev", "test")


class ToyTask(BaseTaskSettings):
    """Queries with one relevant candidate each: the first along a hidden direction, but for noise."""

    name: Literal["points"] = "points"
    queries: PositiveInt = 40
    """Of each split."""
    candidates: Annotated[int, Field(ge=2)] = 10
    features: PositiveInt = 4
    noise: Annotated[float, Field(ge=0)] = 0.5
    """Standard deviation of what is added before one is called relevant."""
    wrong: Proportion = 0.2
    """Share of the training queries in which a candidate at random is called relevant."""

    def scores_per_query(self, split: str) -> int:
        """One a candidate."""
        return self.candidates


class ToyTraining(BaseTrainingSettings):
    """Stochastic gradient descent. An instance is a query with its candidates."""

    instances: Annotated[int, Field(ge=0)] = 160
    batch_size: Annotated[int, Field(ge=2)] = 8
    learning_rate: Annotated[float, Field(gt=0)] = 0.5
    ridge: Annotated[float, Field(ge=0)] = 0.01
    """Weight of the squared norm in the loss."""


class ToySmoothing(BaseSmoothing):
    """Targets that are moved towards the share of relevant candidates."""

    distribution: Literal["none", "share"] = "none"
    softness: Proportion = 0.0
    """How far; a schedule moves it over training."""

    @property
    def initial_strength(self) -> float:
        """Softness."""
        return self.softness


class ToySpecification(RunSpec):
    """One run."""

    trainable: ClassVar[str] = "tests.toy.trainable"

    system: Literal["toy", "feature"] = "toy"
    """feature: candidates in the order of their first number, which nobody trains."""
    task: ToyTask
    model: BaseModelSettings | None = None
    training: ToyTraining | None = None
    variant: ToySmoothing = ToySmoothing()


TRAINABLE = TrainablePlugin(ToySpecification, training_module=__name__, data_module=__name__)


@dataclass(frozen=True)
class Points:
    """The data of a task; what `trainables.specs.plugin.PreparedData` asks for."""

    settings: ToyTask
    domains: None = None

    @property
    def fingerprint(self) -> str:
        """The settings say everything."""
        return hash_json(["toy", self.settings.model_dump(mode="json")])

    def read_metadata(self) -> dict[str, Any]:
        """Counts."""
        splits = {split: {"queries": self.settings.queries} for split in SPLITS}
        return {"fingerprint": self.fingerprint, "settings": self.settings.model_dump(), "splits": splits}

    def drawn(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """(queries, candidates, features), and (queries, candidates) 1 or 0."""
        settings, draw = self.settings, make_generator(0, f"toy/{split}", 0)
        direction = make_generator(0, "toy", 0).normal(size=settings.features)
        points = draw.normal(size=(settings.queries, settings.candidates, settings.features))
        first = (points @ direction + draw.normal(scale=settings.noise, size=points.shape[:2])).argmax(axis=1)
        if split == "train":
            wrong = draw.random(settings.queries) < settings.wrong
            first = np.where(wrong, draw.integers(settings.candidates, size=settings.queries), first)
        return points, (np.arange(settings.candidates) == first[:, None]).astype(np.int64)


def prepare_data(task: ToyTask, cache: Path, progress: Callable[[str], None]) -> Points:
    """The data; nothing of it has to be made."""
    return Points(task.model_copy(update={"path": None}))


def find_prepared_data(task: ToyTask, cache: Path) -> Points | None:
    """The same: it is always there."""
    return prepare_data(task, cache, lambda line: None)


def check_data(study: Any, prepared: Points) -> None:
    """UserError where a batch would hold a query twice."""
    if study.training.batch_size > prepared.settings.queries:
        raise UserError("training.batch_size", study.training.batch_size, f"at most {prepared.settings.queries}")


def describe_data(prepared: Points) -> dict[str, Any]:
    """For a report."""
    return {key: prepared.read_metadata()[key] for key in ("fingerprint", "splits")}


def summarize_data(study: Any, prepared: Points) -> Iterator[str]:
    """For people."""
    yield f"task {study.task.name}, {prepared.settings.queries} queries a split"


def load_statistics(prepared: Points) -> StatisticsTable:
    """Counts alone."""
    queries = prepared.settings.queries
    rows: list[StatisticsRow] = [{"name": "queries", "decimals": 0, "values": [queries] * len(SPLITS)}]
    return {"columns": list(SPLITS), "rows": rows, "legend": ""}


def compute_query_attributes(study: Any, resolved: Any, difficulty_model_id: str) -> "pd.DataFrame":
    """Nothing is known of the queries."""
    import pandas as pd

    rows = [(split, f"{split}-{query:04}") for split in SPLITS[1:] for query in range(study.task.queries)]
    return pd.DataFrame(rows, columns=["split", "query_id"])


def precompute(job: "TrialSpec", on_wait: Callable[[], None]) -> Iterator[PrecomputeProgress]:
    """Runs share nothing that has to be computed first."""
    return iter(())


def start_run(job: "TrialSpec", on_wait: Callable[[], None]) -> ActiveRun:
    """Takes up a run."""
    return _Run(job, on_wait)


def load_scored_pairs(job: "TrialSpec", split: str) -> "pd.DataFrame":
    """query_id, document_id, relevant."""
    import pandas as pd

    settings, (_, relevant) = job.specification.task, Points(job.specification.task).drawn(split)
    queries = [f"{split}-{query:04}" for query in range(settings.queries) for _ in range(settings.candidates)]
    documents = [f"d{place}" for place in range(settings.candidates)] * settings.queries
    return pd.DataFrame({"query_id": queries, "document_id": documents, "relevant": relevant.ravel()})


def compute_extra_metrics(job: "TrialSpec", scores: np.ndarray, frame: "pd.DataFrame") -> dict[str, float]:
    """Nothing beside the study's metric."""
    return {}


class _Scorer:
    """Weights of the features, and how they are trained: a trainer, as `ResumableTraining` asks for."""

    def __init__(self, specification: ToySpecification, metric: str) -> None:
        self.specification, self.metric, self.data = specification, metric, Points(specification.task)
        self.instances_seen, self.history = 0, list[dict[str, float]]()
        self.weights = make_generator(specification.seed, "toy/start", 0).normal(size=specification.task.features)

    def train(self, until: int, after_step: Callable[[], None]) -> None:
        """Trains from the instances seen to `until`."""
        from trainables.specs.checkpoint_chain import get_run_segments

        settings, (points, relevant) = self.specification.training, self.data.drawn("train")
        for part in get_run_segments(self.specification):
            while part.start <= self.instances_seen < min(until, part.stop):
                softness = part.smoothing.compute_strength(self.instances_seen, settings.instances)
                self._step(settings, softness, points, relevant)
                if self.instances_seen < until:
                    after_step()

    def _step(self, settings: ToyTraining, softness: float, points: np.ndarray, relevant: np.ndarray) -> None:
        began, before = time.perf_counter(), self.instances_seen
        draw = make_generator(self.specification.seed, "toy/batch", self.instances_seen // settings.batch_size)
        rows = draw.choice(len(points), settings.batch_size, replace=False)
        target = (1 - softness) * relevant[rows] + softness / relevant.shape[1]
        logits = points[rows] @ self.weights
        error = 1 / (1 + np.exp(-logits)) - target
        gradient = (error[..., None] * points[rows]).mean(axis=(0, 1)) + 2 * settings.ridge * self.weights
        self.weights = self.weights - settings.learning_rate * gradient
        self.instances_seen += settings.batch_size
        row = {"train/loss": float(np.mean(np.logaddexp(0, logits) - target * logits)), "train/softness": softness}
        self.history.append({"instances": self.instances_seen, **row, "train/learning_rate": settings.learning_rate})
        if (
            self.instances_seen * settings.evaluations // settings.instances
            > before * settings.evaluations // settings.instances
        ):
            speed = round(settings.batch_size / (time.perf_counter() - began), 1)
            found = {f"dev/{self.metric}": self.judged("dev"), "train/instances_per_second": speed}
            self.history.append({"instances": self.instances_seen, **found})

    def scores(self, split: str) -> np.ndarray:
        """(queries x candidates,) logits, or the first feature of all."""
        points = self.data.drawn(split)[0]
        return (points[..., 0] if self.specification.system == "feature" else points @ self.weights).ravel()

    def judged(self, split: str) -> float:
        """The metric on a split."""
        from trainables.metrics import get_measure

        relevant = self.data.drawn(split)[1]
        return get_measure(self.metric).compute_overall(self.scores(split), relevant.ravel(), np.full(*relevant.shape))

    def make_checkpoint(self, final: bool) -> "Checkpoint":
        """The state to remember."""
        import torch

        from trainables.specs.checkpoint_chain import Checkpoint

        return Checkpoint(self.instances_seen, {"weights": torch.from_numpy(self.weights.copy())}, list(self.history))

    def restore(self, checkpoint: "Checkpoint") -> None:
        """Takes up a remembered state."""
        self.instances_seen, self.history = checkpoint.instances, list(checkpoint.history)
        self.weights = checkpoint.tensors["weights"].numpy().copy()

    def load_best_weights(self) -> None:
        """It ends with its last weights."""


class _Run:
    """A run in progress; what `trainables.specs.plugin.ActiveRun` asks for."""

    def __init__(self, job: "TrialSpec", on_wait: Callable[[], None]) -> None:
        from trainables.training.resume import ResumableTraining

        self._job, self._started = job, time.monotonic()
        self._scorer = _Scorer(job.specification, job.metric)
        self._chain = ResumableTraining(job, self._scorer, on_wait) if job.specification.training else None
        self._work = self._train_and_evaluate()

    @property
    def instances_seen(self) -> int:
        return self._scorer.instances_seen

    @property
    def history(self) -> list[dict[str, float]]:
        return self._scorer.history

    def advance(self) -> "TrialResult | None":
        return next(self._work)

    def close(self) -> None:
        self._work.close()

    def _train_and_evaluate(self) -> Iterator["TrialResult | None"]:
        while self._chain and not self._chain.is_finished:
            with self._chain.lease_to_next_checkpoint() as stop:
                self._scorer.train(stop, self._chain.on_step_end)
            yield None
        yield self._make_result()

    def _make_result(self) -> "TrialResult":
        from trainables.specs.trial import TrialResult

        split, chain, scorer = "dev" if self._job.action == "train" else "test", self._chain, self._scorer
        trained, reused = (chain.instances_trained, chain.instances_reused) if chain else (0, 0)
        return TrialResult(
            split=split,
            metric=scorer.judged(split),
            scores=scorer.scores(split),
            history=scorer.history,
            weights_hash=hashlib.sha256(scorer.weights.tobytes()).hexdigest() if chain else None,
            best_evaluation=None,
            instances_trained=trained,
            instances_resumed=scorer.instances_seen - trained - reused,
            instances_reused=reused,
            checkpoints_reused=chain.reused_keys if chain else [],
            damaged=chain.damage_messages if chain else [],
            seconds=round(time.monotonic() - self._started, 3),
        )
