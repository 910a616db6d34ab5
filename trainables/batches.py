"""Which instances make batch t: a pure function of (seed, t), whatever was trained before."""

import numpy as np
import numpy.typing as npt

from trainables.randomness import generator

Rows = npt.NDArray[np.int64]


def batch(seed: int, step: int, queries: int, candidates: int, batch_size: int, negatives: int) -> Rows:
    """Candidate rows of training batch `step`.

    Queries pass in an order that is shuffled anew every epoch; a batch holds, for each of its batch_size /
    (1 + negatives) queries, the relevant document and `negatives` of its sampled documents, drawn without replacement.
    An epoch's last queries share their batch with the next epoch's first.

    Args:
        seed: the run's seed.
        step: 0-based batch number.
        queries: number of training queries; query i's candidates are rows i * candidates onward, relevant first.
        candidates: candidates a query.
        batch_size: instances a batch, a multiple of 1 + negatives.
        negatives: negatives a query, below `candidates`.

    Returns:
        (batch_size,) row numbers.
    """
    groups = batch_size // (1 + negatives)
    positions = np.arange(step * groups, (step + 1) * groups)
    chosen = np.empty(groups, dtype=np.int64)
    for epoch in np.unique(positions // queries):
        inside = positions // queries == epoch
        chosen[inside] = generator(seed, "order", int(epoch)).permutation(queries)[positions[inside] % queries]
    draw = generator(seed, "negatives", step).random((groups, candidates - 1))
    sampled = 1 + np.argsort(draw, axis=1, kind="stable")[:, :negatives]
    ranks = np.concatenate([np.zeros((groups, 1), dtype=np.int64), sampled], axis=1)
    rows: Rows = (chosen[:, None] * candidates + ranks).reshape(-1)
    return rows
