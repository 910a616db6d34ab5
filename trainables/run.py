"""One run from its specification to its scores, cut at the points where states are worth remembering."""

import time
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from trainables.cross_encoder import Batch, CrossEncoder, tokenizer
from trainables.data.prepared import Prepared
from trainables.data.tokens import Tokens, tokens
from trainables.environment import current
from trainables.features import FeatureReader, Features, features_folder, token_batch
from trainables.job import Job, Outcome
from trainables.metrics import metric, recall_at
from trainables.specification import ModelSettings
from trainables.stages import StageCache, segments, stage_key
from trainables.training import Pairs, Trainer

_CALIBRATION_QUERIES = 10


class Data:
    """The prepared task as a run sees it: pairs by split, and their batches."""

    def __init__(self, job: Job) -> None:
        self._job = job
        task, fingerprint = job.specification.task, job.specification.data
        self.prepared = Prepared(fingerprint, job.cache / "prepared" / fingerprint, task)
        self.candidates = task.candidates

    @cached_property
    def tokens(self) -> Tokens:
        """Token ids of every pair."""
        model = self._job.specification.model
        assert model is not None
        assert self._job.model_path is not None
        return tokens(self.prepared, tokenizer(self._job.model_path), model.name, model.max_length, self._job.cache)

    @cached_property
    def features(self) -> Features:
        """Outputs of the frozen layers."""
        specification = self._job.specification
        model, training, environment = specification.model, specification.training, specification.environment
        assert model is not None
        assert training is not None
        assert environment is not None
        folder = features_folder(self._job.cache, specification.data, model, environment, training.threads)
        return Features(folder, self.tokens, self.candidates)

    def pairs(self, split: str) -> Pairs:
        """Labels of a split."""
        chosen = (self.frame["split"] == split).to_numpy()
        first = int(chosen.argmax())
        frame = self.frame[chosen]
        assert (frame["relevant"].to_numpy().reshape(-1, self.candidates) == [1] + [0] * (self.candidates - 1)).all()
        return Pairs(first, frame["relevant"].to_numpy(), frame["weak_label"].to_numpy(dtype=float), self.candidates)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The candidates of all splits."""
        return self.prepared.candidates()

    def read(self, rows: np.ndarray) -> Batch:
        """The batch of these pairs, as the model takes it."""
        return self._reader.batch(rows) if self._reader else token_batch(self.tokens, rows, self._padding)

    @cached_property
    def _reader(self) -> FeatureReader | None:
        model = self._job.specification.model
        return FeatureReader(self.features) if model and model.frozen_layers else None

    @cached_property
    def _padding(self) -> int:
        assert self._job.model_path is not None
        return int(tokenizer(self._job.model_path).pad_token_id or 0)


class Run:
    """A run in progress: `advance` until it returns an outcome.

    Raises:
        FloatingPointError: the loss is no longer finite.
    """

    def __init__(self, job: Job) -> None:
        specification = job.specification
        assert specification.model is not None
        assert specification.training is not None
        assert specification.seed is not None
        assert job.model_path is not None
        if specification.environment != current():
            raise RuntimeError(
                "this processor or these libraries are not those of the specification; its bits need them"
            )
        torch.set_num_threads(specification.training.threads)
        torch.use_deterministic_algorithms(True)
        self.job, self.data, self._started = job, Data(job), time.monotonic()
        self._training = specification.training
        self._segments = segments(specification.variant, self._training.instances, self._training.batch_size)
        model = CrossEncoder(job.model_path, specification.model, self._training.dropout, specification.seed)
        if specification.model.pooling == "cosine":
            count = min(_CALIBRATION_QUERIES * self.data.candidates, len(self._train_pairs.relevant))
            model.calibrate(self.data.read(self._train_pairs.first + np.arange(count)))
        self.trainer = Trainer(model, self._training, specification.seed, self.data.read)
        self._cache = StageCache(job.cache / "stages")
        self._stops = sorted({*self._evaluations(), *self._forks(), self._training.instances} - {0})
        found = self._cache.longest(specification, self._stops)
        self._reused = [found[0]] if found else []
        if found:
            self.trainer.restore(found[1])
        self._instances_reused = self.trainer.seen
        self._dev_scores: np.ndarray | None = None

    def _evaluations(self) -> list[int]:
        parts, total, size = self._training.evaluations, self._training.instances, self._training.batch_size
        return [round(total * (part + 1) / parts / size) * size for part in range(parts)]

    def _forks(self) -> list[int]:
        """Where another run may fork from this one: only while labels are smoothed."""
        smoothed = [part for part in self._segments if part.smoothing.epsilon > 0]
        return [cut for cut in self.job.cuts if any(part.start < cut <= part.stop for part in smoothed)]

    def advance(self) -> Outcome | None:
        """Trains up to the next stop and remembers the state there; the outcome once all is trained."""
        following = [stop for stop in self._stops if stop > self.trainer.seen]
        if not following:
            return self._outcome()
        self._train_until(following[0])
        return None

    def _train_until(self, stop: int) -> None:
        pairs, trainer, total = self._train_pairs, self.trainer, self._training.instances
        self._dev_scores = None
        for segment in self._segments:
            if segment.start <= trainer.seen < segment.stop:
                trainer.train(segment, min(stop, segment.stop), pairs)
        if stop in self._evaluations():
            dev = self.data.pairs("dev")
            self._dev_scores = trainer.scores(dev)
            value = mean_metric(self.job.metric, self._dev_scores, dev)
            trainer.history.append({"instances": stop, f"dev/{self.job.metric}": value})
        if stop == total or stop in self._forks():
            self._cache.save(stage_key(self.job.specification, stop), trainer.stage(final=stop == total))

    @cached_property
    def _train_pairs(self) -> Pairs:
        return self.data.pairs("train")

    def _outcome(self) -> Outcome:
        split = "dev" if self.job.action == "train" else "test"
        pairs = self.data.pairs(split)
        known = self._dev_scores if split == "dev" else None
        scores = self.trainer.scores(pairs) if known is None else known
        return Outcome(
            split=split,
            metric=mean_metric(self.job.metric, scores, pairs),
            scores=scores,
            history=self.trainer.history,
            weights=self.trainer.weights_hash(),
            instances_trained=self.trainer.seen - self._instances_reused,
            instances_reused=self._instances_reused,
            stages_reused=self._reused,
            seconds=round(time.monotonic() - self._started, 3),
        )


def mean_metric(name: str, scores: np.ndarray, pairs: Pairs) -> float:
    """The metric averaged over queries."""
    _, k = metric(name)
    shape = (-1, pairs.candidates)
    return float(recall_at(k, scores.reshape(shape), pairs.relevant.reshape(shape)).mean())


def sampler_outcome(job: Job) -> Outcome:
    """The candidates in the negative sampler's own order, scored by the sampler."""
    started, split = time.monotonic(), "dev" if job.action == "train" else "test"
    data = Data(job)
    scores = data.prepared.candidates(split)["score"].to_numpy(dtype=float)
    value = mean_metric(job.metric, scores, data.pairs(split))
    return Outcome(split, value, scores, [], None, 0, 0, [], round(time.monotonic() - started, 3))


def compute_features(job: Job, part: int) -> None:
    """Computes one part of the frozen layers' features; the model stays loaded for the process's next part."""
    specification = job.specification
    assert specification.model is not None
    assert specification.training is not None
    assert job.model_path is not None
    torch.set_num_threads(specification.training.threads)
    torch.use_deterministic_algorithms(True)
    model = _frozen_model(job.model_path, specification.model)
    Data(job).features.compute(part, model)


@lru_cache(maxsize=1)
def _frozen_model(path: Path, settings: ModelSettings) -> CrossEncoder:
    return CrossEncoder(path, settings, dropout=0.0, seed=0).eval()
