"""Samples or retrieves the candidates of the queries of a split.

Sampled candidates are the relevant documents of a query and the nearest others according to the negative sampler.
Retrieved candidates are the nearest documents, whether relevant or not. Several processes find them, in parts of
`QUERIES_PER_PART` queries. Each part is a file, so an interrupted preparation does not find existing parts again.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from trainables.data.negatives.negative_sampler import Query, open_sampler
from trainables.data.negatives.selection import (
    MAX_LABEL,
    exclude_near,
    find_nearest,
    sample_negatives,
    scale_global_max,
    scale_min_max,
)
from trainables.specs.ranking_task import SamplerSettings
from trainables.utils.arrays import Bools, Floats, Ints
from trainables.utils.checksums import verify_file, write_with_checksum
from trainables.utils.errors import UserError
from trainables.utils.random import make_generator

QUERIES_PER_PART = 500


class SamplerIndex(NamedTuple):
    """Index of a sampler over a pool, on disk: the arguments of `open_sampler`."""

    folder: Path
    settings: SamplerSettings
    size: int
    """Number of documents of the pool."""


class QueryToSample(NamedTuple):
    """A query for which candidates must be sampled."""

    query: Query
    relevant: Ints
    """Positions in the pool of the relevant documents to include."""
    n_negatives: int
    """Number of documents to sample."""
    excluded: Ints
    """Positions in the pool of all documents that must not be sampled."""
    n_left_out: int
    """Number of further relevant documents, for which there are too few candidates."""


class SampledCandidates(NamedTuple):
    """Candidates of some queries, one query after the other, with its relevant documents first.

    Every array but `lengths` is of shape (candidates,).
    """

    lengths: Ints
    """(queries,) Number of candidates of each query."""
    positions: Ints
    """Positions in the pool."""
    scores: Floats
    """Scores of the sampler, NaN if it has none."""
    basis: Floats
    """Values that weak labels are computed from. NaN for relevant documents, drawn ones and those without a score."""
    drawn: Bools
    """True if the document was drawn at random, because the sampler found too few."""
    bm25: Floats
    """BM25 scores, NaN if they were not requested."""


def sample_part(
    file: Path, items: Sequence[QueryToSample], index: SamplerIndex, bm25_index: SamplerIndex | None
) -> None:
    """Sample the candidates of some queries and write them to a file in one step.

    Raises:
        PoolError: If the pool is too small.
        UserError: If the margin of the sampler leaves too few documents.
    """
    lengths = np.array([len(item.relevant) + item.n_negatives for item in items], dtype=np.int64)
    size, ends, kind = int(lengths.sum()), np.cumsum(lengths), index.settings.weak_label
    scores, basis, word_scores = (np.full(size, np.nan) for _ in range(3))
    sampled = SampledCandidates(lengths, np.empty(size, np.int64), scores, basis, np.zeros(size, bool), word_scores)
    queries = [item.query for item in items]
    rankings = open_sampler(*index).score_pool(queries)
    bm25_rankings = (
        open_sampler(*bm25_index).score_pool(queries) if bm25_index is not None and bm25_index != index else None
    )
    for item, end, (order, raw) in zip(items, ends.tolist(), rankings, strict=True):
        bm25_row = next(bm25_rankings).raw if bm25_rankings is not None else raw if bm25_index is not None else None
        excluded = _exclude(item, raw, index.settings.margin)
        negatives = sample_negatives(
            item.query.id, order, excluded, item.n_negatives, index.settings.protocol.paper_code
        )
        first = end - item.n_negatives
        rows, nearest = slice(first - len(item.relevant), end), slice(first, first + negatives.n_found)
        sampled.positions[rows] = positions = np.concatenate([item.relevant, negatives.positions])
        sampled.scores[rows] = raw[positions]
        sampled.drawn[nearest.stop : end] = True
        if bm25_row is not None:
            sampled.bm25[rows] = bm25_row[positions]
        if kind == "uniform":
            generator = make_generator(0, f"weak labels of {item.query.id}", 0)
            sampled.basis[nearest] = MAX_LABEL * generator.random(negatives.n_found)
        else:
            sampled.basis[nearest] = (sampled.scores if kind == "score" else sampled.bm25)[nearest]
    _write_part(file, sampled)


def _exclude(item: QueryToSample, scores: Floats, margin: float | None) -> Ints:
    """Return the positions of what must not be sampled for a query.

    Raises:
        UserError: If the margin leaves too few documents.
    """
    excluded = exclude_near(item.excluded, scores, item.relevant, margin)
    if margin is not None and (left := len(scores) - len(excluded)) < item.n_negatives:
        found = f"{margin:g}, which leaves {left} documents for query {item.query.id!r}"
        raise UserError("task.sampler.margin", found, f"a margin with {item.n_negatives} negatives for every query")
    return excluded


class RetrievedCandidates(NamedTuple):
    """Nearest documents of some queries, one query after the other."""

    lengths: Ints
    """(queries,) Number of documents of each query."""
    positions: Ints
    """(candidates,) Positions in the pool, nearest first."""
    scores: Floats
    """(candidates,) Scores of the sampler, NaN if it has none."""


def retrieve_part(file: Path, items: Sequence[QueryToSample], depth: int, index: SamplerIndex) -> None:
    """Find the nearest documents of some queries and write them to a file in one step."""
    positions, scores = list[Ints](), list[Floats]()
    rankings = open_sampler(*index).score_pool([item.query for item in items])
    for item, (order, raw) in zip(items, rankings, strict=True):
        near = find_nearest(order, depth + len(item.excluded))
        near = near[~np.isin(near, item.excluded)][:depth]
        positions.append(near)
        scores.append(raw[near])
    lengths = np.array([len(found) for found in positions], dtype=np.int64)
    _write_part(file, RetrievedCandidates(lengths, np.concatenate(positions), np.concatenate(scores)))


Candidates = TypeVar("Candidates", SampledCandidates, RetrievedCandidates)


def _write_part(file: Path, found: SampledCandidates | RetrievedCandidates) -> None:
    with write_with_checksum(file) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **found._asdict())


def read_parts(files: Sequence[Path], kind: type[Candidates]) -> Candidates:
    """Read and concatenate the candidates of parts."""
    parts = []
    for file in files:
        with np.load(verify_file(file)) as arrays:
            parts.append([arrays[name] for name in kind._fields])
    return kind(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def compute_weak_labels(sampled: SampledCandidates, settings: SamplerSettings) -> Floats:
    """Compute the weak labels of sampled candidates.

    Returns:
        Weak labels of shape (candidates,): 0 if the document was drawn at random, NaN if it is relevant or has
        no basis.
    """
    basis = sampled.basis
    if settings.weak_label == "uniform":
        labels = basis.copy()
    elif settings.protocol.normalisation == "global-max":
        labels = scale_global_max(basis)
    else:
        labels = np.full_like(basis, np.nan)
        for rows in np.split(np.arange(len(basis)), np.cumsum(sampled.lengths)[:-1]):
            known = rows[~np.isnan(basis[rows])]
            labels[known] = scale_min_max(basis[known])
    labels[sampled.drawn] = 0.0
    return labels
