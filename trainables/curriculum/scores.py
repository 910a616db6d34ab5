"""The scores of difficulty by name. Penha and Hauff (2020), section 3. A difficulty is a float, low = easy."""

from typing import Literal, NamedTuple

DifficultyScoreName = Literal[
    "random", "turns", "words_context", "words_responses", "sigma_SM", "sigma_BM25", "BERT_pred", "BERT_loss"
]


class DifficultyScore(NamedTuple):
    """A score of difficulty."""

    needs: Literal["nothing", "text", "vectors", "scorer"]
    """What it is computed from: nothing at all, since the order is drawn; the texts; besides them, word vectors; the
    logits of a trained model."""
    definition: str
    """In a line."""


DIFFICULTY_SCORES: dict[DifficultyScoreName, DifficultyScore] = {
    "random": DifficultyScore("nothing", "no difficulty: the order is shuffled"),
    "turns": DifficultyScore("text", "utterances of the context"),
    "words_context": DifficultyScore("text", "mean words an utterance of the context"),
    "words_responses": DifficultyScore("text", "mean words a candidate"),
    "sigma_SM": DifficultyScore(
        "vectors", "std over the candidates of the mean cosine of their words with the context's"
    ),
    "sigma_BM25": DifficultyScore("text", "std over the candidates of their BM25 score"),
    "BERT_pred": DifficultyScore(
        "scorer", "minus how much more probable a trained model finds the relevant than the others"
    ),
    "BERT_loss": DifficultyScore(
        "scorer", "cross-entropy of a trained model, half on the relevant, half on the others"
    ),
}
"""Name -> score."""
