"""Difficulty by the texts alone: Penha and Hauff (2020), section 3.

By length: longer contexts are harder, since the relevant information can be in more places. By the spread of the
candidates: the population standard deviation of how well each one matches the context, in sigma_SM by word vectors and
in sigma_BM25 by the words themselves; similar candidates are easy.
"""

import re

import numpy as np
import scipy.sparse as sp

from trainables.data.negatives.base import PoolError
from trainables.data.negatives.bm25 import LAST_QUERY_CHARACTERS, compute_term_weights, get_tokenizer
from trainables.difficulty.inputs import DifficultyInputs
from trainables.difficulty.word_vectors import WordVectors, average_rows
from trainables.specs.ranker import SamplerSettings
from trainables.utils.arrays import Floats, Ints
from trainables.utils.errors import UserError

MAX_WORDS = 20
"""Of a context the last, of a response the first."""
_WORD = re.compile(r"\w(?:\S*\w)?")


def turns(inputs: DifficultyInputs) -> Floats:
    """(queries,) utterances of the context."""
    return np.array([len(context) for context in inputs.contexts], dtype=np.float64)


def words_context(inputs: DifficultyInputs) -> Floats:
    """(queries,) mean words, parted by white space, an utterance of the context."""
    return np.array([sum(len(text.split()) for text in context) / len(context) for context in inputs.contexts])


def words_responses(inputs: DifficultyInputs) -> Floats:
    """(queries,) mean words, parted by white space, a candidate."""
    words: Ints = np.array([len(text.split()) for text in inputs.responses])
    means: Floats = words[inputs.candidates].mean(axis=1)
    return means


def split_words(text: str) -> list[str]:
    """What white space parts, without the punctuation around it; punctuation alone is no word."""
    return _WORD.findall(text)


def sigma_sm(inputs: DifficultyInputs, vectors: WordVectors) -> Floats:
    """(queries,) std over the candidates of the mean cosine of two words, one of the context's last 20 and one of the
    response's first 20.

    Words without a vector are left out; where a side has none at all, the mean is 0.
    """
    contexts = [split_words(" ".join(context))[-MAX_WORDS:] for context in inputs.contexts]
    responses = [split_words(text)[:MAX_WORDS] for text in inputs.responses]
    # The mean of u . v over all pairs of unit vectors is (mean of u) . (mean of v).
    means = _compute_mean_directions([*contexts, *responses], vectors)
    left, right = means[: len(contexts)], means[len(contexts) :]
    cosines = [np.einsum("qd,qd->q", left, right[column]) for column in inputs.candidates.T]
    sigma: Floats = np.std(cosines, axis=0)
    return sigma


def _compute_mean_directions(texts: list[list[str]], vectors: WordVectors) -> Floats:
    """(texts, dimension) the mean unit vector of the words of each that have one; of none, 0."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(word for text in texts for word in text))}
    values, known = vectors(list(numbers))
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    known = known & (lengths[:, 0] > 0)  # what points nowhere has no cosine
    directions = values / np.where(lengths > 0, lengths, 1.0)
    return average_rows([[number for word in text if known[number := numbers[word]]] for text in texts], directions)


def sigma_bm25(inputs: DifficultyInputs, settings: SamplerSettings) -> Floats:
    """(queries,) std over the candidates of BM25(U, r).

    The task's own scores, over the pool of the split, are taken where every candidate has one. Where not, the documents
    are the split's candidates.

    Args:
        instances: of a split.
        settings: BM25's; by default k1 and b are those of rank_bm25, 1.5 and 0.75.

    Raises:
        UserError: no candidate holds a word.
    """
    scores = inputs.bm25
    sigma: Floats = np.std(_compute_bm25(inputs, settings) if np.isnan(scores).any() else scores, axis=1)
    return sigma


def _compute_bm25(inputs: DifficultyInputs, settings: SamplerSettings) -> Floats:
    """(queries, candidates) the scores of a context's own candidates alone, which an index would give of all."""
    tokenize = get_tokenizer(settings.words)
    try:
        documents, terms = compute_term_weights(map(tokenize, inputs.responses), settings.k1, settings.b)
    except PoolError as error:
        raise UserError("curriculum.score", f"sigma_BM25 where {error}", "another score") from error
    numbers = {term: number for number, term in enumerate(terms)}
    texts = (text[-LAST_QUERY_CHARACTERS:] if settings.authors else text for text in inputs.queries)
    query_terms = [[numbers[word] for word in tokenize(text) if word in numbers] for text in texts]
    rows = np.repeat(np.arange(len(query_terms)), [len(own) for own in query_terms])
    columns = np.array([number for own in query_terms for number in own], dtype=np.int64)
    shape = (len(query_terms), len(terms))
    queries = sp.csr_array((np.ones(len(columns)), (rows, columns)), shape=shape)  # sums the repetitions
    by_document = documents.tocsr()
    return np.stack([(queries * by_document[own]).sum(axis=1) for own in inputs.candidates.T], axis=1)
