"""Metrics of a ranker's scores on an evaluated split."""

from typing import TYPE_CHECKING

import numpy as np

from trainables.metrics import RetrievedDocuments, collect_documents, get_measure
from trainables.utils.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd


class EvaluatedDocuments:
    """Documents of a split that metrics are computed from: its candidates, and what a first stage missed.

    Args:
        documents: Table of `RankingDataset.read_evaluated`.
        n_candidates: Number of its rows that are candidates, the first ones.
    """

    def __init__(self, documents: "pd.DataFrame", n_candidates: int) -> None:
        codes, _ = documents["query_id"].factorize()
        self._order = np.argsort(codes, kind="stable")
        self._lengths = np.bincount(codes)
        self._n_missed = len(documents) - n_candidates
        self._relevant = documents["relevant"].to_numpy()[self._order]
        self._retrieved: RetrievedDocuments | None = None
        if "grade" in documents:
            grades, ids = (documents[name].to_numpy()[self._order] for name in ("grade", "document_id"))
            self._retrieved = collect_documents(grades, ids)

    def add_missed(self, scores: Floats) -> Floats:
        """Return the scores of all documents, given those of the candidates. What was missed has -inf."""
        return np.concatenate([scores, np.full(self._n_missed, -np.inf)]) if self._n_missed else scores

    def compute_metric(self, name: str, scores: Floats) -> float:
        """Return a metric over all queries, from the scores of all documents, of shape (documents,)."""
        measure = get_measure(name)
        inputs = measure.select_inputs(scores[self._order], self._relevant, self._retrieved)
        return measure.compute_overall(*inputs, self._lengths, is_retrieved=self._retrieved is not None)
