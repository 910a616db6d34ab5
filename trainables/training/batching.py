"""Selection of the instances of each batch, and the split of a batch into micro-batches.

The instances of batch t are a pure function of (seed, t).
"""

import numpy as np

from trainables.curriculum.sampler import Curriculum, CurriculumSampler, sample_uniform
from trainables.data.query_groups import QueryGroups
from trainables.specs.ranker import RankerTrainingSettings
from trainables.utils.arrays import Ints
from trainables.utils.random import make_generator


def sample_instances(
    seed: int,
    step: int,
    queries: Ints,
    rows: QueryGroups,
    negatives: int,
    purpose: str = "",
) -> Ints:
    """Return, for each chosen query, one relevant document and `negatives` others.

    Args:
        seed: seed of the run.
        step: 0-based batch number.
        queries: chosen queries, shape (groups,).
        rows: rows of every query.
        negatives: negatives per query.
        purpose: prefix of the names of the draws.

    Returns:
        Row numbers of shape (groups * (1 + negatives),); the relevant row of each query comes first.

    Raises:
        ValueError: if a query has fewer negatives.

    Example:
        >>> import numpy as np
        >>> groups = QueryGroups.from_relevant(np.array([1, 0, 0, 1, 0, 0]))
        >>> rows = sample_instances(0, 0, np.array([0, 1]), groups, negatives=2)
        >>> rows[[0, 3]].tolist(), sorted(rows.tolist())
        ([0, 3], [0, 1, 2, 3, 4, 5])
    """
    chosen = _sample_negatives(seed, step, queries, rows, negatives, purpose)
    relevant = make_generator(seed, f"{purpose}relevant", step).integers(rows.n_relevant[queries])
    return np.concatenate([(rows.starts[queries] + relevant)[:, None], chosen], axis=1).reshape(-1)


def _sample_negatives(
    seed: int,
    step: int,
    queries: Ints,
    rows: QueryGroups,
    negatives: int,
    purpose: str,
) -> Ints:
    """Return the rows of negatives that are drawn without replacement, shape (groups, negatives)."""
    available = rows.n_others
    if negatives > available.min():
        raise ValueError(f"{negatives} negatives a query, but a query has only {available.min()}")
    draw = make_generator(seed, f"{purpose}negatives", step).random((len(queries), int(available.max())))
    draw[np.arange(draw.shape[1]) >= available[queries, None]] = 1.0  # above every draw: no row of this query
    places = np.argsort(draw, axis=1, kind="stable")[:, :negatives]
    return (rows.starts[:-1] + rows.n_relevant)[queries, None] + places


def sample_by_epoch(seed: int, step: int, queries: int, groups: int) -> Ints:
    """Return the queries of batch `step`, taken in an order that is shuffled again for every epoch.

    The last queries of an epoch share their batch with the first queries of the next epoch.

    Args:
        seed: seed of the run.
        step: 0-based batch number.
        queries: number of training queries.
        groups: queries per batch; their numbers are returned, shape (groups,).

    Example:
        >>> import numpy as np
        >>> epoch = np.concatenate([sample_by_epoch(0, step, queries=6, groups=2) for step in range(3)])
        >>> sorted(epoch.tolist())
        [0, 1, 2, 3, 4, 5]
    """
    positions = np.arange(step * groups, (step + 1) * groups)
    chosen = np.empty(groups, dtype=np.int64)
    for epoch in np.unique(positions // queries):
        in_epoch = positions // queries == epoch
        chosen[in_epoch] = make_generator(seed, "order", int(epoch)).permutation(queries)[positions[in_epoch] % queries]
    return chosen


def sample_epoch_pairs(
    seed: int,
    epoch: int,
    rows: QueryGroups,
    negatives: int,
) -> Ints:
    """Return the pairs of an epoch in the order of training, which is shuffled over all queries.

    Each query has all its relevant documents and `negatives` others; the arguments are those of `sample_instances`.

    Returns:
        Row numbers of shape (relevant documents + queries * negatives,).

    Example:
        >>> import numpy as np
        >>> groups = QueryGroups.from_relevant(np.array([1, 0, 0, 1, 1, 0, 0]))
        >>> sorted(sample_epoch_pairs(0, 0, groups, negatives=2).tolist())
        [0, 1, 2, 3, 4, 5, 6]
    """
    chosen = _sample_negatives(seed, epoch, np.arange(len(rows)), rows, negatives, "pair ")
    relevant = np.flatnonzero(rows.places < rows.n_relevant[rows.queries])
    pairs = np.concatenate([relevant, chosen.reshape(-1)])
    pairs = pairs[np.argsort(rows.queries[pairs], kind="stable")]  # query by query, the relevant ones first
    shuffled: Ints = pairs[make_generator(seed, "pair order", epoch).permutation(len(pairs))]
    return shuffled


class BatchSampler:
    """Selects the instances of each batch of a run.

    A batch consists of queries, each with one relevant document and its negatives, or of single pairs (`unit`) of all
    relevant documents and the negatives. With `sampling` = "epochs" the queries come from `sample_by_epoch` and the
    pairs from `sample_epoch_pairs`. Otherwise they are drawn for every batch, from all training queries or from
    those that the curriculum has reached.

    Args:
        seed: seed of the run.
        settings: instances, batch_size, negatives, unit, sampling.
        rows: rows of each query.
        curriculum: decides which queries a batch may contain. If None, a batch may contain all of them.
    """

    def __init__(
        self,
        seed: int,
        settings: RankerTrainingSettings,
        rows: QueryGroups,
        curriculum: Curriculum | None = None,
    ) -> None:
        self._seed, self._settings, self._rows = seed, settings, rows
        self._n_pairs = rows.n_relevant + settings.negatives  # of each query, in an epoch
        self._pair_starts = _find_starts(self._n_pairs)
        self._paced_queries = (
            CurriculumSampler(curriculum, seed, settings.instances // settings.batch_size) if curriculum else None
        )
        self._epoch: tuple[int, Ints] | None = None

    def sample_rows(self, step: int) -> Ints:
        """Return the row numbers of training batch `step`, shape (batch_size,)."""
        is_by_epoch = self._settings.sampling == "epochs" and not self._paced_queries
        if self._settings.unit == "pair":
            return self._take_epoch_pairs(step) if is_by_epoch else self._draw_pairs(step)
        groups = self._settings.batch_size // (1 + self._settings.negatives)
        if is_by_epoch:
            return self._sample_instances(step, sample_by_epoch(self._seed, step, len(self._rows), groups))
        available = self._list_available_queries(step)
        return self._sample_instances(step, available[sample_uniform(self._seed, step, len(available), groups)])

    def _sample_instances(self, step: int, queries: Ints) -> Ints:
        return sample_instances(self._seed, step, queries, self._rows, self._settings.negatives)

    def _list_available_queries(self, step: int) -> Ints:
        if self._paced_queries:
            return self._paced_queries.list_available(step)
        return np.arange(len(self._rows))

    def _take_epoch_pairs(self, step: int) -> Ints:
        """Return the pairs of a batch; the last ones of an epoch share it with the first ones of the next."""
        size = self._settings.batch_size
        positions = np.arange(step * size, (step + 1) * size)
        epochs, places = np.divmod(positions, self._n_pairs.sum())
        return np.concatenate(
            [self._load_epoch(epoch)[places[epochs == epoch]] for epoch in np.unique(epochs).tolist()]
        )

    def _load_epoch(self, epoch: int) -> Ints:
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, sample_epoch_pairs(self._seed, epoch, self._rows, self._settings.negatives)
        return self._epoch[1]

    def _draw_pairs(self, step: int) -> Ints:
        """Draw the pairs of a batch from those of all available queries."""
        seed, rows, settings = self._seed, self._rows, self._settings
        available = self._list_available_queries(step)
        starts = _find_starts(self._n_pairs[available]) if self._paced_queries else self._pair_starts
        pairs = sample_uniform(seed, step, int(starts[-1]), settings.batch_size)
        numbers = np.searchsorted(starts, pairs, side="right") - 1
        chosen, which = np.unique(numbers, return_inverse=True)
        negatives = _sample_negatives(seed, step, available[chosen], rows, settings.negatives, "")
        queries, places = available[numbers], pairs - starts[numbers]
        ranks = places - rows.n_relevant[queries]  # among the negatives
        drawn: Ints = np.where(ranks < 0, rows.starts[queries] + places, negatives[which, np.maximum(ranks, 0)])
        return drawn


def _find_starts(counts: Ints) -> Ints:
    """Return the number of items before each group, and that of all items."""
    return np.concatenate([[0], np.cumsum(counts)])


def split_into_micro_batches(lengths: Ints, max_tokens: int) -> list[Ints]:
    """Split pairs into micro-batches of similar length with at most `max_tokens` tokens.

    A longer pair is alone in its micro-batch.

    Args:
        lengths: tokens of each pair, shape (pairs,).
        max_tokens: most tokens of a micro-batch.

    Returns:
        Indices into `lengths` for each micro-batch, shortest pairs first. Together they are a permutation.

    Example:
        >>> import numpy as np
        >>> [part.tolist() for part in split_into_micro_batches(np.array([5, 3, 9, 2]), max_tokens=8)]
        [[3, 1], [0], [2]]
    """
    order = np.argsort(lengths, kind="stable")
    parts: list[list[int]] = []
    room = 0
    for index in order.tolist():
        length = int(lengths[index])
        if not parts or length > room:
            parts.append([])
            room = max_tokens
        parts[-1].append(index)
        room -= length
    return [np.array(part, dtype=np.int64) for part in parts]
