"""Inputs of the difficulty scores: the contexts of a split, as utterances, and their candidates."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import get_task
from trainables.utils.arrays import Floats, Ints


class DifficultyInputs(NamedTuple):
    """Inputs of the difficulty scores that are computed from texts, for the queries of one split."""

    query_ids: list[str]
    """(queries,) Ids of the queries."""
    queries: list[str]
    """(queries,) Texts of the queries."""
    contexts: list[list[str]]
    """(queries,) Utterances of each query."""
    responses: list[str]
    """(responses,) Distinct documents that are candidates."""
    candidates: Ints
    """(queries, candidates) Positions of the candidates in `responses`."""
    bm25: Floats
    """(queries, candidates) BM25 scores, NaN if the task has none."""


def build_difficulty_inputs(prepared: RankingDataset, split: str) -> DifficultyInputs:
    """Return the inputs of a split, in the order of its candidates."""
    table, size = prepared.read_candidates(split), prepared.settings.get_candidates_per_query(split)
    names = table["query_id"].to_list()[::size]
    queries = prepared.read_queries().set_index("query_id")["text"].loc[names].to_list()
    positions, documents = pd.factorize(table["document_id"])
    responses = prepared.read_documents().set_index("document_id")["text"].loc[documents].to_list()
    task = get_task(prepared.settings.name)
    return DifficultyInputs(
        names,
        queries,
        [task.split_utterances(text) for text in queries],
        responses,
        positions.astype(np.int64).reshape(-1, size),
        table["bm25"].to_numpy(np.float64).reshape(-1, size),
    )
