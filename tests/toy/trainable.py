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

from trainables.specs.base import CommonModel, CommonTask, CommonTraining, Smoothing, Specification
from trainables.specs.plugin import Parts, Running, Trainable
from trainables.utils.errors import UserError
from trainables.utils.hashing import digest
from trainables.utils.random import generator
from trainables.utils.settings import Positive, Share

if TYPE_CHECKING:
    import pandas as pd

    from trainables.specs.job import Job, Outcome
    from trainables.specs.stages import Stage

SPLITS = ("train", "dev", "test")


class ToyTask(CommonTask):
    """Queries with one relevant candidate each: the first along a hidden direction, but for noise."""

    name: Literal["points"] = "points"
    queries: Positive = 40
    """Of each split."""
    candidates: Annotated[int, Field(ge=2)] = 10
    features: Positive = 4
    noise: Annotated[float, Field(ge=0)] = 0.5
    """Standard deviation of what is added before one is called relevant."""
    wrong: Share = 0.2
    """Share of the training queries in which a candidate at random is called relevant."""

    def per_unit(self, split: str) -> int:
        """One a candidate."""
        return self.candidates


class ToyTraining(CommonTraining):
    """Stochastic gradient descent. An instance is a query with its candidates."""

    instances: Annotated[int, Field(ge=0)] = 160
    batch_size: Annotated[int, Field(ge=2)] = 8
    learning_rate: Annotated[float, Field(gt=0)] = 0.5
    ridge: Annotated[float, Field(ge=0)] = 0.01
    """Weight of the squared norm in the loss."""


class ToySmoothing(Smoothing):
    """Targets that are moved towards the share of relevant candidates."""

    distribution: Literal["none", "share"] = "none"
    softness: Share = 0.0
    """How far; a schedule moves it over training."""

    @property
    def amount(self) -> float:
        """Softness."""
        return self.softness


class ToySpecification(Specification):
    """One run."""

    trainable: ClassVar[str] = "tests.toy.trainable"

    system: Literal["toy", "feature"] = "toy"
    """feature: candidates in the order of their first number, which nobody trains."""
    task: ToyTask
    model: CommonModel | None = None
    training: ToyTraining | None = None
    variant: ToySmoothing = ToySmoothing()


TRAINABLE = Trainable(ToySpecification, runs_module=__name__, data_module=__name__)


@dataclass(frozen=True)
class Points:
    """The data of a task; what `trainables.specs.plugin.Prepared` asks for."""

    settings: ToyTask
    domains: None = None

    @property
    def fingerprint(self) -> str:
        """The settings say everything."""
        return digest(["toy", self.settings.model_dump(mode="json")])

    def meta(self) -> dict[str, Any]:
        """Counts."""
        splits = {split: {"queries": self.settings.queries} for split in SPLITS}
        return {"fingerprint": self.fingerprint, "settings": self.settings.model_dump(), "splits": splits}

    def drawn(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """(queries, candidates, features), and (queries, candidates) 1 or 0."""
        settings, draw = self.settings, generator(0, f"toy/{split}", 0)
        direction = generator(0, "toy", 0).normal(size=settings.features)
        points = draw.normal(size=(settings.queries, settings.candidates, settings.features))
        first = (points @ direction + draw.normal(scale=settings.noise, size=points.shape[:2])).argmax(axis=1)
        if split == "train":
            wrong = draw.random(settings.queries) < settings.wrong
            first = np.where(wrong, draw.integers(settings.candidates, size=settings.queries), first)
        return points, (np.arange(settings.candidates) == first[:, None]).astype(np.int64)


def prepare(task: ToyTask, cache: Path, progress: Callable[[str], None]) -> Points:
    """The data; nothing of it has to be made."""
    return Points(task.model_copy(update={"path": None}))


def find(task: ToyTask, cache: Path) -> Points | None:
    """The same: it is always there."""
    return prepare(task, cache, lambda line: None)


def check(study: Any, prepared: Points) -> None:
    """UserError where a batch would hold a query twice."""
    if study.training.batch_size > prepared.settings.queries:
        raise UserError("training.batch_size", study.training.batch_size, f"at most {prepared.settings.queries}")


def described(prepared: Points) -> dict[str, Any]:
    """For a report."""
    return {key: prepared.meta()[key] for key in ("fingerprint", "splits")}


def summary(study: Any, prepared: Points) -> Iterator[str]:
    """For people."""
    yield f"task {study.task.name}, {prepared.settings.queries} queries a split"


def attributes(study: Any, resolved: Any, scorer: str) -> "pd.DataFrame":
    """Nothing is known of the queries."""
    import pandas as pd

    rows = [(split, f"{split}-{query:04}") for split in SPLITS[1:] for query in range(study.task.queries)]
    return pd.DataFrame(rows, columns=["split", "query_id"])


def groundwork(job: "Job", waited: Callable[[], None]) -> Iterator[Parts]:
    """Runs share nothing that has to be computed first."""
    return iter(())


def begin(job: "Job", waited: Callable[[], None]) -> Running:
    """Takes up a run."""
    return _Run(job, waited)


def scored(job: "Job", split: str) -> "pd.DataFrame":
    """query_id, document_id, relevant."""
    import pandas as pd

    settings, (_, relevant) = job.specification.task, Points(job.specification.task).drawn(split)
    queries = [f"{split}-{query:04}" for query in range(settings.queries) for _ in range(settings.candidates)]
    documents = [f"d{place}" for place in range(settings.candidates)] * settings.queries
    return pd.DataFrame({"query_id": queries, "document_id": documents, "relevant": relevant.ravel()})


def measured(job: "Job", scores: np.ndarray, frame: "pd.DataFrame") -> dict[str, float]:
    """Nothing beside the study's metric."""
    return {}


class _Scorer:
    """Weights of the features, and how they are trained: what `trainables.training.resume.Chain` asks of a trainer."""

    def __init__(self, specification: ToySpecification, metric: str) -> None:
        self.specification, self.metric, self.data = specification, metric, Points(specification.task)
        self.seen, self.history = 0, list[dict[str, float]]()
        self.weights = generator(specification.seed, "toy/start", 0).normal(size=specification.task.features)

    def train(self, until: int, after_step: Callable[[], None]) -> None:
        """Trains from the instances seen to `until`."""
        from trainables.specs.stages import run_segments

        settings, (points, relevant) = self.specification.training, self.data.drawn("train")
        for part in run_segments(self.specification):
            while part.start <= self.seen < min(until, part.stop):
                softness = part.smoothing.strength(self.seen, settings.instances, settings.batch_size)
                self._step(settings, softness, points, relevant)
                if self.seen < until:
                    after_step()

    def _step(self, settings: ToyTraining, softness: float, points: np.ndarray, relevant: np.ndarray) -> None:
        began, before = time.perf_counter(), self.seen
        draw = generator(self.specification.seed, "toy/batch", self.seen // settings.batch_size)
        rows = draw.choice(len(points), settings.batch_size, replace=False)
        target = (1 - softness) * relevant[rows] + softness / relevant.shape[1]
        logits = points[rows] @ self.weights
        error = 1 / (1 + np.exp(-logits)) - target
        gradient = (error[..., None] * points[rows]).mean(axis=(0, 1)) + 2 * settings.ridge * self.weights
        self.weights = self.weights - settings.learning_rate * gradient
        self.seen += settings.batch_size
        row = {"train/loss": float(np.mean(np.logaddexp(0, logits) - target * logits)), "train/softness": softness}
        self.history.append({"instances": self.seen, **row, "train/learning_rate": settings.learning_rate})
        if self.seen * settings.evaluations // settings.instances > before * settings.evaluations // settings.instances:
            speed = round(settings.batch_size / (time.perf_counter() - began), 1)
            found = {f"dev/{self.metric}": self.judged("dev"), "train/instances_per_second": speed}
            self.history.append({"instances": self.seen, **found})

    def scores(self, split: str) -> np.ndarray:
        """(queries x candidates,) logits, or the first feature of all."""
        points = self.data.drawn(split)[0]
        return (points[..., 0] if self.specification.system == "feature" else points @ self.weights).ravel()

    def judged(self, split: str) -> float:
        """The metric on a split."""
        from trainables.metrics import measure

        relevant = self.data.drawn(split)[1]
        return measure(self.metric).overall(self.scores(split), relevant.ravel(), np.full(*relevant.shape))

    def stage(self, final: bool) -> "Stage":
        """The state to remember."""
        import torch

        from trainables.specs.stages import Stage

        return Stage(self.seen, {"weights": torch.from_numpy(self.weights.copy())}, list(self.history))

    def restore(self, stage: "Stage") -> None:
        """Takes up a remembered state."""
        self.seen, self.history = stage.instances, list(stage.history)
        self.weights = stage.tensors["weights"].numpy().copy()

    def conclude(self) -> None:
        """It ends with its last weights."""


class _Run:
    """A run in progress; what `trainables.specs.plugin.Running` asks for."""

    def __init__(self, job: "Job", waited: Callable[[], None]) -> None:
        from trainables.training.resume import Chain

        self._job, self._started = job, time.monotonic()
        self._scorer = _Scorer(job.specification, job.metric)
        self._chain = Chain(job, self._scorer, waited) if job.specification.training else None
        self._work = self._stretches()

    @property
    def seen(self) -> int:
        return self._scorer.seen

    @property
    def history(self) -> list[dict[str, float]]:
        return self._scorer.history

    def advance(self) -> "Outcome | None":
        return next(self._work)

    def close(self) -> None:
        self._work.close()

    def _stretches(self) -> Iterator["Outcome | None"]:
        while self._chain and not self._chain.done:
            with self._chain.stretch() as stop:
                self._scorer.train(stop, self._chain.stepped)
            yield None
        yield self._outcome()

    def _outcome(self) -> "Outcome":
        from trainables.specs.job import Outcome

        split, chain, scorer = "dev" if self._job.action == "train" else "test", self._chain, self._scorer
        trained, reused = (chain.trained, chain.instances_reused) if chain else (0, 0)
        return Outcome(
            split=split,
            metric=scorer.judged(split),
            scores=scorer.scores(split),
            history=scorer.history,
            weights=hashlib.sha256(scorer.weights.tobytes()).hexdigest() if chain else None,
            checkpoint=None,
            instances_trained=trained,
            instances_resumed=scorer.seen - trained - reused,
            instances_reused=reused,
            stages_reused=chain.reused if chain else [],
            damaged=chain.damaged if chain else [],
            seconds=round(time.monotonic() - self._started, 3),
        )
