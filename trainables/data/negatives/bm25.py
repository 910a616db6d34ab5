"""The negative sampler bm25: BM25 (Okapi) with exactly the scores of rank_bm25.BM25Okapi, or with the idf of Lucene.

BM25 is described by Robertson and Zaragoza (2009). This module does the same operations as rank_bm25 in the same order,
so that even ties are the same. rank_bm25 visits every document for a query. Here, the index is a sparse matrix of term
weights in mapped files, and a query sums the columns of its words.
"""

import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from trainables.data.negatives.negative_sampler import PoolError, PoolScores, Query
from trainables.specs.ranking_task import SamplerSettings
from trainables.text.words import find_words
from trainables.utils.arrays import Floats, Ints

EPSILON = 0.25
"""A term in more than half of the documents gets this share of the average idf (rank_bm25's default)."""
LAST_QUERY_CHARACTERS = 512
"""Number of characters at the end of a query that the code of the authors of WSLS uses."""
_WEIGHTS_AT_ONCE = 1 << 22
"""Number of weights that are computed at once."""
_STOP_WORDS_TEXT = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
_UNSTEMMED = 2
"""Letters of the longest words that Lucene does not stem."""
_MEASURED = re.compile("[aeiou][^aeiou]|[^aeiou]y[^aeiouy]")
"""A vowel and then a consonant, which Porter requires before a suffix: his measure is above 0."""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())
"""English stop words of Lucene, which Anserini removes by default."""


def get_tokenizer(words: str) -> Callable[[str], list[str]]:
    """Return the function that splits a text into words: "plain" or "stemmed"."""
    return find_words if words == "plain" else tokenize_stemmed


def tokenize_stemmed(text: str) -> list[str]:
    """Return the stems of the case-folded words, without stop words.

    The algorithm is that of Porter (1980) as Lucene has it: words of one or two letters stay as they are, and there are
    the suffixes "bli" and "logi" of Porter's own program. The package is part of Snowball, which also has Porter's
    later algorithm, under the name "english". Its stems differ.

    Example:
        >>> tokenize_stemmed("Formatting the disk of us!")
        ['format', 'disk', 'us']
    """
    return [_stem(word) for word in find_words(text) if word not in STOP_WORDS]


@lru_cache(maxsize=1 << 20)
def _stem(word: str) -> str:
    if len(word) <= _UNSTEMMED:
        return word
    stemmer = _load_stemmer()
    stem: str = stemmer.stemWord(word)
    if stem.endswith(("bli", "logi")) and _MEASURED.search(stem.removesuffix("logi").removesuffix("bli")):
        return str(stemmer.stemWord(f"{stem[:-1]}e" if stem.endswith("bli") else stem[:-1]))
    return stem


@lru_cache(maxsize=1)
def _load_stemmer() -> "Stemmer":  # type: ignore[name-defined] # noqa: F821
    from Stemmer import Stemmer

    return Stemmer("porter")


class Bm25Sampler:
    """Scores documents by BM25, with an index over a pool."""

    piece_size: ClassVar[int | None] = None

    def __init__(self, folder: Path, settings: SamplerSettings, size: int) -> None:
        folder = folder / "00000"
        self._protocol, self._size = settings.protocol, size
        self._tokenize = get_tokenizer(self._protocol.words)
        vocabulary = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
        self._terms = {word: term for term, word in enumerate(vocabulary)}
        self._starts = np.load(folder / "starts.npy")  # (terms + 1,)
        self._documents = np.load(folder / "documents.npy", mmap_mode="r")
        self._weights = np.load(folder / "weights.npy", mmap_mode="r")

    @staticmethod
    def build(folder: Path, texts: Sequence[str], settings: SamplerSettings) -> None:
        """Write the weight of every term in every document, term by term.

        Raises:
            PoolError: If no document contains a word.
        """
        protocol = settings.protocol
        words = map(get_tokenizer(protocol.words), texts)
        matrix, vocabulary = compute_term_weights(words, protocol.k1, protocol.b, protocol.idf)
        (folder / "vocabulary.txt").write_text("\n".join(vocabulary), encoding="utf-8")
        np.save(folder / "starts.npy", matrix.indptr.astype(np.int64))
        np.save(folder / "documents.npy", matrix.indices)
        np.save(folder / "weights.npy", matrix.data)

    def score_pool(self, queries: Sequence[Query]) -> Iterator[PoolScores]:
        """Yield the BM25 scores of the pool for each query.

        A document is found if its score is positive. It is not found if it shares no word with the query, or only words
        so common that their weight is not positive.
        """
        for query in queries:
            scores = self.score_text(query.text[-LAST_QUERY_CHARACTERS:] if self._protocol.paper_code else query.text)
            yield PoolScores(scores, scores)

    def score_text(self, text: str) -> Floats:
        """Return the BM25 scores of all documents, of shape (documents,).

        A word that the query repeats counts each time.
        """
        scores = np.zeros(self._size)
        for word in self._tokenize(text):
            term = self._terms.get(word)
            if term is not None:
                column = slice(self._starts[term], self._starts[term + 1])
                scores[self._documents[column]] += self._weights[column]
        return scores


def compute_term_weights(
    documents: Iterable[list[str]], k1: float, b: float, idf: Literal["okapi", "lucene"] = "okapi"
) -> tuple[sp.csc_array, list[str]]:
    """Compute the (documents, terms) BM25 weights, and return them and the terms.

    The BM25 score of a document is the sum of the weights of the query's terms.

    Args:
        documents: Words of each document.
        k1: Term-frequency saturation.
        b: Length normalisation, from 0 to 1.
        idf: "okapi" for the weights of rank_bm25, or "lucene" for those of Lucene: with n of N documents that contain a
            term, the idf is log(1 + (N - n + 0.5) / (n + 0.5)), and the factor k1 + 1, which changes no order, is left
            out. Lucene also rounds the lengths of documents, which is not done here.

    Raises:
        PoolError: If no document contains a word.

    Example:
        >>> weights, terms = compute_term_weights([["a", "disk"], ["a", "a"], ["drive"]], k1=1.5, b=0.75)
        >>> terms
        ['a', 'disk', 'drive']
        >>> weights.toarray().round(2).tolist()
        [[0.04, 0.47, 0.0], [0.06, 0.0, 0.0], [0.0, 0.0, 0.62]]
    """
    vocabulary: dict[str, int] = {}
    terms, lengths = array("i"), array("q")
    for words in documents:
        lengths.append(len(words))
        terms.extend([vocabulary.setdefault(word, len(vocabulary)) for word in words])
    if not terms:
        raise PoolError("no document contains a word")
    sizes, n_words = np.array(lengths), len(terms)
    counts = _count_terms(terms, sizes, len(vocabulary))
    del terms  # as large as the counts
    document_frequency = np.diff(counts.indptr)

    # The operations are in the order of rank_bm25, for the same rounding and thus the same ties.
    norm = k1 * (1 - b + b * sizes / (n_words / len(sizes)))
    n_documents, n_containing = len(sizes), document_frequency.tolist()
    if idf == "lucene":
        rarity = np.array([math.log1p((n_documents - n + 0.5) / (n + 0.5)) for n in n_containing])
        factor = None
    else:
        rarity = np.array([math.log(n_documents - n + 0.5) - math.log(n + 0.5) for n in n_containing])
        rarity[rarity < 0] = EPSILON * (np.cumsum(rarity)[-1] / len(rarity))
        factor = k1 + 1
    weights = np.empty(counts.nnz)
    for first in range(0, counts.nnz, _WEIGHTS_AT_ONCE):  # each intermediate array is twice as large as the counts
        part = slice(first, min(first + _WEIGHTS_AT_ONCE, counts.nnz))
        frequency = counts.data[part].astype(np.float64)
        scaled = frequency if factor is None else frequency * factor
        repetitions = np.diff(np.clip(counts.indptr, part.start, part.stop))  # of each term in this part
        weights[part] = np.repeat(rarity, repetitions) * (scaled / (frequency + norm[counts.indices[part]]))
    return sp.csc_array((weights, counts.indices, counts.indptr), shape=counts.shape), list(vocabulary)


def _count_terms(terms: "array[int]", sizes: Ints, n_terms: int) -> sp.csc_array:
    """Return how often each document contains each term, of shape (documents, terms).

    `terms` are those of all documents, one document after another, `sizes` their numbers.
    """
    columns = np.frombuffer(terms, dtype=np.int32)
    rows = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    ones = np.ones(len(columns), dtype=np.int32)
    return sp.csc_array((ones, (rows, columns)), shape=(len(sizes), n_terms))  # sums repetitions
