"""One run from its specification to its scores, cut at the points where states are worth remembering."""

import os
import time
from collections.abc import Callable, Generator
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from trainables.batches import Rows
from trainables.chain import Chain
from trainables.cross_encoder import CrossEncoder, tokenizer
from trainables.curriculum import Curriculum
from trainables.data import task
from trainables.data.prepared import Prepared
from trainables.data.tokens import Tokens, load, tokens, tokens_folder
from trainables.difficulty.kept import of_training
from trainables.environment import current
from trainables.features import FeatureReader, Features, features_folder, token_batch
from trainables.job import Job, Outcome
from trainables.metrics import measure
from trainables.packed import Batch
from trainables.stages import run_segments
from trainables.training import Pairs, Trainer

_CALIBRATION_QUERIES = 10


class Data:
    """The prepared task as a run sees it: pairs by split, and their batches."""

    def __init__(self, job: Job) -> None:
        self._job = job
        settings, fingerprint = job.specification.task, job.specification.data
        self.prepared = Prepared(fingerprint, job.cache / "prepared" / fingerprint, settings)

    @cached_property
    def tokens(self) -> Tokens:
        """Token ids of every pair."""
        model = self._job.specification.model
        assert model is not None
        assert self._job.model_path is not None
        if self.tokens_folder.is_dir():
            return load(self.tokens_folder)
        made = tokenizer(self._job.model_path, task(self.prepared.settings.name).added_tokens)
        return tokens(self.prepared, made, model.name, model.max_length, self._job.cache)

    @cached_property
    def tokens_folder(self) -> Path:
        """Where the tokens lie, once they are made."""
        model = self._job.specification.model
        assert model is not None
        return tokens_folder(self.prepared, model.name, model.max_length, self._job.cache)

    @cached_property
    def features(self) -> Features:
        """Outputs of the frozen layers."""
        specification = self._job.specification
        model, training, environment = specification.model, specification.training, specification.environment
        assert model is not None
        assert training is not None
        assert environment is not None
        folder = features_folder(self._job.cache, specification.data, model, environment, training.threads)
        return Features(folder, self.tokens)

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

    @property
    def lengths(self) -> Rows:
        """(all pairs,) tokens of each pair."""
        return self.tokens.lengths

    def read(self, rows: Rows) -> Batch:
        """These pairs, as the model takes them."""
        return self._reader.batch(rows) if self._reader else token_batch(self.tokens, rows)

    @cached_property
    def _reader(self) -> FeatureReader | None:
        model = self._job.specification.model
        return FeatureReader(self.features) if model and model.frozen_layers else None


class Run:
    """A run in progress: `advance` until it returns an outcome.

    Args:
        job: what runs.
        waited: called again and again while another run trains what this one needs.

    Raises:
        FloatingPointError: the loss or a score is not finite.
    """

    def __init__(self, job: Job, waited: Callable[[], None] = lambda: None) -> None:
        specification = job.specification
        assert specification.model is not None
        assert specification.training is not None
        assert specification.seed is not None
        assert job.model_path is not None
        assert specification.environment is not None
        if specification.environment != current(specification.environment.kind):
            raise RuntimeError(
                "this processor or these libraries are not those of the specification; its bits need them"
            )
        fix_arithmetic(specification.training.threads)
        self.job, self.data, self._started, self._waited = job, Data(job), time.monotonic(), waited
        self._training = specification.training
        model = CrossEncoder(job.model_path, specification.model, specification.seed, vocabulary(job))
        model.to(specification.environment.kind)
        if specification.model.pooling == "cosine":
            count = min(_CALIBRATION_QUERIES * self._train_pairs.candidates, len(self._train_pairs.relevant))
            model.calibrate(self.data.read(self._train_pairs.first + np.arange(count)))
        self.trainer = Trainer(model, self._training, specification.seed, self.data, lambda: self._curriculum)
        self._chain = Chain(job, self.trainer, waited)
        self._dev_scores: tuple[int, np.ndarray] | None = None  # of the evaluation whose weights would be kept
        self._speeds: dict[int, float] = {}
        self._trained, self._busy = 0, 0.0  # instances and seconds since the last evaluation
        self._work = self._stretches()

    @property
    def history(self) -> list[dict[str, float]]:
        """The curve, one row a batch or evaluation; evaluations have the instances a second of the training before
        them, where this process did it."""
        rows, metric = self.trainer.history, f"dev/{self.job.metric}"
        return [
            {**row, "train/instances_per_second": self._speeds[int(row["instances"])]}
            if metric in row and row["instances"] in self._speeds
            else row
            for row in rows
        ]

    def advance(self) -> Outcome | None:
        """Trains up to the next evaluation or state worth remembering; the outcome once all is trained."""
        return next(self._work)

    def trained(self) -> Trainer:
        """Trains what is left; the model in its final state."""
        for _ in self._work:
            pass
        return self.trainer

    def close(self) -> None:
        """Gives up the claim on the stretch that it is in; for a run that is not advanced to its outcome."""
        self._work.close()

    def _stretches(self) -> Generator[Outcome | None]:
        while not self._chain.done:
            with self._chain.stretch() as stop:
                for evaluation in (number for number in self._evaluations() if self.trainer.seen < number <= stop):
                    self._train_until(evaluation)
                    self._evaluate()
                    if evaluation < stop:
                        self._chain.stepped()
                        yield None
                self._train_until(stop)
            yield None
        yield self._outcome()

    def _evaluations(self) -> list[int]:
        parts, total, size = self._training.evaluations, self._training.instances, self._training.batch_size
        return [round(total * (part + 1) / parts / size) * size for part in range(parts)]

    def _train_until(self, stop: int) -> None:
        """No state is kept in between at `stop` itself: what follows there, an evaluation, belongs to it."""

        def after_step() -> None:
            if self.trainer.seen < stop:
                self._chain.stepped()

        for segment in run_segments(self.job.specification):
            if segment.start <= self.trainer.seen < min(stop, segment.stop):
                before, began = self.trainer.seen, time.monotonic()
                self.trainer.train(segment, min(stop, segment.stop), self._train_pairs, after_step)
                self._trained += self.trainer.seen - before
                self._busy += time.monotonic() - began

    def _evaluate(self) -> None:
        dev = self.data.pairs("dev")
        scores, decides = self._scores(dev, "dev"), self._training.checkpoint
        names = dict.fromkeys([self.job.metric, *([] if decides == "last" else [decides])])
        values = {name: mean_metric(name, scores, dev) for name in names}
        if decides == "last" or self.trainer.evaluated(values[decides]):
            self._dev_scores = self.trainer.seen, scores
        row = {f"dev/{name}": value for name, value in values.items()}
        self.trainer.history.append({"instances": self.trainer.seen, **row})
        if self._trained:
            self._speeds[self.trainer.seen] = round(self._trained / self._busy, 1)
        self._trained, self._busy = 0, 0.0

    def _scores(self, pairs: Pairs, split: str) -> np.ndarray:
        scores = self.trainer.scores(pairs)
        wrong = np.count_nonzero(~np.isfinite(scores))
        if wrong:
            seen = self.trainer.seen
            raise FloatingPointError(f"{wrong} of {len(scores)} {split} scores are not finite after {seen} instances")
        return scores

    @cached_property
    def _curriculum(self) -> Curriculum | None:
        """The order in which the training queries come; none: any."""
        settings = self.job.specification.curriculum
        return Curriculum(settings, of_training(self.job, self.data.prepared, self._waited)) if settings else None

    @cached_property
    def _train_pairs(self) -> Pairs:
        return self.data.pairs("train")

    def _outcome(self) -> Outcome:
        split = "dev" if self.job.action == "train" else "test"
        pairs = self.data.pairs(split)
        best = self.trainer.best
        kept = best.instances if best else self.trainer.seen
        known = self._dev_scores is not None and self._dev_scores[0] == kept and split == "dev"
        scores = self._dev_scores[1] if self._dev_scores and known else self._scores(pairs, split)
        return Outcome(
            split=split,
            metric=mean_metric(self.job.metric, scores, pairs),
            scores=scores,
            history=self.trainer.history,
            weights=self.trainer.weights_hash(),
            checkpoint=best,
            instances_trained=self._chain.trained,
            instances_resumed=self.trainer.seen - self._chain.trained - self._chain.instances_reused,
            instances_reused=self._chain.instances_reused,
            stages_reused=self._chain.reused,
            damaged=self._chain.damaged,
            seconds=round(time.monotonic() - self._started, 3),
        )


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


def fix_arithmetic(threads: int) -> None:
    """The same bits every time: a fixed number of threads, and no kernel that adds in whatever order."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts; its deterministic products
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
