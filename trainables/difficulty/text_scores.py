"""Difficulty scores by the texts alone (Penha and Hauff 2020, section 3).

Scores by length: longer contexts are harder, because the relevant information can be in more places. Scores by the
spread of the candidates: the population standard deviation of how well each candidate matches the context. sigma_SM
uses word vectors for this, sigma_BM25 the words themselves. Similar candidates count as easy.
"""

import numpy as np
import scipy.sparse as sp

from trainables.data.negatives.bm25 import LAST_QUERY_CHARACTERS, compute_term_weights, get_tokenizer
from trainables.data.negatives.negative_sampler import PoolError
from trainables.difficulty.inputs import DifficultyInputs
from trainables.difficulty.word_vectors import WordVectors, average_rows
from trainables.metrics.ranking import average_precision
from trainables.specs.ranking_task import SamplerSettings
from trainables.text.words import compose_text, split_words
from trainables.utils.arrays import Floats, Ints
from trainables.utils.errors import UserError

MAX_WORDS = 20
"""Number of words that sigma_SM uses: the last ones of a context, the first ones of a response."""


def turns(inputs: DifficultyInputs) -> Floats:
    """Return the number of utterances of each context, of shape (queries,)."""
    return np.array([len(context) for context in inputs.contexts], dtype=np.float64)


def words_context(inputs: DifficultyInputs) -> Floats:
    """Return the mean number of words per utterance of each context, of shape (queries,).

    Words are separated by white space.
    """
    return np.array([sum(len(text.split()) for text in context) / len(context) for context in inputs.contexts])


def words_responses(inputs: DifficultyInputs) -> Floats:
    """Return the mean number of words per candidate of each context, of shape (queries,).

    Words are separated by white space.
    """
    words: Ints = np.array([len(text.split()) for text in inputs.responses])
    return inputs.rows.reduce(lambda own: own.mean(axis=1), words[inputs.candidates])


def sigma_sm(inputs: DifficultyInputs, vectors: WordVectors) -> Floats:
    """Compute sigma_SM: the standard deviation, over the candidates, of the mean cosine between words.

    The mean is over all pairs of one of the context's last 20 words and one of the response's first 20 words. Words
    without a vector are left out. If one side has no word with a vector, the mean is 0.

    Returns:
        Difficulties of shape (queries,).
    """
    split = split_words if inputs.words == "plain" else _split_at_blanks
    contexts = [split(" ".join(context))[-MAX_WORDS:] for context in inputs.contexts]
    responses = [split(text)[:MAX_WORDS] for text in inputs.responses]
    # The mean of u . v over all pairs of unit vectors is (mean of u) . (mean of v).
    means = _compute_mean_directions([*contexts, *responses], vectors)
    left, right = means[: len(contexts)], means[len(contexts) :]
    blocks = _split_rows(inputs)
    cosines = [np.einsum("rd,rd->r", left[inputs.rows.queries[own]], right[inputs.candidates[own]]) for own in blocks]
    return inputs.rows.reduce(_compute_spread, np.concatenate(cosines))


def _compute_spread(values: Floats) -> Floats:
    spread: Floats = np.std(values, axis=1)
    return spread


def _split_rows(inputs: DifficultyInputs) -> list[Ints]:
    """Return the rows of the candidates in blocks of about as many as there are queries, to limit the memory."""
    rows: Ints = np.arange(len(inputs.candidates))
    return np.array_split(rows, max(1, len(rows) // len(inputs.rows)))


def _split_at_blanks(text: str) -> list[str]:
    return compose_text(text).split()


def _compute_mean_directions(texts: list[list[str]], vectors: WordVectors) -> Floats:
    """Return the mean unit vector of each text's words that have one, of shape (texts, dimension).

    It is 0 if no word of the text has a vector.
    """
    numbers = {word: number for number, word in enumerate(dict.fromkeys(word for text in texts for word in text))}
    values, known = vectors(list(numbers))
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    known = known & (lengths[:, 0] > 0)  # a zero vector has no cosine
    directions = values / np.where(lengths > 0, lengths, 1.0)
    return average_rows([[number for word in text if known[number := numbers[word]]] for text in texts], directions)


def sigma_bm25(inputs: DifficultyInputs, settings: SamplerSettings) -> Floats:
    """Compute sigma_BM25: the standard deviation, over the candidates, of BM25(U, r).

    If every candidate has a BM25 score from the task and the words are plain, these scores are used. They are computed
    over the pool of the split. Otherwise, the scores are computed here, with the split's candidates as the collection.

    Args:
        inputs: Texts of a split.
        settings: Settings of BM25. By default, k1 and b are those of rank_bm25, 1.5 and 0.75.

    Returns:
        Difficulties of shape (queries,).

    Raises:
        UserError: If no candidate contains a word.
    """
    return inputs.rows.reduce(_compute_spread, _get_bm25(inputs, settings))


def ap_bm25(inputs: DifficultyInputs, settings: SamplerSettings) -> Floats:
    """Compute 1 minus the average precision of the candidates in the order of BM25(U, r).

    A query is easy if BM25 ranks its relevant documents first (Penha and Hauff 2020, footnote 6). The BM25 scores are
    those of `sigma_bm25`. Ties count at their expectation.

    Returns:
        Difficulties of shape (queries,).

    Raises:
        UserError: If no candidate contains a word.
    """
    return 1.0 - inputs.rows.reduce(average_precision, _get_bm25(inputs, settings), inputs.relevant)


def _get_bm25(inputs: DifficultyInputs, settings: SamplerSettings) -> Floats:
    """Return the BM25 scores of the candidates, of shape (rows,)."""
    has_scores = inputs.words == "plain" and not np.isnan(inputs.bm25).any()
    return inputs.bm25 if has_scores else _compute_bm25(inputs, settings)


def _compute_bm25(inputs: DifficultyInputs, settings: SamplerSettings) -> Floats:
    """Return the BM25 scores of each context's own candidates, of shape (rows,).

    An index would score all documents instead.
    """
    protocol = settings.protocol
    tokenize = get_tokenizer(protocol.words) if inputs.words == "plain" else _split_at_blanks
    try:
        documents, terms = compute_term_weights(map(tokenize, inputs.responses), protocol.k1, protocol.b, protocol.idf)
    except PoolError as error:
        raise UserError("curriculum.score", f"a score by BM25, but {error}", "another score") from error
    numbers = {term: number for number, term in enumerate(terms)}
    whole = inputs.queries if inputs.words == "plain" else map(" ".join, inputs.contexts)  # without separators
    texts = (text[-LAST_QUERY_CHARACTERS:] if protocol.paper_code else text for text in whole)
    query_terms = [[numbers[word] for word in tokenize(text) if word in numbers] for text in texts]
    rows = np.repeat(np.arange(len(query_terms)), [len(row) for row in query_terms])
    columns = np.array([number for row in query_terms for number in row], dtype=np.int64)
    shape = (len(query_terms), len(terms))
    queries = sp.csr_array((np.ones(len(columns)), (rows, columns)), shape=shape)  # sums repetitions
    by_document = documents.tocsr()
    scores = [
        (queries[inputs.rows.queries[own]] * by_document[inputs.candidates[own]]).sum(axis=1)
        for own in _split_rows(inputs)
    ]
    return np.concatenate(scores)
