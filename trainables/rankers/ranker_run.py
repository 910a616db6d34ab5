"""One run of a ranker: its data, its model, its scores."""

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from trainables.curriculum.sampler import Curriculum
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_tokens import PairTokens, get_pair_tokens_folder, load_pair_tokens, tokenize_pairs
from trainables.data.store import get_prepared_folder
from trainables.data.tasks import get_task
from trainables.data.teacher import read_teacher_scores
from trainables.difficulty.cache import load_training_difficulties
from trainables.exchange.classifier import load_saved_head
from trainables.losses import LOSSES
from trainables.models.cross_encoder import CrossEncoder
from trainables.models.pretrained import load_tokenizer
from trainables.rankers.evaluation import EvaluatedDocuments
from trainables.rankers.label_noise import compute_hidden_weak_labels, draw_noisy_labels
from trainables.rankers.ranker_trainer import Pairs, RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.ranker import as_ranker_spec
from trainables.specs.ranking_task import CollectionSettings, RankerTaskSettings
from trainables.specs.trial import Collection, TrialSpec
from trainables.training.frozen_features import EncoderInputs
from trainables.training.runner import BaseRun
from trainables.utils.arrays import Ints
from trainables.utils.base_settings import require

_STANDARDIZATION_QUERIES = 10
_MAX_RETRIEVED_TOKENS = 4_000_000
"""Tokens of a task up to which the outputs of the frozen layers are stored for retrieved candidates too."""


def open_dataset(trial: TrialSpec, collection: Collection | None = None) -> RankingDataset:
    """Return the prepared data of a trial, or those of one of its collections."""
    fingerprint, settings = trial.specification.data, trial.specification.task
    if collection is not None:
        fingerprint, settings = collection.data, CollectionSettings.model_validate(collection.task)
    assert isinstance(settings, RankerTaskSettings)
    return RankingDataset(fingerprint, get_prepared_folder(fingerprint, trial.cache), settings)


class RankerData(EncoderInputs):
    """Prepared task of a run, or a further collection: pairs by split, and their batches.

    Args:
        trial: the trial.
        collection: one of its collections. If None, the data that the run is trained on.
    """

    def __init__(self, trial: TrialSpec, collection: Collection | None = None) -> None:
        super().__init__(trial)
        self._specification = as_ranker_spec(trial.specification)
        self.prepared = open_dataset(trial, collection)
        self._evaluated: dict[str, EvaluatedDocuments] = {}

    @property
    def _fingerprint(self) -> str:
        return self.prepared.fingerprint

    @cached_property
    def tokens(self) -> PairTokens:
        """Token ids of every pair."""
        if self.tokens_folder.is_dir():
            return load_pair_tokens(self.tokens_folder)
        model = require(self._specification.model)
        tokenizer = load_tokenizer(require(self._trial.model_path), self._added_tokens)
        return tokenize_pairs(self.prepared, tokenizer, model.name, model.max_length, self._trial.cache)

    @cached_property
    def tokens_folder(self) -> Path:
        """Folder of the token ids, which may not exist yet."""
        model = require(self._specification.model)
        return get_pair_tokens_folder(self.prepared, model.name, model.max_length, self._trial.cache)

    def _count_stored(self) -> int:
        """Return the number of pairs with stored outputs of the frozen layers.

        Those of retrieved candidates are not stored if they are many, since each is read only in evaluations.
        """
        tokens, n_stored = self.tokens, super()._count_stored()
        is_small = len(tokens.flat) <= _MAX_RETRIEVED_TOKENS or not self.prepared.settings.is_retrieved("dev")
        return n_stored if is_small else min(n_stored, tokens.splits["train"][1])

    def load_model(self, seed: int) -> CrossEncoder:
        """Return the model before training, on its device."""
        specification, path = self._specification, require(self._trial.model_path)
        vocabulary = len(load_tokenizer(path, self._added_tokens)) if self._added_tokens else 0
        outputs = LOSSES[specification.variant.loss].outputs
        settings = require(specification.model)
        saved = load_saved_head(path) if settings.has_saved_head else None
        model = CrossEncoder(path, settings, seed, vocabulary, outputs, saved)
        return model.to(require(specification.environment).device_type)

    @property
    def _added_tokens(self) -> tuple[str, ...]:
        return get_task(self._specification.task.name).list_added_tokens(self._specification.task)

    def select_pairs(self, split: str) -> Pairs:
        """Return the labelled pairs of a split; those of training with label noise, if the task has it."""
        chosen = (self.frame["split"] == split).to_numpy()
        first = int(chosen.argmax())
        frame = self.frame[chosen]
        relevant = frame["relevant"].to_numpy()
        weak_labels = frame["weak_label"].to_numpy(dtype=float)
        scores = frame[self._specification.task.sampler.score_column].to_numpy(dtype=float)
        pairs = Pairs(first, relevant, relevant, weak_labels, scores)
        if split == "train" and (digest := self._specification.variant.teacher):
            pairs = pairs._replace(teacher=read_teacher_scores(self.prepared.folder, digest))
        return self._add_label_noise(pairs, frame) if split == "train" else pairs

    def _add_label_noise(self, pairs: Pairs, frame: pd.DataFrame) -> Pairs:
        task, seed = self._specification.task, self._specification.seed
        if task.label_noise == 0 or seed is None:
            return pairs
        labels = draw_noisy_labels(pairs.relevant, task.label_noise, task.label_noise_kind, seed)
        hidden = (pairs.relevant == 1) & (labels == 0)
        weak_labels = compute_hidden_weak_labels(frame, task.sampler)
        return pairs._replace(labels=labels, weak_labels=np.where(hidden, weak_labels, pairs.weak_labels))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Candidates of all splits."""
        return self.prepared.read_candidates()

    def get_evaluated(self, split: str) -> EvaluatedDocuments:
        """Return the documents of a split that metrics are computed from."""
        if split not in self._evaluated:
            n_candidates = int((self.frame["split"] == split).sum())
            self._evaluated[split] = EvaluatedDocuments(self.prepared.read_evaluated(split), n_candidates)
        return self._evaluated[split]


class RankerRun(BaseRun):
    """A ranker's run in progress."""

    data_class = RankerData
    data: RankerData
    trainer: RankerTrainer

    def _make_trainer(self) -> RankerTrainer:
        trial, specification = self.trial, as_ranker_spec(self.trial.specification)
        seed = specification.seed or 0  # a saved ranker before training has none
        model = self.data.load_model(seed)
        if require(specification.model).pooling == "cosine":
            model.standardize_cosine(self.data.read(list_standardization_rows(self._train_pairs)))
        prepared, on_wait = self.data.prepared, self._on_wait

        @cache
        def load_curriculum() -> Curriculum | None:
            # It does not refer to the run: a cycle of references would keep files open and memory in use.
            settings = trial.specification.curriculum
            return Curriculum(settings, load_training_difficulties(trial, prepared, on_wait)) if settings else None

        return RankerTrainer(model, require(specification.training), seed, self.data, load_curriculum)

    def _train(self, segment: Segment, until: int, after_step: Callable[[], None]) -> None:
        self.trainer.train(segment, until, self._train_pairs, after_step)

    def _compute_scores(self, split: str) -> np.ndarray:
        precision = self._training.get_scoring_precision(split)
        return self.trainer.score_pairs(self.data.select_pairs(split), precision)

    def _score_collections(self) -> dict[str, np.ndarray]:
        precision, found = self._training.get_scoring_precision("test"), dict[str, np.ndarray]()
        for collection in self.trial.collections:
            data = RankerData(self.trial, collection)
            scores = self.trainer.score_pairs(data.select_pairs("test"), precision, data)
            self._check_finite(collection.label, scores)
            found[collection.label] = data.get_evaluated("test").add_missed(scores)
        return found

    def _add_missed(self, split: str, scores: np.ndarray) -> np.ndarray:
        return self.data.get_evaluated(split).add_missed(scores)

    def _compute_metric(self, metric: str, split: str, scores: np.ndarray) -> float:
        return self.data.get_evaluated(split).compute_metric(metric, scores)

    @cached_property
    def _train_pairs(self) -> Pairs:
        return self.data.select_pairs("train")


def list_standardization_rows(pairs: Pairs) -> Ints:
    """Return the numbers of the training pairs with the cosines that standardise a cosine pooling."""
    return pairs.first_row + np.arange(len(pairs.select_queries(0, _STANDARDIZATION_QUERIES).relevant))
