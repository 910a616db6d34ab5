"""Computes the difficulty of every query of a task from its texts.

An instance is a query (a context of utterances U) with its candidates R: Penha and Hauff (2020), section 3.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from trainables.curriculum.scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import SPLITS, get_task
from trainables.difficulty.inputs import DifficultyInputs, build_difficulty_inputs
from trainables.difficulty.text_scores import sigma_bm25, sigma_sm, turns, words_context, words_responses
from trainables.difficulty.word_vectors import WordVectors
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

DECIMALS = 9
_LENGTH_SCORES: dict[str, Callable[[DifficultyInputs], Floats]] = {
    "turns": turns,
    "words_context": words_context,
    "words_responses": words_responses,
}


def compute_text_difficulties(
    score: DifficultyScoreName, prepared: RankingDataset, vectors: WordVectors | None = None
) -> pd.DataFrame:
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
    if score == "turns" and not get_task(prepared.settings.name).is_dialogue:
        raise UserError("curriculum.score", "turns", f"another score: the task {prepared.settings.name} is no dialogue")
    parts = []
    for split in SPLITS:
        inputs = build_difficulty_inputs(prepared, split)
        if score in _LENGTH_SCORES:
            values = _LENGTH_SCORES[score](inputs)
        elif score == "sigma_BM25":
            values = sigma_bm25(inputs, prepared.settings.get_sampler_settings(split))
        elif score == "sigma_SM" and vectors is not None:
            values = sigma_sm(inputs, vectors)
        else:
            raise ValueError(f"{score!r} needs {DIFFICULTY_SCORES[score].needs}")
        parts.append(build_difficulty_table(split, inputs.query_ids, np.round(values, DECIMALS)))
    return pd.concat(parts, ignore_index=True)


def build_difficulty_table(split: str, query_ids: Sequence[str], values: Floats) -> pd.DataFrame:
    """split, query_id, difficulty: a row a query."""
    return pd.DataFrame({"split": split, "query_id": query_ids, "difficulty": values})
