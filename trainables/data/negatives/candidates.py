"""The candidates of a split: every query's relevant documents and the negative sampler's nearest others.

They are sampled in parts of QUERIES_PER_PART queries, by several processes, each part a file; what is there already
after a kill is not sampled again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainables.data.negatives.base import Query, opened
from trainables.data.negatives.selection import HIGHEST, global_max, min_max, sample
from trainables.specs.ranker import SamplerSettings
from trainables.utils.arrays import Bools, Floats, Ints
from trainables.utils.checksums import checked_file, verified
from trainables.utils.random import generator

QUERIES_PER_PART = 500


class Index(NamedTuple):
    """A sampler over a pool, as it lies on disk."""

    folder: Path
    settings: SamplerSettings
    size: int


class Wanted(NamedTuple):
    """A query whose candidates are to be sampled."""

    query: Query
    relevant: Ints
    """Positions of its relevant documents in the pool, fewer than there are candidates."""
    excluded: Ints
    """Positions of all documents that must not be sampled."""
    left_out: int
    """Relevant documents beyond those."""


class Sampled(NamedTuple):
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


def sample_part(file: Path, wanted: Sequence[Wanted], candidates: int, sampler: Index, bm25: Index | None) -> None:
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
    shape, kind = (len(wanted), candidates), sampler.settings.weak_label
    scores, basis, word_scores = (np.full(shape, np.nan) for _ in range(3))
    made = Sampled(np.empty(shape, np.int64), scores, basis, np.zeros(shape, bool), word_scores)
    queries = [one.query for one in wanted]
    rankings = opened(*sampler).scored(queries)
    others = opened(*bm25).scored(queries) if bm25 is not None and bm25 != sampler else None
    for row, (one, (order, raw)) in enumerate(zip(wanted, rankings, strict=True)):
        words = next(others).raw if others is not None else raw if bm25 is not None else None
        first = len(one.relevant)
        negatives = sample(one.query.id, order, one.excluded, candidates - first, sampler.settings.authors)
        found = slice(first, first + negatives.found)
        positions = made.positions[row]
        positions[:first], positions[first:] = one.relevant, negatives.positions
        made.scores[row] = raw[positions]
        made.drawn[row, found.stop :] = True
        if words is not None:
            made.bm25[row] = words[positions]
        if kind == "uniform":
            made.basis[row, found] = HIGHEST * generator(0, f"weak labels of {one.query.id}", 0).random(negatives.found)
        else:
            made.basis[row, found] = (made.scores if kind == "score" else made.bm25)[row, found]
    with checked_file(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **made._asdict())


def read_part(file: Path) -> Sampled:
    """What `sample_part` wrote."""
    with np.load(verified(file)) as arrays:
        return Sampled(**arrays)


def weak_labels(sampled: Sampled, settings: SamplerSettings) -> Floats:
    """(queries, candidates) weak labels; 0 where drawn at random, NaN where relevant or undefined."""
    basis = sampled.basis
    if settings.weak_label == "uniform":
        labels = basis.copy()
    elif settings.normalisation == "global-max":
        labels = global_max(basis)
    else:
        labels = np.full_like(basis, np.nan)
        for row, scores in enumerate(basis):
            known = ~np.isnan(scores)
            labels[row, known] = min_max(scores[known])
    labels[sampled.drawn] = 0.0
    return labels
