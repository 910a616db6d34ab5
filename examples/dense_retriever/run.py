"""A run in progress. Its scores are of the documents that it retrieves itself, which differ from run to run."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from dense_retriever.search import search
from dense_retriever.texts import RetrieverData
from dense_retriever.trainer import RetrieverTrainer
from trainables.rankers.evaluation import EvaluatedDocuments
from trainables.specs.checkpoint_chain import Segment
from trainables.training.runner import BaseRun
from trainables.utils.base_settings import require


class RetrieverRun(BaseRun):
    """A run of a dense retriever."""

    data_class = RetrieverData
    data: RetrieverData
    trainer: RetrieverTrainer

    def _make_trainer(self) -> RetrieverTrainer:
        data, seed = self.data, require(self.data.spec.seed)
        return RetrieverTrainer(data.load_model(seed), data, seed, data.read_training_pairs(), data)

    def _train(self, segment: Segment, until: int, after_step: Callable[[], None]) -> None:
        self.trainer.train(segment, until, after_step)

    def _compute_scores(self, split: str) -> np.ndarray:
        data, embed, precision = self.data, self.trainer.embed_rows, self._training.get_scoring_precision(split)
        names = pd.Index(data.prepared.read_query_ids(split))
        queries = embed(data.query_ids.get_indexer(names), precision)
        documents = embed(len(data.query_ids) + np.arange(len(data.document_ids)), precision)
        own = data.prepared.find_own_documents(split)
        excluded = [names.get_indexer(own["query_id"]), data.document_ids.get_indexer(own["document_id"])]
        cosines, found = search(queries, documents, data.spec.task.depth, np.transpose(excluded))
        is_retrieved = cosines != -np.inf
        query_ids, document_ids = np.repeat(names, is_retrieved.sum(axis=1)), data.document_ids[found[is_retrieved]]
        retrieved = pd.DataFrame({"query_id": query_ids, "document_id": document_ids})
        self._pairs = data.prepared.judge_retrieved(split, retrieved)
        return cosines[is_retrieved].astype(float)

    def _add_missed(self, split: str, scores: np.ndarray) -> np.ndarray:
        return EvaluatedDocuments(require(self._pairs), len(scores)).add_missed(scores)

    def _compute_metric(self, metric: str, split: str, scores: np.ndarray) -> float:
        return EvaluatedDocuments(require(self._pairs), len(scores)).compute_metric(metric, scores)
