"""How difficult a query is, by every score of Penha and Hauff (2020), "Curriculum Learning Strategies for IR".

An instance is a query (a context of utterances U) with its candidates R. A difficulty is a float, low = easy. Loads
neither numpy nor pandas nor torch before a difficulty is computed.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

    from trainables.data.prepared import Prepared
    from trainables.difficulty.vectors import WordVectors


ScoreName = Literal[
    "random", "turns", "words_context", "words_responses", "sigma_SM", "sigma_BM25", "BERT_pred", "BERT_loss"
]


class Score(NamedTuple):
    """A score of difficulty."""

    needs: Literal["nothing", "text", "vectors", "scorer"]
    """What it is computed from: nothing at all, since the order is drawn; the texts; besides them, word vectors; the
    logits of a trained model."""
    definition: str
    """In a line."""


SCORES: dict[ScoreName, Score] = {
    "random": Score("nothing", "no difficulty: the order is shuffled"),
    "turns": Score("text", "utterances of the context"),
    "words_context": Score("text", "mean words an utterance of the context"),
    "words_responses": Score("text", "mean words a candidate"),
    "sigma_SM": Score("vectors", "std over the candidates of the mean cosine of their words with the context's"),
    "sigma_BM25": Score("text", "std over the candidates of their BM25 score"),
    "BERT_pred": Score("scorer", "minus how much more probable a trained model finds the relevant than the others"),
    "BERT_loss": Score("scorer", "cross-entropy of a trained model, half on the relevant, half on the others"),
}
"""Name -> score."""


def of_text(score: ScoreName, prepared: "Prepared", vectors: "WordVectors | None" = None) -> "pd.DataFrame":
    """The difficulty of every query by its texts, rounded to 9 decimals, so that no order hangs on a processor's last
    bits.

    Args:
        score: a name of SCORES that needs "text" or "vectors".
        prepared: the task.
        vectors: of words, where the score needs them.

    Returns:
        split, query_id, difficulty; a row a query of `prepared.candidates()`, in its order.

    Raises:
        UserError: turns of a task that is no dialogue; sigma_BM25 of candidates without a word; vectors that are not
            finite.
        ValueError: the score is not one of texts, or its vectors are missing.
    """
    from trainables.difficulty import tables

    return tables.of_text(score, prepared, vectors)
