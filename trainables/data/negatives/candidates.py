"""The candidates of a split: every query's relevant documents and the negative sampler's nearest others.

They are sampled in parts of QUERIES_PER_PART queries, by several processes, each part a file; what is there already
after a kill is not sampled again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainables.data.negatives.base import Query, open_sampler
from trainables.data.negatives.selection import MAX_LABEL, sample_negatives, scale_global_max, scale_min_max
from trainables.specs.ranker import SamplerSettings
from trainables.utils.arrays import Bools, Floats, Ints
from trainables.utils.checksums import verify_file, write_with_checksum
from trainables.utils.random import make_generator

QUERIES_PER_PART = 500


class SamplerIndex(NamedTuple):
    """A sampler over a pool, as it lies on disk."""

    folder: Path
    settings: SamplerSettings
    size: int


class QueryToSample(NamedTuple):
    """A query whose candidates are to be sampled."""

    query: Query
    relevant: Ints
    """Positions of its relevant documents in the pool, fewer than there are candidates."""
    excluded: Ints
    """Positions of all documents that must not be sampled."""
    n_left_out: int
    """Relevant documents beyond those."""


class SampledCandidates(NamedTuple):
    """Candidates of some queries; every array is (queries, candidates), relevant documents first."""

    positions: Ints
    scores: Floats
    """The sampler's scores, NaN where it has none."""
    basis: Floats
    """What weak labels are made of, NaN where a candidate has none: relevant, drawn, or without a score."""
    drawn: Bools
    """Drawn at random, because the sampler found too few."""
    bm25: Floats
    """BM25 scores; NaN throughout if nobody asked."""


def sample_part(
    file: Path, items: Sequence[QueryToSample], n_candidates: int, index: SamplerIndex, bm25_index: SamplerIndex | None
) -> None:
    """Samples the candidates of some queries and writes them to `file`, whole.

    Args:
        file: NumPy archive of a `Sampled`.
        wanted: the queries.
        candidates: of each query.
        sampler: finds the negatives.
        bm25: scores all candidates besides, if it is there.

    Raises:
        PoolError: the pool is too small.
    """
    shape, kind = (len(items), n_candidates), index.settings.weak_label
    scores, basis, word_scores = (np.full(shape, np.nan) for _ in range(3))
    sampled = SampledCandidates(np.empty(shape, np.int64), scores, basis, np.zeros(shape, bool), word_scores)
    queries = [item.query for item in items]
    rankings = open_sampler(*index).score_pool(queries)
    bm25_rankings = (
        open_sampler(*bm25_index).score_pool(queries) if bm25_index is not None and bm25_index != index else None
    )
    for row, (item, (order, raw)) in enumerate(zip(items, rankings, strict=True)):
        bm25_row = next(bm25_rankings).raw if bm25_rankings is not None else raw if bm25_index is not None else None
        n_relevant = len(item.relevant)
        negatives = sample_negatives(
            item.query.id, order, item.excluded, n_candidates - n_relevant, index.settings.authors
        )
        found = slice(n_relevant, n_relevant + negatives.n_found)
        positions = sampled.positions[row]
        positions[:n_relevant], positions[n_relevant:] = item.relevant, negatives.positions
        sampled.scores[row] = raw[positions]
        sampled.drawn[row, found.stop :] = True
        if bm25_row is not None:
            sampled.bm25[row] = bm25_row[positions]
        if kind == "uniform":
            sampled.basis[row, found] = MAX_LABEL * make_generator(0, f"weak labels of {item.query.id}", 0).random(
                negatives.n_found
            )
        else:
            sampled.basis[row, found] = (sampled.scores if kind == "score" else sampled.bm25)[row, found]
    with write_with_checksum(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **sampled._asdict())


def read_part(file: Path) -> SampledCandidates:
    """What `sample_part` wrote."""
    with np.load(verify_file(file)) as arrays:
        return SampledCandidates(**arrays)


def compute_weak_labels(sampled: SampledCandidates, settings: SamplerSettings) -> Floats:
    """(queries, candidates) weak labels; 0 where drawn at random, NaN where relevant or undefined."""
    basis = sampled.basis
    if settings.weak_label == "uniform":
        labels = basis.copy()
    elif settings.normalisation == "global-max":
        labels = scale_global_max(basis)
    else:
        labels = np.full_like(basis, np.nan)
        for row, scores in enumerate(basis):
            known = ~np.isnan(scores)
            labels[row, known] = scale_min_max(scores[known])
    labels[sampled.drawn] = 0.0
    return labels
