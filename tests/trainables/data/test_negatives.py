import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from trainables.data.docstrings import read
from trainables.data.negatives import Bm25, sample, tokenise, weak_labels
from trainables.specification import TaskSettings

words = st.lists(st.sampled_from("abcdefgh"), max_size=12)
corpora = st.lists(words, min_size=1, max_size=15).filter(any)


@settings(max_examples=200, deadline=None)
@given(corpora, words, st.floats(0.1, 3), st.floats(0, 1))
def test_scores_are_those_of_rank_bm25(corpus: list[list[str]], query: list[str], k1: float, b: float) -> None:
    with np.errstate(invalid="ignore"):  # at b = 1 rank_bm25 divides 0 by 0 for an empty document; ours scores it 0
        expected = np.nan_to_num(BM25Okapi(corpus, k1=k1, b=b).get_scores(query), nan=0.0)
    np.testing.assert_allclose(Bm25(corpus, k1, b).scores(query), expected, rtol=0, atol=1e-9)


def test_scores_and_top_ten_of_real_docstrings_are_those_of_rank_bm25() -> None:
    pytest.importorskip("networkx")
    collection = read(TaskSettings(libraries=("networkx",), document_words=40))
    corpus = [tokenise(text) for text in collection.documents.values()]
    ours, oracle = Bm25(corpus), BM25Okapi(corpus)
    for text in list(collection.queries.values())[:200]:
        scores, expected = ours.scores(tokenise(text)), oracle.get_scores(tokenise(text))
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)
        assert np.argsort(-scores, kind="stable")[:10].tolist() == np.argsort(-expected, kind="stable")[:10].tolist()


def test_an_index_without_words_is_refused() -> None:
    with pytest.raises(ValueError, match="no document holds a word"):
        Bm25([[], []])


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]), min_size=5, max_size=30), st.data())
def test_sampled_are_the_best_that_are_not_excluded(values: list[float], data: st.DataObject) -> None:
    scores = np.array(values)
    excluded = np.zeros(len(scores), dtype=bool)
    excluded[data.draw(st.integers(0, len(scores) - 1))] = True
    n = data.draw(st.integers(1, len(scores) - 1))
    ids = [f"d{i}" for i in range(len(scores))]
    negatives = sample("q", scores, excluded, ids, n)

    best = sorted((i for i in range(len(scores)) if not excluded[i] and scores[i] > 0), key=lambda i: -scores[i])[:n]
    assert negatives.positions[: negatives.found].tolist() == best
    assert len(set(negatives.positions.tolist())) == n
    assert not excluded[negatives.positions].any()
    assert (np.diff(negatives.scores[: negatives.found]) <= 0).all()
    assert (negatives.weak_labels[negatives.found :] == 0).all()
    assert (negatives.scores[negatives.found :] <= 0).all()
    assert (negatives.weak_labels[: negatives.found] >= 0.01).all()


def test_back_filling_follows_from_the_ids_alone() -> None:
    ids = [f"d{i}" for i in range(50)]
    excluded = np.zeros(50, dtype=bool)
    first = sample("q", np.zeros(50), excluded, ids, 5)
    backwards = sample("q", np.zeros(50), excluded, ids[::-1], 5)
    assert [ids[i] for i in first.positions] == [ids[::-1][i] for i in backwards.positions]
    assert first.positions.tolist() != sample("other", np.zeros(50), excluded, ids, 5).positions.tolist()
    assert first.positions.tolist() != sorted(first.positions.tolist())


def test_too_few_documents_are_refused() -> None:
    with pytest.raises(ValueError, match="1 documents are left for 2 negatives"):
        sample("q", np.ones(2), np.array([True, False]), ["a", "b"], 2)


def test_weak_labels_are_the_scores_min_max() -> None:
    np.testing.assert_allclose(weak_labels(np.array([5.0, 4.0, 1.0])), [0.99, 0.01 + 0.98 * 0.75, 0.01])
    assert weak_labels(np.array([3.0])).tolist() == [0.01]
    assert weak_labels(np.array([3.0, 3.0])).tolist() == [0.01, 0.01]
    assert weak_labels(np.array([])).tolist() == []


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=9), st.sampled_from([0.5, 2.0, 8.0]), st.integers(0, 10))
def test_weak_labels_do_not_depend_on_scale_or_shift(values: list[int], scale: float, shift: int) -> None:
    scores = np.array(values, dtype=float)
    labels = weak_labels(scores)
    np.testing.assert_allclose(weak_labels(scale * scores + shift), labels, atol=1e-12)
    assert labels.min() == 0.01
    assert labels.max() <= 0.99
