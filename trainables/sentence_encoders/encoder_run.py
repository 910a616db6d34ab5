"""One run of a sentence encoder: its data, its model, its scores."""

from collections.abc import Callable
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd

from trainables.data.sentence_dataset import SentenceDataset
from trainables.data.sentence_tokens import (
    SentenceTokens,
    get_sentence_tokens_folder,
    load_sentence_tokens,
    tokenize_sentences,
)
from trainables.data.store import get_prepared_folder
from trainables.metrics import get_measure
from trainables.models.pretrained import load_tokenizer, read_max_tokens
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.sentence_encoders.encoder_trainer import EncoderTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.sentence_encoder import as_encoder_spec
from trainables.specs.trial import TrialSpec
from trainables.training.frozen_features import EncoderInputs
from trainables.training.runner import BaseRun
from trainables.utils.base_settings import require


class EncoderData(EncoderInputs):
    """Prepared sentences of a run: token ids by number, and pairs by split."""

    def __init__(self, trial: TrialSpec) -> None:
        super().__init__(trial)
        self._specification = as_encoder_spec(trial.specification)
        fingerprint = self._specification.data
        self.prepared = SentenceDataset(
            fingerprint, get_prepared_folder(fingerprint, trial.cache), self._specification.task
        )

    @cached_property
    def tokens(self) -> SentenceTokens:
        """Token ids of every sentence."""
        if self.tokens_folder.is_dir():
            return load_sentence_tokens(self.tokens_folder)
        model, path = require(self._specification.model), require(self._trial.model_path)
        tokenizer, longest = load_tokenizer(path), read_max_tokens(path)
        return tokenize_sentences(self.prepared, tokenizer, model.name, model.max_length, longest, self._trial.cache)

    @cached_property
    def tokens_folder(self) -> Path:
        """Folder of the token ids, which may not exist yet."""
        model = require(self._specification.model)
        return get_sentence_tokens_folder(self.prepared, model.name, model.max_length, self._trial.cache)

    def load_model(self, seed: int) -> SentenceEncoder:
        """Return the model before training, on its device."""
        model = SentenceEncoder(require(self._trial.model_path), require(self._specification.model), seed)
        return model.to(require(self._specification.environment).device_type)

    @cached_property
    def _frame(self) -> pd.DataFrame:
        return self.prepared.read_pairs()

    def select_pairs(self, split: str) -> pd.DataFrame:
        """Return query_id, document_id, relevant and pair_id of the pairs of a split."""
        chosen = self._frame[self._frame["split"] == split]
        return chosen[["query_id", "document_id", "relevant", "pair_id"]].reset_index(drop=True)


class EncoderRun(BaseRun):
    """A sentence encoder's run in progress."""

    data_class = EncoderData
    data: EncoderData
    trainer: EncoderTrainer

    def _make_trainer(self) -> EncoderTrainer:
        specification = as_encoder_spec(self.trial.specification)
        training, seed = require(specification.training), require(specification.seed)
        return EncoderTrainer(self.data.load_model(seed), training, seed, self.data, self.data.tokens.n_training)

    def _train(self, segment: Segment, until: int, after_step: Callable[[], None]) -> None:
        self.trainer.train(segment, until, after_step)

    def _compute_scores(self, split: str) -> np.ndarray:
        first, second = self.data.tokens.get_pairs(split)
        return self.trainer.score_pairs(first, second, self._training.get_scoring_precision(split))

    def _compute_metric(self, metric: str, split: str, scores: np.ndarray) -> float:
        pairs = self.data.select_pairs(split)
        names, lengths = zip(*((name, len(list(own))) for name, own in groupby(pairs["query_id"])), strict=True)
        return get_measure(metric).compute_overall(scores, pairs["relevant"].to_numpy(), np.array(lengths), names)
