"""The inputs of the model: all queries, then all documents, by number."""

from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from dense_retriever.specification import RetrieverRunSpec
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_tokens import make_input_rules
from trainables.data.store import get_prepared_folder
from trainables.models.pretrained import load_tokenizer
from trainables.models.sentence_encoder import SentenceEncoder
from trainables.specs.trial import TrialSpec
from trainables.text.tokens import TokenizedTexts, load_or_tokenize, tokenize_texts
from trainables.training.frozen_features import EncoderInputs
from trainables.utils.arrays import Ints
from trainables.utils.base_settings import require
from trainables.utils.hashing import hash_json


class RetrieverData(EncoderInputs):
    """Prepared texts of a run."""

    def __init__(self, trial: TrialSpec) -> None:
        super().__init__(trial)
        spec = trial.specification
        assert isinstance(spec, RetrieverRunSpec)
        self.spec, self.path = spec, require(trial.model_path)
        self.prepared = RankingDataset(spec.data, get_prepared_folder(spec.data, trial.cache), spec.task)
        self.queries, self.documents = self.prepared.read_queries(), self.prepared.read_documents()
        self.query_ids, self.document_ids = pd.Index(self.queries["query_id"]), pd.Index(self.documents["document_id"])

    @cached_property
    def tokens_folder(self) -> Path:
        """Folder of the token ids, which may not exist yet."""
        model, words = require(self.spec.model), self.spec.task.document_words
        return self._trial.cache / "tokens" / hash_json(["dense", self.spec.data, model.name, model.max_length, words])

    @cached_property
    def tokens(self) -> TokenizedTexts:
        """Token ids of all texts; they are made if they do not exist."""
        rules, length = make_input_rules(self.spec.task), require(self.spec.model).max_length
        texts = [*map(rules.prepare_query, self.queries["text"]), *map(rules.prepare_document, self.documents["text"])]
        return load_or_tokenize(self.tokens_folder, lambda: tokenize_texts(load_tokenizer(self.path), texts, length))

    def load_model(self, seed: int) -> SentenceEncoder:
        """Return the model before training, on its device."""
        return SentenceEncoder(self.path, require(self.spec.model), seed).to(require(self.spec.environment).device_type)

    def read_training_pairs(self, n_queries: int | None = None) -> pd.DataFrame:
        """Return the candidates of the first training queries, or of all, with query_id, document_id and relevant."""
        pairs = self.prepared.read_candidates("train", ["query_id", "document_id", "relevant"])
        return pairs[pairs["query_id"].isin(pairs["query_id"].unique()[:n_queries])]

    def number_pairs(self, pairs: pd.DataFrame) -> Ints:
        """Return the numbers of the texts of pairs, (2, pairs): of the query and of the document."""
        documents = len(self.query_ids) + self.document_ids.get_indexer(pairs["document_id"])
        return np.stack([self.query_ids.get_indexer(pairs["query_id"]), documents])
