"""One run of a sentence encoder: its data, its model, its scores."""

from collections.abc import Callable
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from trainables.data.sentence_dataset import PreparedSentences
from trainables.data.sentence_tokens import Sentences, encoded, encoded_folder, load
from trainables.data.store import place
from trainables.metrics import measure
from trainables.models import pretrained as weights
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.models.tokenizer import tokenizer
from trainables.sentence_encoders.trainer import EncoderTrainer
from trainables.specs.job import Job
from trainables.specs.sentence_encoder import encoding
from trainables.specs.stages import Segment
from trainables.training.frozen_features import ModelInputs
from trainables.training.runner import Run


class SentenceData(ModelInputs):
    """The prepared sentences as a run sees them: token ids by number, and pairs by split."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self._specification = encoding(job.specification)
        fingerprint = self._specification.data
        self.prepared = PreparedSentences(fingerprint, place(fingerprint, job.cache), self._specification.task)

    @property
    def texts(self) -> Sentences:
        """The sentences."""
        return self.sentences

    @cached_property
    def sentences(self) -> Sentences:
        """Token ids of every sentence."""
        model = self._specification.model
        assert model is not None
        assert self._job.model_path is not None
        if self.tokens_folder.is_dir():
            return load(self.tokens_folder)
        made = tokenizer(self._job.model_path)
        longest = weights.longest(self._job.model_path)
        return encoded(self.prepared, made, model.name, model.max_length, longest, self._job.cache)

    @cached_property
    def tokens_folder(self) -> Path:
        """Where the token ids lie, once they are made."""
        model = self._specification.model
        assert model is not None
        return encoded_folder(self.prepared, model.name, model.max_length, self._job.cache)

    @cached_property
    def _frame(self) -> pd.DataFrame:
        return self.prepared.pairs()

    def pairs(self, split: str) -> pd.DataFrame:
        """query_id, document_id, relevant, pair_id of the pairs of a split."""
        chosen = self._frame[self._frame["split"] == split]
        return chosen[["query_id", "document_id", "relevant", "pair_id"]].reset_index(drop=True)

    @property
    def training(self) -> int:
        """Training sentences, which have the first numbers."""
        return self.sentences.training


class EncoderRun(Run):
    """A sentence encoder's run in progress.

    Args:
        job: what runs.
        waited: called again and again while another run trains what this one needs.
    """

    data: SentenceData
    trainer: EncoderTrainer

    def __init__(self, job: Job, waited: Callable[[], None] = lambda: None) -> None:
        self.data = SentenceData(job)
        super().__init__(job, waited)

    def _fresh(self) -> EncoderTrainer:
        specification = encoding(self.job.specification)
        assert specification.training is not None
        assert specification.seed is not None
        model = encoder(self.job, specification.seed)
        return EncoderTrainer(model, specification.training, specification.seed, self.data)

    def _train(self, segment: Segment, until: int, after_step: Callable[[], None]) -> None:
        self.trainer.train(segment, until, after_step)

    def _scores(self, split: str) -> np.ndarray:
        sentences = self.data.sentences
        return self.trainer.scores(sentences.first(split), sentences.second(split))

    def _measured(self, metric: str, split: str, scores: np.ndarray) -> float:
        pairs = self.data.pairs(split)
        names, lengths = zip(*((name, len(list(own))) for name, own in groupby(pairs["query_id"])), strict=True)
        return measure(metric).overall(scores, pairs["relevant"].to_numpy(), np.array(lengths), names)


def encoder(job: Job, seed: int) -> SentenceEncoder:
    """The model as it is before training, on its device."""
    specification = encoding(job.specification)
    assert specification.model is not None
    assert specification.environment is not None
    assert job.model_path is not None
    return SentenceEncoder(job.model_path, specification.model, seed).to(specification.environment.kind)
