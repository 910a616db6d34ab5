"""Exact search: the cosine of every query with every document."""

import numpy as np
import torch
from torch import Tensor, nn

from trainables.utils.arrays import Floats, Ints

QUERIES_AT_ONCE = 128
"""Queries of a matrix product, which has a row for each and a column for each document."""


def search(queries: Tensor, documents: Tensor, depth: int, excluded: Ints) -> tuple[Floats, Ints]:
    """Return the nearest documents of each query, nearest first, and equally near ones in their order.

    Args:
        queries: (queries, hidden) embeddings.
        documents: (documents, hidden) embeddings.
        depth: Documents of each query.
        excluded: (pairs, 2) numbers of a query and of a document that it must not retrieve.

    Returns:
        Cosines, -inf for what is excluded, and numbers of documents, each of shape (queries, depth) or with all
        documents.

    Example:
        >>> cosines, found = search(torch.eye(3)[:1], torch.eye(3), 2, np.empty((0, 2), np.int64))
        >>> cosines.tolist(), found.tolist()
        ([[1.0, 0.0]], [[0, 1]])
    """
    queries, documents = nn.functional.normalize(queries, dim=1), nn.functional.normalize(documents, dim=1)
    parts = []
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        cosines = queries[start : start + QUERIES_AT_ONCE] @ documents.T
        rows, columns = (excluded[excluded[:, 0] // QUERIES_AT_ONCE == start // QUERIES_AT_ONCE] - [start, 0]).T
        cosines[rows, columns] = -torch.inf
        ordered, numbers = cosines.sort(dim=1, descending=True, stable=True)
        parts.append((ordered[:, :depth].numpy(), numbers[:, :depth].numpy()))
    first, second = zip(*parts, strict=True)
    return np.concatenate(first), np.concatenate(second)
