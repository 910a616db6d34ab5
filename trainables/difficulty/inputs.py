"""The instances of a split: contexts as utterances, responses, and which responses are a context's candidates."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import get_task
from trainables.utils.arrays import Floats, Ints


class DifficultyInputs(NamedTuple):
    """What scores of texts read."""

    query_ids: list[str]
    """(queries,)"""
    queries: list[str]
    """(queries,) their texts."""
    contexts: list[list[str]]
    """(queries,) utterances of each."""
    responses: list[str]
    """(responses,) each once."""
    candidates: Ints
    """(queries, candidates) positions in `responses`."""
    bm25: Floats
    """(queries, candidates) NaN where the task has none."""


def build_difficulty_inputs(prepared: RankingDataset, split: str) -> DifficultyInputs:
    """Those of a split, in the order of its candidates."""
    table, size = prepared.read_candidates(split), prepared.settings.get_candidates_per_query(split)
    names = table["query_id"].to_list()[::size]
    queries = prepared.read_queries().set_index("query_id")["text"].loc[names].to_list()
    positions, documents = pd.factorize(table["document_id"])
    responses = prepared.read_documents().set_index("document_id")["text"].loc[documents].to_list()
    utterances = get_task(prepared.settings.name).split_utterances
    return DifficultyInputs(
        names,
        queries,
        [utterances(text) for text in queries],
        responses,
        positions.astype(np.int64).reshape(-1, size),
        table["bm25"].to_numpy(np.float64).reshape(-1, size),
    )
