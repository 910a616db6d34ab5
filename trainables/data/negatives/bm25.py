"""BM25 (Okapi) with exactly the scores of rank_bm25.BM25Okapi, as a sparse matrix of term weights in mapped files.

Robertson and Zaragoza (2009), as rank_bm25 computes it: the same operations in the same order, so that even ties are
the same. A query adds up the columns of its words, where rank_bm25 visits every document.
"""

import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from trainables.data.negatives.base import PoolError, PoolScores, Query
from trainables.specs.ranker import SamplerSettings
from trainables.utils.arrays import Floats

EPSILON = 0.25
"""A term in more than half of the documents gets this share of the average idf (rank_bm25's default)."""
LAST_QUERY_CHARACTERS = 512
"""Of a query, in the code of the authors of WSLS."""
_STOP_WORDS_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
"""Lucene's English stop words, which Anserini leaves out by default."""


def get_tokenizer(words: str) -> Callable[[str], list[str]]:
    """What makes words of a text: `plain` or `stemmed`."""
    return tokenize_plain if words == "plain" else tokenize_stemmed


def tokenize_plain(text: str) -> list[str]:
    """Lower-case words."""
    return re.findall(r"\w+", text.lower())


def tokenize_stemmed(text: str) -> list[str]:
    """Stems of the lower-case words that are no stop words, by the algorithm of Porter (1980).

    Snowball, which the package comes from, also has Porter's later one under the name "english"; its stems differ.
    """
    stems: list[str] = _load_stemmer().stemWords([word for word in tokenize_plain(text) if word not in STOP_WORDS])
    return stems


@lru_cache(maxsize=1)
def _load_stemmer() -> "Stemmer":  # type: ignore[name-defined] # noqa: F821
    from Stemmer import Stemmer

    return Stemmer("porter")


class Bm25Sampler:
    """An index over a pool of documents."""

    piece_size: ClassVar[int | None] = None

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        folder = folder / "00000"
        self._settings, self._tokenize, self._size = settings, get_tokenizer(settings.words), size
        vocabulary = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
        self._terms = {word: term for term, word in enumerate(vocabulary)}
        self._starts = np.load(folder / "starts.npy")  # (terms + 1,)
        self._documents = np.load(folder / "documents.npy", mmap_mode="r")
        self._weights = np.load(folder / "weights.npy", mmap_mode="r")

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Writes the weight of every term in every document, term by term."""
        matrix, vocabulary = compute_term_weights(map(get_tokenizer(settings.words), texts), settings.k1, settings.b)
        (folder / "vocabulary.txt").write_text("\n".join(vocabulary), encoding="utf-8")
        np.save(folder / "starts.npy", matrix.indptr.astype(np.int64))
        np.save(folder / "documents.npy", matrix.indices)
        np.save(folder / "weights.npy", matrix.data)

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """A document that shares no word with the query, or only words that most documents have, is not found."""
        for query in queries:
            scores = self.score_text(query.text[-LAST_QUERY_CHARACTERS:] if self._settings.authors else query.text)
            yield PoolScores(scores, scores)

    def score_text(self, text: str) -> Floats:
        """(documents,) scores of every document; a word that the query repeats counts each time."""
        scores = np.zeros(self._size)
        for word in self._tokenize(text):
            term = self._terms.get(word)
            if term is not None:
                column = slice(self._starts[term], self._starts[term + 1])
                scores[self._documents[column]] += self._weights[column]
        return scores


def compute_term_weights(documents: Iterable[list[str]], k1: float, b: float) -> tuple[sp.csc_array, list[str]]:
    """(documents, terms) what a term of a query adds to a document's score, and the terms.

    Raises:
        PoolError: no document holds a word.
    """
    vocabulary: dict[str, int] = {}
    terms, lengths = array("i"), array("q")
    for words in documents:
        lengths.append(len(words))
        terms.extend([vocabulary.setdefault(word, len(vocabulary)) for word in words])
    if not terms:
        raise PoolError("no document holds a word")
    sizes, columns = np.array(lengths), np.frombuffer(terms, dtype=np.int32)
    rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    ones = np.ones(len(columns), dtype=np.int32)
    counts = sp.csc_array((ones, (rows, columns)), shape=(len(sizes), len(vocabulary)))  # sums the repetitions
    found_in = np.diff(counts.indptr)

    # The order of every operation is rank_bm25's, for the same rounding and thus the same ties.
    idf = np.array([math.log(len(sizes) - n + 0.5) - math.log(n + 0.5) for n in found_in.tolist()])
    idf[idf < 0] = EPSILON * (np.cumsum(idf)[-1] / len(idf))
    norm = k1 * (1 - b + b * sizes / (len(columns) / len(sizes)))
    frequency = counts.data.astype(np.float64)
    weights = np.repeat(idf, found_in) * (frequency * (k1 + 1) / (frequency + norm[counts.indices]))
    return sp.csc_array((weights, counts.indices, counts.indptr), shape=counts.shape), list(vocabulary)
