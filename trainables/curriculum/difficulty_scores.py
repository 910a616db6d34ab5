"""Difficulty scores by name. Penha and Hauff (2020), section 3.

The difficulty of a query is a float; low is easy.
"""

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator

from trainables.utils.registry import Entry, Registry, load_object


class DifficultyScore(NamedTuple):
    """A difficulty score: its input and its function."""

    needs: Literal["nothing", "text", "bm25", "vectors", "scorer"]
    """Input of the score.

    nothing: the order is drawn. text: the texts. bm25: the texts and the settings of BM25. vectors: the texts and word
    vectors. scorer: the logits and labels of a trained model.
    """
    function: str
    """Function of the input, as "module:attribute". Empty if the score needs nothing."""

    def compute(self, *inputs: Any) -> Any:
        """Return the difficulties, of shape (queries,)."""
        return load_object(self.function)(*inputs)


_TEXT_SCORES, _MODEL_SCORES = "trainables.difficulty.text_scores", "trainables.difficulty.model_scores"
_PENHA = "Penha and Hauff (2020), section 3"
DIFFICULTY_SCORES: Registry[DifficultyScore] = Registry(
    Entry("random", DifficultyScore("nothing", ""), "no difficulty: the order is shuffled", _PENHA),
    Entry("turns", DifficultyScore("text", f"{_TEXT_SCORES}:turns"), "number of utterances in the context", _PENHA),
    Entry(
        "words_context",
        DifficultyScore("text", f"{_TEXT_SCORES}:words_context"),
        "mean number of words per utterance of the context",
        _PENHA,
    ),
    Entry(
        "words_responses",
        DifficultyScore("text", f"{_TEXT_SCORES}:words_responses"),
        "mean number of words per candidate",
        _PENHA,
    ),
    Entry(
        "sigma_SM",
        DifficultyScore("vectors", f"{_TEXT_SCORES}:sigma_sm"),
        "std over the candidates of the mean cosine of their words and the context words",
        _PENHA,
        ("vectors",),
    ),
    Entry(
        "sigma_BM25",
        DifficultyScore("bm25", f"{_TEXT_SCORES}:sigma_bm25"),
        "std over the candidates of their BM25 score",
        _PENHA,
    ),
    Entry(
        "AP_BM25",
        DifficultyScore("bm25", f"{_TEXT_SCORES}:ap_bm25"),
        "1 minus the average precision of the candidates in the order of BM25",
        "Penha and Hauff (2020), footnote 6",
    ),
    Entry(
        "BERT_pred",
        DifficultyScore("scorer", f"{_MODEL_SCORES}:bert_pred"),
        "mean probability of the others minus that of the relevant, by a trained model",
        _PENHA,
        ("scorer_epochs",),
    ),
    Entry(
        "BERT_loss",
        DifficultyScore("scorer", f"{_MODEL_SCORES}:bert_loss"),
        "cross-entropy of a trained model, half of the relevant, half of the others",
        _PENHA,
        ("scorer_epochs",),
    ),
    kind=DifficultyScore,
)
"""Difficulty scores by name."""
DifficultyScoreName = Annotated[str, BeforeValidator(DIFFICULTY_SCORES.check_name)]
