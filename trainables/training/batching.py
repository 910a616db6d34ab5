"""Which instances make batch t, a pure function of (seed, t), and the parts in which a batch is computed."""

import numpy as np

from trainables.curriculum.sampler import Curriculum, CurriculumSampler, sample_uniform
from trainables.specs.ranker import RankerTrainingSettings
from trainables.utils.arrays import Ints
from trainables.utils.random import make_generator

_BATCHES_PER_WINDOW = 50
"""Batches whose queries are put in order of length together, when batches are bucketed."""


def sample_instances(
    seed: int, step: int, queries: Ints, relevant_counts: Ints, candidates: int, negatives: int, purpose: str = ""
) -> Ints:
    """For each of the chosen queries one of its relevant documents and `negatives` of its sampled documents, drawn
    without replacement.

    Args:
        seed: the run's seed.
        step: 0-based batch number.
        chosen: (groups,) queries.
        relevant: (queries,) how many candidates are relevant; query i's are rows i * candidates onward, relevant first.
        candidates: candidates a query.
        negatives: negatives a query, at most those that every query has.
        purpose: begins the names of the draws.

    Returns:
        (groups * (1 + negatives),) row numbers, the relevant one of a query first.

    Raises:
        ValueError: a chosen query has fewer negatives.
    """
    fewest = candidates - int(relevant_counts[queries].max(initial=0))
    if negatives > fewest:
        raise ValueError(f"{negatives} negatives a query, but a query has only {fewest} among its candidates")
    draw = make_generator(seed, f"{purpose}negatives", step).random((len(queries), candidates - 1))
    draw[np.arange(1, candidates) < relevant_counts[queries, None]] = 1.0  # above every draw: never among the first
    sampled = 1 + np.argsort(draw, axis=1, kind="stable")[:, :negatives]
    own = make_generator(seed, f"{purpose}relevant", step).integers(relevant_counts[queries])
    ranks = np.concatenate([own[:, None], sampled], axis=1)
    rows: Ints = (queries[:, None] * candidates + ranks).reshape(-1)
    return rows


def sample_by_epoch(seed: int, step: int, queries: int, groups: int) -> Ints:
    """(groups,) queries of batch `step`: they pass in an order that is shuffled anew every epoch, and an epoch's last
    share their batch with the next epoch's first."""
    positions = np.arange(step * groups, (step + 1) * groups)
    chosen = np.empty(groups, dtype=np.int64)
    for epoch in np.unique(positions // queries):
        inside = positions // queries == epoch
        chosen[inside] = make_generator(seed, "order", int(epoch)).permutation(queries)[positions[inside] % queries]
    return chosen


class BatchSampler:
    """The batches of a run.

    The queries of a batch are those of `epochs`, or drawn anew for every batch, from all or from as many as the
    curriculum has come to. "random" batches are computed as they are drawn. "bucketed" ones hold the same queries in
    every window of 50 batches, but those of similar length together, and the window's batches in a drawn order; which
    instances share an optimizer step then depends on their length.

    Args:
        seed: the run's.
        settings: instances, batch_size, negatives, sampling, batching.
        relevant: (queries,) relevant candidates of each.
        lengths: (queries * candidates,) tokens of each pair.
        curriculum: from which queries a batch is drawn; none: from all.
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
        self._paced_queries = (
            CurriculumSampler(curriculum, seed, settings.instances // settings.batch_size) if curriculum else None
        )
        self._window: tuple[int, Ints] | None = None

    def sample_rows(self, step: int) -> Ints:
        """Row numbers of training batch `step`: (batch_size,)."""
        if self._settings.batching == "random":
            return self._sample_batch(step)
        window, place = divmod(step, _BATCHES_PER_WINDOW)
        if self._window is None or self._window[0] != window:
            self._window = window, self._bucket_window(window)
        rows: Ints = self._window[1][place]
        return rows

    def _sample_batch(self, step: int) -> Ints:
        settings, candidates = self._settings, len(self._lengths) // len(self._relevant_counts)
        chosen = self._sample_queries(step, settings.batch_size // (1 + settings.negatives))
        return sample_instances(self._seed, step, chosen, self._relevant_counts, candidates, settings.negatives)

    def _sample_queries(self, step: int, groups: int) -> Ints:
        if self._paced_queries:
            return self._paced_queries.sample_batch(step, groups)
        draw = sample_by_epoch if self._settings.sampling == "epochs" else sample_uniform
        return draw(self._seed, step, len(self._relevant_counts), groups)

    def _bucket_window(self, window: int) -> Ints:
        settings = self._settings
        last = min((window + 1) * _BATCHES_PER_WINDOW, settings.instances // settings.batch_size)
        rows = np.stack([self._sample_batch(step) for step in range(window * _BATCHES_PER_WINDOW, last)])
        groups = rows.reshape(-1, 1 + settings.negatives)
        ordered = groups[np.argsort(self._lengths[groups].sum(axis=1), kind="stable")].reshape(rows.shape)
        shuffled: Ints = ordered[make_generator(self._seed, "buckets", window).permutation(len(rows))]
        return shuffled


def split_into_micro_batches(lengths: Ints, max_tokens: int) -> list[Ints]:
    """Cuts pairs into parts of similar length and at most `tokens` tokens (a longer pair is alone).

    Args:
        lengths: (pairs,) tokens of each pair.
        tokens: most tokens of a part.

    Returns:
        Places in `lengths`, shortest pairs first; together a permutation.
    """
    order = np.argsort(lengths, kind="stable")
    parts: list[list[int]] = []
    room = 0
    for place in order.tolist():
        length = int(lengths[place])
        if not parts or length > room:
            parts.append([])
            room = max_tokens
        parts[-1].append(place)
        room -= length
    return [np.array(part, dtype=np.int64) for part in parts]
