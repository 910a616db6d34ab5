"""Instances and word vectors that a test writes down."""

from collections.abc import Mapping, Sequence

import numpy as np

from trainables.data.query_groups import QueryGroups
from trainables.difficulty.inputs import DifficultyInputs
from trainables.difficulty.word_vectors import WordVectors
from trainables.utils.arrays import Bools, Floats


def written(contexts: list[list[str]], candidates: list[list[str]]) -> DifficultyInputs:
    """A query a context, with these texts as candidates, the first relevant; without BM25."""
    responses = list(dict.fromkeys(text for own in candidates for text in own))
    positions = np.array([responses.index(text) for own in candidates for text in own])
    names, queries = [f"q{i}" for i in range(len(contexts))], [" ".join(context) for context in contexts]
    relevant = np.array([int(place == 0) for own in candidates for place in range(len(own))])
    rows, nothing = QueryGroups.from_relevant(relevant), np.full(len(positions), np.nan)
    return DifficultyInputs(names, queries, contexts, responses, rows, positions, nothing, relevant)


def vectors_of(table: Mapping[str, Sequence[float]]) -> WordVectors:
    """The vectors of these words, as they are written."""
    nothing = [0.0] * len(next(iter(table.values())))

    def look_up(words: Sequence[str]) -> tuple[Floats, Bools]:
        values = np.array([table.get(word, nothing) for word in words], dtype=np.float64).reshape(-1, len(nothing))
        return values, np.array([word in table for word in words], dtype=bool)

    return look_up
