"""Difficulty scores by name. Penha and Hauff (2020), section 3.

The difficulty of a query is a float; low is easy.
"""

from typing import Literal, NamedTuple

DifficultyScoreName = Literal[
    "random", "turns", "words_context", "words_responses", "sigma_SM", "sigma_BM25", "BERT_pred", "BERT_loss"
]


class DifficultyScore(NamedTuple):
    """A difficulty score: its input and its definition."""

    needs: Literal["nothing", "text", "vectors", "scorer"]
    """Input of the score.

    nothing: the order is drawn. text: the texts. vectors: the texts and word vectors. scorer: the logits of a trained
    model.
    """
    definition: str
    """Definition in one line."""


DIFFICULTY_SCORES: dict[DifficultyScoreName, DifficultyScore] = {
    "random": DifficultyScore("nothing", "no difficulty: the order is shuffled"),
    "turns": DifficultyScore("text", "number of utterances in the context"),
    "words_context": DifficultyScore("text", "mean number of words per utterance of the context"),
    "words_responses": DifficultyScore("text", "mean number of words per candidate"),
    "sigma_SM": DifficultyScore(
        "vectors", "std over the candidates of the mean cosine of their words and the context words"
    ),
    "sigma_BM25": DifficultyScore("text", "std over the candidates of their BM25 score"),
    "BERT_pred": DifficultyScore(
        "scorer", "mean probability of the others minus that of the relevant, by a trained model"
    ),
    "BERT_loss": DifficultyScore(
        "scorer", "cross-entropy of a trained model, half of the relevant, half of the others"
    ),
}
"""Difficulty scores by name."""
