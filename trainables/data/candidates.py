"""The candidates of a split: every query's relevant documents and the negative sampler's best others."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from trainables.data import Collection
from trainables.data.negatives import Bm25, sample, tokenise
from trainables.errors import UserError
from trainables.specification import TaskSettings


def sample_split(
    settings: TaskSettings, collection: Collection, split: str, query_ids: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Candidates of `query_ids`, in that order, and the counts: queries, pool, back_filled (rows).

    The pool is the documents of train, for another split with its own. A query's relevant documents (at most
    `settings.candidates` - 1, in the collection's order) come first; they and documents of the same text are never
    sampled.

    Returns:
        columns split, query_id, document_id, relevant (int8), grade (int8), score, weak_label (null if relevant);
        `settings.candidates` rows a query.

    Raises:
        UserError: the pool is too small for that many candidates.
    """
    relevant: dict[str, list[str]] = {name: [] for name in query_ids}
    pool = set()
    for pair in collection.relevant:
        if pair.split in ("train", split):
            pool.add(pair.document_id)
        if pair.split == split and pair.query_id in relevant:
            relevant[pair.query_id].append(pair.document_id)
    ids = [name for name in collection.documents if name in pool]
    position = {name: i for i, name in enumerate(ids)}
    texts: dict[str, int] = {}
    same_text = np.array([texts.setdefault(collection.documents[name], len(texts)) for name in ids])
    index = Bm25([tokenise(collection.documents[name]) for name in ids], settings.k1, settings.b)

    rows: list[tuple[str, str, str, int, int, float, float | None]] = []
    back_filled = 0
    for name in query_ids:
        scores = index.scores(tokenise(collection.queries[name]))
        own = [position[document] for document in relevant[name]]
        excluded = np.isin(same_text, same_text[own])
        own = own[: settings.candidates - 1]
        wanted = settings.candidates - len(own)
        try:
            negatives = sample(name, scores, excluded, ids, wanted)
        except ValueError as error:
            raise UserError("task.candidates", settings.candidates, f"fewer: {error} in {split}") from error
        back_filled += wanted - negatives.found
        rows += [(split, name, ids[i], 1, 1, float(scores[i]), None) for i in own]
        rows += [
            (split, name, ids[i], 0, 0, score, label)
            for i, score, label in zip(
                negatives.positions.tolist(), negatives.scores.tolist(), negatives.weak_labels.tolist(), strict=True
            )
        ]
    table = pd.DataFrame(
        rows, columns=["split", "query_id", "document_id", "relevant", "grade", "score", "weak_label"]
    ).astype({"relevant": "int8", "grade": "int8", "score": "float64", "weak_label": "float64"})
    return table, {"queries": len(query_ids), "pool": len(ids), "back_filled": back_filled}
