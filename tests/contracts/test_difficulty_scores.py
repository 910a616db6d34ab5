"""Laws of every difficulty score, through the functions that others call."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.trainables.difficulty.small import vectors_of
from trainables.curriculum.difficulty_scores import DIFFICULTY_SCORES
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.tasks import get_task
from trainables.difficulty.cache import compute_text_difficulties

ROOT = Path(__file__).parents[2]
VECTORS = vectors_of({"the": [1.0, 0.0], "a": [1.0, 1.0], "size": [0.0, 1.0], "graph": [-1.0, 0.3], "see": [0.3, -1]})
TEXTS = [name for name, score in DIFFICULTY_SCORES.items() if score.needs in ("text", "bm25", "vectors")]


def check(table: pd.DataFrame, prepared: RankingDataset, varies: bool = True) -> None:
    assert list(table) == ["split", "query_id", "difficulty"]
    assert table["difficulty"].dtype == np.float64
    assert np.isfinite(table["difficulty"]).all()
    expected = prepared.read_candidates()[["split", "query_id"]].drop_duplicates(ignore_index=True)
    pd.testing.assert_frame_equal(table[["split", "query_id"]], expected)
    if varies and get_task(prepared.settings.name).is_dialogue:  # docstrings of the tiny library are all alike
        assert (table.groupby("split")["difficulty"].nunique() > 1).all()


def test_the_scores_are_those_of_the_paper() -> None:
    paper = "random turns words_context words_responses sigma_SM sigma_BM25 AP_BM25 BERT_pred BERT_loss"
    assert list(DIFFICULTY_SCORES) == paper.split()


@pytest.mark.parametrize("score", TEXTS)
def test_every_query_has_a_difficulty_by_its_texts(
    score: str, dialogues: RankingDataset, docstrings: RankingDataset
) -> None:
    for prepared in [dialogues, docstrings] if score != "turns" else [dialogues]:
        table = compute_text_difficulties(score, prepared, VECTORS)
        check(table, prepared, varies=score != "AP_BM25")  # BM25 ranks all relevant responses of this task first
        np.testing.assert_array_equal(table["difficulty"], np.round(table["difficulty"], 9))
        pd.testing.assert_frame_equal(compute_text_difficulties(score, prepared, VECTORS), table)


def test_turns_are_the_utterances_of_the_lines(dialogues: RankingDataset) -> None:
    table = compute_text_difficulties("turns", dialogues).set_index("query_id")["difficulty"]
    texts = dialogues.read_queries().set_index("query_id")["text"]
    assert table.to_dict() == {name: text.count("_SEP]") for name, text in texts.items()}
    assert set(table) == {1.0, 2.0, 3.0}


def test_lengths_do_not_count_separators_as_words(dialogues: RankingDataset) -> None:
    table = compute_text_difficulties("words_context", dialogues).set_index("query_id")["difficulty"]
    text = dialogues.read_queries().set_index("query_id")["text"]
    for name, value in table.items():
        plain = [word for word in text[name].split() if "_SEP]" not in word]
        assert value == pytest.approx(len(plain) / text[name].count("_SEP]"), abs=1e-9)
