"""Selection of the instances of each batch, and the split of a batch into micro-batches.

The instances of batch t are a pure function of (seed, t).
"""

from typing import Literal

import numpy as np

from trainables.curriculum.sampler import Curriculum, CurriculumSampler, sample_uniform
from trainables.specs.ranker import RankerTrainingSettings
from trainables.utils.arrays import Ints
from trainables.utils.random import make_generator

_BATCHES_PER_WINDOW = 50
"""Batches with queries that are sorted by length together, if batches are bucketed."""


def sample_instances(
    seed: int,
    step: int,
    queries: Ints,
    relevant_counts: Ints,
    candidates: int,
    negatives: int,
    purpose: str = "",
    choice: Literal["drawn", "first"] = "drawn",
) -> Ints:
    """Return, for each chosen query, one relevant document and `negatives` others.

    Args:
        seed: seed of the run.
        step: 0-based batch number.
        queries: chosen queries, shape (groups,).
        relevant_counts: number of relevant candidates of every query, shape (queries,). The rows of query i start at
            i * candidates; its relevant candidates come first.
        candidates: candidates per query.
        negatives: negatives per query, at most as many as every chosen query has.
        purpose: prefix of the names of the draws, default "".
        choice: "drawn" for negatives that are drawn without replacement, the default; "first" for the first ones.

    Returns:
        Row numbers of shape (groups * (1 + negatives),); the relevant row of each query comes first.

    Raises:
        ValueError: if a chosen query has fewer negatives.

    Example:
        >>> import numpy as np
        >>> rows = sample_instances(0, 0, np.array([0, 1]), np.array([1, 1]), candidates=3, negatives=2)
        >>> rows[[0, 3]].tolist(), sorted(rows.tolist())
        ([0, 3], [0, 1, 2, 3, 4, 5])
    """
    fewest = candidates - int(relevant_counts[queries].max(initial=0))
    if negatives > fewest:
        raise ValueError(f"{negatives} negatives a query, but a query has only {fewest} among its candidates")
    if choice == "first":
        chosen = relevant_counts[queries, None] + np.arange(negatives)
    else:
        draw = make_generator(seed, f"{purpose}negatives", step).random((len(queries), candidates - 1))
        # A relevant document gets 1, which is above every draw, so that it is never sampled as a negative.
        draw[np.arange(1, candidates) < relevant_counts[queries, None]] = 1.0
        chosen = 1 + np.argsort(draw, axis=1, kind="stable")[:, :negatives]
    relevant = make_generator(seed, f"{purpose}relevant", step).integers(relevant_counts[queries])
    ranks = np.concatenate([relevant[:, None], chosen], axis=1)
    rows: Ints = (queries[:, None] * candidates + ranks).reshape(-1)
    return rows


def sample_by_epoch(seed: int, step: int, queries: int, groups: int) -> Ints:
    """Return the queries of batch `step`, taken in an order that is shuffled anew for every epoch.

    The last queries of an epoch share their batch with the first queries of the next epoch.

    Args:
        seed: seed of the run.
        step: 0-based batch number.
        queries: number of training queries.
        groups: queries per batch.

    Returns:
        Query numbers of shape (groups,).

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
    relevant_counts: Ints,
    candidates: int,
    negatives: int,
    choice: Literal["drawn", "first"] = "drawn",
) -> Ints:
    """Return the pairs of an epoch in the order of training, which is shuffled over all queries.

    Each query has one relevant document and `negatives` others.

    Args:
        seed: seed of the run.
        epoch: 0-based number of the epoch.
        relevant_counts: number of relevant candidates of every query, shape (queries,).
        candidates: candidates per query.
        negatives: negatives per query, at most as many as every query has.
        choice: see `sample_instances`.

    Returns:
        Row numbers of shape (queries * (1 + negatives),).

    Example:
        >>> import numpy as np
        >>> sorted(sample_epoch_pairs(0, 0, np.array([1, 1]), candidates=3, negatives=2).tolist())
        [0, 1, 2, 3, 4, 5]
    """
    queries = np.arange(len(relevant_counts))
    rows = sample_instances(seed, epoch, queries, relevant_counts, candidates, negatives, "pair ", choice)
    shuffled: Ints = rows[make_generator(seed, "pair order", epoch).permutation(len(rows))]
    return shuffled


class BatchSampler:
    """Selects the instances of each batch of a run.

    A batch consists of queries, each with one relevant document and its negatives, or of single pairs (`unit`). With
    `sampling` = "epochs" the queries come from `sample_by_epoch` and the pairs from `sample_epoch_pairs`. Otherwise
    they are drawn anew for every batch, from all training queries or from those that the curriculum has reached.
    "random" batches are computed as they are drawn. "bucketed" batches hold the same instances in every window of 50
    batches, but group queries or pairs of similar length; the batches of a window come in a random order. The instances
    that share an optimizer step then depend on their length.

    Args:
        seed: seed of the run.
        settings: instances, batch_size, negatives, negative_choice, unit, sampling, batching.
        relevant_counts: number of relevant candidates of each query, shape (queries,).
        lengths: tokens of each pair, shape (queries * candidates,).
        curriculum: decides which queries a batch may contain. If None, a batch may contain all of them.
    """

    def __init__(
        self,
        seed: int,
        settings: RankerTrainingSettings,
        relevant_counts: Ints,
        lengths: Ints,
        curriculum: Curriculum | None = None,
    ) -> None:
        self._seed, self._settings, self._relevant_counts, self._lengths = seed, settings, relevant_counts, lengths
        self._candidates = len(lengths) // len(relevant_counts)
        self._paced_queries = (
            CurriculumSampler(curriculum, seed, settings.instances // settings.batch_size) if curriculum else None
        )
        self._window: tuple[int, Ints] | None = None
        self._epoch: tuple[int, Ints] | None = None

    def sample_rows(self, step: int) -> Ints:
        """Return the row numbers of training batch `step`, shape (batch_size,)."""
        if self._settings.batching == "random":
            return self._sample_batch(step)
        window, index = divmod(step, _BATCHES_PER_WINDOW)
        if self._window is None or self._window[0] != window:
            self._window = window, self._bucket_window(window)
        rows: Ints = self._window[1][index]
        return rows

    def _sample_batch(self, step: int) -> Ints:
        is_by_epoch = self._settings.sampling == "epochs" and not self._paced_queries
        if self._settings.unit == "pair":
            return self._take_epoch_pairs(step) if is_by_epoch else self._draw_pairs(step)
        groups = self._settings.batch_size // (1 + self._settings.negatives)
        if is_by_epoch:
            return self._sample_instances(step, sample_by_epoch(self._seed, step, len(self._relevant_counts), groups))
        available = self._list_available_queries(step)
        return self._sample_instances(step, available[sample_uniform(self._seed, step, len(available), groups)])

    def _sample_instances(self, step: int, queries: Ints) -> Ints:
        counts, settings = self._relevant_counts, self._settings
        return sample_instances(
            self._seed, step, queries, counts, self._candidates, settings.negatives, choice=settings.negative_choice
        )

    def _list_available_queries(self, step: int) -> Ints:
        if self._paced_queries:
            return self._paced_queries.list_available(step)
        return np.arange(len(self._relevant_counts))

    def _take_epoch_pairs(self, step: int) -> Ints:
        """Return the pairs of a batch; the last ones of an epoch share it with the first ones of the next."""
        size, group = self._settings.batch_size, 1 + self._settings.negatives
        positions = np.arange(step * size, (step + 1) * size)
        epochs, places = np.divmod(positions, len(self._relevant_counts) * group)
        return np.concatenate(
            [self._load_epoch(epoch)[places[epochs == epoch]] for epoch in np.unique(epochs).tolist()]
        )

    def _load_epoch(self, epoch: int) -> Ints:
        if self._epoch is None or self._epoch[0] != epoch:
            counts, settings = self._relevant_counts, self._settings
            rows = sample_epoch_pairs(
                self._seed, epoch, counts, self._candidates, settings.negatives, settings.negative_choice
            )
            self._epoch = epoch, rows
        return self._epoch[1]

    def _draw_pairs(self, step: int) -> Ints:
        """Draw the pairs of a batch from those of all available queries."""
        size, group = self._settings.batch_size, 1 + self._settings.negatives
        available = self._list_available_queries(step)
        numbers, places = np.divmod(sample_uniform(self._seed, step, len(available) * group, size), group)
        chosen, which = np.unique(numbers, return_inverse=True)
        rows: Ints = self._sample_instances(step, available[chosen]).reshape(-1, group)[which, places]
        return rows

    def _bucket_window(self, window: int) -> Ints:
        settings = self._settings
        last = min((window + 1) * _BATCHES_PER_WINDOW, settings.instances // settings.batch_size)
        rows = np.stack([self._sample_batch(step) for step in range(window * _BATCHES_PER_WINDOW, last)])
        groups = rows.reshape(-1, 1 if settings.unit == "pair" else 1 + settings.negatives)
        ordered = groups[np.argsort(self._lengths[groups].sum(axis=1), kind="stable")].reshape(rows.shape)
        shuffled: Ints = ordered[make_generator(self._seed, "buckets", window).permutation(len(rows))]
        return shuffled


def split_into_micro_batches(lengths: Ints, max_tokens: int) -> list[Ints]:
    """Split pairs into micro-batches of similar length with at most `max_tokens` tokens.

    A longer pair is alone in its micro-batch.

    Args:
        lengths: tokens of each pair, shape (pairs,).
        max_tokens: maximum number of tokens in a micro-batch.

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
