"""One run of a ranker: its data, its model, its scores."""

import time
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from trainables.curriculum.sampler import Curriculum
from trainables.data.ranking_dataset import Prepared
from trainables.data.ranking_tokens import Tokens, load, tokens, tokens_folder
from trainables.data.tasks import task
from trainables.difficulty.cache import of_training
from trainables.metrics import measure
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.tokenizer import tokenizer
from trainables.rankers.trainer import Pairs, RankerTrainer
from trainables.specs.job import Job, Outcome
from trainables.specs.ranker import ranking
from trainables.specs.stages import Segment
from trainables.training.frozen_features import ModelInputs
from trainables.training.runner import Run

_CALIBRATION_QUERIES = 10


class Data(ModelInputs):
    """The prepared task as a run sees it: pairs by split, and their batches."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._specification = ranking(job.specification)
        settings, fingerprint = self._specification.task, self._specification.data
        self.prepared = Prepared(fingerprint, job.cache / "prepared" / fingerprint, settings)

    @property
    def texts(self) -> Tokens:
        """The pairs."""
        return self.tokens

    @cached_property
    def tokens(self) -> Tokens:
        """Token ids of every pair."""
        model = self._specification.model
        assert model is not None
        assert self._job.model_path is not None
        if self.tokens_folder.is_dir():
            return load(self.tokens_folder)
        made = tokenizer(self._job.model_path, task(self.prepared.settings.name).added_tokens)
        return tokens(self.prepared, made, model.name, model.max_length, self._job.cache)

    @cached_property
    def tokens_folder(self) -> Path:
        """Where the tokens lie, once they are made."""
        model = self._specification.model
        assert model is not None
        return tokens_folder(self.prepared, model.name, model.max_length, self._job.cache)

    def pairs(self, split: str) -> Pairs:
        """Labels of a split."""
        chosen = (self.frame["split"] == split).to_numpy()
        first = int(chosen.argmax())
        frame, candidates = self.frame[chosen], self.prepared.settings.candidates_of(split)
        relevant = frame["relevant"].to_numpy()
        assert (np.diff(relevant.reshape(-1, candidates), prepend=1) <= 0).all()  # relevant first
        return Pairs(first, relevant, frame["weak_label"].to_numpy(dtype=float), candidates)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The candidates of all splits."""
        return self.prepared.candidates()


class RankerRun(Run):
    """A ranker's run in progress.

    Args:
        job: what runs.
        waited: called again and again while another run trains what this one needs.
    """

    data: Data
    trainer: RankerTrainer

    def __init__(self, job: Job, waited: Callable[[], None] = lambda: None) -> None:
        self.data = Data(job)
        super().__init__(job, waited)

    def trained(self) -> RankerTrainer:
        """Trains what is left; the model in its final state."""
        for _ in self._work:
            pass
        return self.trainer

    def _fresh(self) -> RankerTrainer:
        job, specification = self.job, ranking(self.job.specification)
        assert specification.model is not None
        assert specification.training is not None
        assert specification.seed is not None
        assert specification.environment is not None
        assert job.model_path is not None
        model = CrossEncoder(job.model_path, specification.model, specification.seed, vocabulary(job))
        model.to(specification.environment.kind)
        if specification.model.pooling == "cosine":
            count = min(_CALIBRATION_QUERIES * self._train_pairs.candidates, len(self._train_pairs.relevant))
            model.calibrate(self.data.read(self._train_pairs.first + np.arange(count)))
        prepared, waited = self.data.prepared, self._waited

        @cache
        def curriculum() -> Curriculum | None:  # without the run: who holds each other keeps files open and memory
            settings = job.specification.curriculum
            return Curriculum(settings, of_training(job, prepared, waited)) if settings else None

        return RankerTrainer(model, specification.training, specification.seed, self.data, curriculum)

    def _train(self, segment: Segment, until: int, after_step: Callable[[], None]) -> None:
        self.trainer.train(segment, until, self._train_pairs, after_step)

    def _scores(self, split: str) -> np.ndarray:
        return self.trainer.scores(self.data.pairs(split))

    def _measured(self, metric: str, split: str, scores: np.ndarray) -> float:
        return mean_metric(metric, scores, self.data.pairs(split))

    @cached_property
    def _train_pairs(self) -> Pairs:
        return self.data.pairs("train")


def mean_metric(name: str, scores: np.ndarray, pairs: Pairs) -> float:
    """The metric averaged over queries."""
    lengths = np.full(len(scores) // pairs.candidates, pairs.candidates)
    return measure(name).overall(scores, pairs.relevant, lengths)


def sampler_outcome(job: Job) -> Outcome:
    """The candidates in the order of BM25, whatever sampled them."""
    started, split = time.monotonic(), "dev" if job.action == "train" else "test"
    data = Data(job)
    scores = data.prepared.candidates(split)["bm25"].to_numpy(dtype=float)
    value = mean_metric(job.metric, scores, data.pairs(split))
    return Outcome(split, value, scores, [], None, None, 0, 0, 0, [], [], round(time.monotonic() - started, 3))


def vocabulary(job: Job) -> int:
    """Tokens that the model must know beside its own; 0: none."""
    added = task(job.specification.task.name).added_tokens
    assert job.model_path is not None
    return len(tokenizer(job.model_path, added)) if added else 0
