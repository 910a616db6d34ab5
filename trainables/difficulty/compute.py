"""Computes the difficulty of every query of a task from its texts.

As in Penha and Hauff (2020), section 3, the difficulty is that of a query (a context of utterances U) with its
candidates R.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from trainables.curriculum.curriculum_settings import DifficultyWords
from trainables.curriculum.scores import DIFFICULTY_SCORES, DifficultyScoreName
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import SPLITS, get_task
from trainables.difficulty.inputs import build_difficulty_inputs
from trainables.difficulty.word_vectors import WordVectors
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

DECIMALS = 9
"""Number of decimals that difficulties are rounded to."""


def compute_text_difficulties(
    score: DifficultyScoreName,
    prepared: RankingDataset,
    vectors: WordVectors | None = None,
    words: DifficultyWords = "plain",
) -> pd.DataFrame:
    """Compute the difficulty of every query from its texts.

    Queries whose candidates a first stage retrieved have none, since these may lack the relevant document. The values
    are rounded to 9 decimals, so that the order of the queries does not depend on the processor.

    Args:
        score: Name of a score in `DIFFICULTY_SCORES` that needs "text", "bm25" or "vectors".
        prepared: Prepared data of the task.
        vectors: Word vectors, if the score needs them.
        words: Words of a text, see `CurriculumSettings.words`.

    Returns:
        Table with columns split, query_id and difficulty: one row per query, in the order of
        `prepared.read_candidates()`.

    Raises:
        UserError: If the score is turns and the task has no dialogues, if it needs BM25 and no candidate contains a
            word, or if word vectors are not finite.
        ValueError: If the score is not computed from texts, or if its word vectors are missing.
    """
    if score == "turns" and not get_task(prepared.settings.name).is_dialogue:
        raise UserError(
            "curriculum.score", "turns", f"another score: the task {prepared.settings.name} has no dialogues"
        )
    needs = DIFFICULTY_SCORES[score].needs
    if needs in ("nothing", "scorer") or (needs == "vectors" and vectors is None):
        raise ValueError(f"{score!r} needs {needs}")
    parts = []
    for split in (name for name in SPLITS if not prepared.settings.is_retrieved(name)):
        inputs = build_difficulty_inputs(prepared, split, words)
        further = {"bm25": prepared.settings.get_sampler_settings(split), "vectors": vectors}
        values = DIFFICULTY_SCORES[score].compute(inputs, *([further[needs]] if needs in further else []))
        parts.append(build_difficulty_table(split, inputs.query_ids, np.round(values, DECIMALS)))
    return pd.concat(parts, ignore_index=True)


def build_difficulty_table(split: str, query_ids: Sequence[str], values: Floats) -> pd.DataFrame:
    """Return a table with columns split, query_id and difficulty, with one row per query.

    Args:
        split: Name of the split.
        query_ids: Ids of the queries.
        values: Difficulties of shape (queries,).

    Example:
        >>> build_difficulty_table("train", ["q1", "q2"], np.array([0.5, 1.0])).to_dict("list")
        {'split': ['train', 'train'], 'query_id': ['q1', 'q2'], 'difficulty': [0.5, 1.0]}
    """
    return pd.DataFrame({"split": split, "query_id": query_ids, "difficulty": values})
