"""The definition of the scores is rank_bm25, or Lucene's."""

import math
import tracemalloc
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from tests.trainables.data.protocols import use_protocol
from trainables.data.negatives.bm25 import Bm25Sampler, compute_term_weights, tokenize_stemmed
from trainables.data.negatives.negative_sampler import PoolError, Query
from trainables.data.tasks.docstrings import read_dataset
from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings
from trainables.text.words import find_words

words = st.lists(st.sampled_from("abcdefgh"), max_size=12)
corpora = st.lists(words, min_size=1, max_size=15).filter(any)
NOTHING = np.array([], dtype=np.int64)


def index(folder: Path, texts: list[str], **changes: object) -> Bm25Sampler:
    (folder / "00000").mkdir(parents=True, exist_ok=True)
    with use_protocol(**changes):
        Bm25Sampler.build(folder / "00000", texts, SamplerSettings())
        return Bm25Sampler(folder, SamplerSettings(), len(texts))


@given(corpora, words, st.floats(0.1, 3), st.floats(0, 1))
def test_scores_are_those_of_rank_bm25(
    tmp_path: Path, corpus: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    """Terms in every document, empty and equal documents, and a single document are among the examples."""
    with np.errstate(invalid="ignore"):  # at b = 1 rank_bm25 divides 0 by 0 for an empty document; ours scores it 0
        expected = np.nan_to_num(BM25Okapi(corpus, k1=k1, b=b).get_scores(query), nan=0.0)
    found = index(tmp_path, [" ".join(document) for document in corpus], k1=k1, b=b).score_text(" ".join(query))
    np.testing.assert_array_equal(found, expected)


def lucene_by_loops(corpus: list[list[str]], query: list[str], k1: float, b: float) -> list[float]:
    """Lucene's BM25Similarity without its rounding of the lengths."""
    mean = sum(map(len, corpus)) / len(corpus)
    scores = []
    for document in corpus:
        score = 0.0
        for word in query:
            n, count = sum(word in other for other in corpus), document.count(word)
            idf = math.log(1 + (len(corpus) - n + 0.5) / (n + 0.5))
            score += idf * count / (count + k1 * (1 - b + b * len(document) / mean)) if count else 0.0
        scores.append(score)
    return scores


@given(corpora, words, st.floats(0.1, 3), st.floats(0, 1))
def test_scores_with_the_idf_of_lucene_are_those_of_plain_loops(
    tmp_path: Path, corpus: list[list[str]], query: list[str], k1: float, b: float
) -> None:
    """A term in every document has a positive weight."""
    texts = [" ".join(document) for document in corpus]
    found = index(tmp_path, texts, k1=k1, b=b, idf="lucene").score_text(" ".join(query))
    assert found.tolist() == pytest.approx(lucene_by_loops(corpus, query, k1, b), rel=1e-12)
    assert ((found > 0) == [bool(set(document) & set(query)) for document in corpus]).all()


def test_the_preset_of_the_paper_is_its_code() -> None:
    expected = (0.9, 0.4, "lucene", "stemmed", True, True, "min-max")
    assert SamplerSettings(preset="wsls-paper").protocol == expected


def test_scores_and_top_ten_of_real_docstrings_are_those_of_rank_bm25(tmp_path: Path) -> None:
    pytest.importorskip("networkx")
    collection = read_dataset(RankerTaskSettings(libraries=("networkx",), document_words=40))
    texts = list(collection.documents.values())
    ours, oracle = index(tmp_path, texts), BM25Okapi([find_words(text) for text in texts])
    for text in list(collection.queries.values())[:50]:
        scores, expected = ours.score_text(text), oracle.get_scores(find_words(text))
        np.testing.assert_array_equal(scores, expected)
        assert np.argsort(-scores, kind="stable")[:10].tolist() == np.argsort(-expected, kind="stable")[:10].tolist()


CONSONANTS = {"Hindi": "कखगघचछजझटठडढतथदधनपफब", "Tamil": "கசடதபறயரலவழளணநமனங" + "ஞஜஷ", "Arabic": "بتثجحخدذرزسشصضطظعغفق"}
VOWELS = {"Hindi": "ि", "Tamil": "ு", "Arabic": "ُ"}


@pytest.mark.parametrize(
    "texts",
    [
        *([f"{first}{VOWELS[name]}{first}" for first in letters] for name, letters in CONSONANTS.items()),
        [f"caf{letter}" for letter in "áàâäéèêëíìîïóòôöúùûü"],
    ],
    ids=[*CONSONANTS, "Latin"],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_word_with_marks_is_found_as_a_whole_in_either_form(tmp_path: Path, texts: list[str], form: str) -> None:
    """Each of twenty documents finds itself alone, with any form of Unicode in the query."""
    made = index(tmp_path, [f"{text} {text}" for text in texts])
    for number, text in enumerate(texts):
        assert made.score_text(unicodedata.normalize(form, text)).nonzero()[0].tolist() == [number]


def test_the_authors_read_the_last_512_characters_of_a_query(tmp_path: Path) -> None:
    query = Query("q", "alpha " + "x" * 520 + " beta", NOTHING, np.array([]))
    texts = ["alpha", "beta", "gamma", "delta"]
    both, last = (index(tmp_path / str(authors), texts, paper_code=authors) for authors in (False, True))
    assert next(both.score_pool([query])).raw.nonzero()[0].tolist() == [0, 1]
    assert next(last.score_pool([query])).raw.nonzero()[0].tolist() == [1]


def test_stemmed_words_are_porters_without_stop_words() -> None:
    assert tokenize_stemmed("The ponies are running to Libraries") == ["poni", "run", "librari"]
    assert tokenize_stemmed("generously skies") == ["gener", "ski"]  # Snowball's "english" makes generous and sky of it
    assert find_words("The ponies") == ["the", "ponies"]


@pytest.mark.parametrize(
    ("text", "stems"),
    [
        ("us ox Is", ["us", "ox"]),  # Lucene stems longer words only
        ("gas", ["ga"]),
        ("technology technological", ["technolog", "technolog"]),
        ("biology logi", ["biologi", "logi"]),  # no vowel and then a consonant before the suffix
        ("possibly sensibly probably doubly", ["possibl", "sensibl", "probabl", "doubli"]),
    ],
)
def test_stems_are_those_of_the_stemmer_of_lucene(text: str, stems: list[str]) -> None:
    """Porter's own program, which Lucene copied, and the mode MARTIN_EXTENSIONS of nltk."""
    assert tokenize_stemmed(text) == stems


def test_an_index_without_words_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PoolError, match="no document contains a word"):
        index(tmp_path, ["", "--"])


@pytest.mark.parametrize(("idf", "at_once"), [("okapi", 1), ("lucene", 7), ("okapi", 100)])
def test_the_index_is_the_same_however_many_weights_are_computed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idf: str, at_once: int
) -> None:
    texts = [text for _, text in zip(range(40), _draw_texts(), strict=False)]
    whole = index(tmp_path / "whole", texts, idf=idf)
    monkeypatch.setattr("trainables.data.negatives.bm25._WEIGHTS_AT_ONCE", at_once)
    parts = index(tmp_path / "parts", texts, idf=idf)
    for name in ("vocabulary.txt", "starts.npy", "documents.npy", "weights.npy"):
        assert (tmp_path / "parts/00000" / name).read_bytes() == (tmp_path / "whole/00000" / name).read_bytes()
    np.testing.assert_array_equal(parts.score_text(texts[0]), whole.score_text(texts[0]))


def test_the_memory_of_indexing_is_that_of_its_result_and_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is bounded by the words, at 4 bytes an array: words, rows, ones, indices, counts, and weights of 8."""
    monkeypatch.setattr("trainables.data.negatives.bm25._WEIGHTS_AT_ONCE", 1000)
    documents = [find_words(text) for _, text in zip(range(2000), _draw_texts(), strict=False)]
    n_words = sum(map(len, documents))
    tracemalloc.start()
    try:
        matrix, _ = compute_term_weights(documents, 1.5, 0.75)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert matrix.nnz > 0.5 * n_words
    assert peak < 30 * n_words


def _draw_texts() -> Iterator[str]:
    """Yield texts of 100 words by Zipf's law."""
    draws = np.random.default_rng(0)
    while True:
        yield " ".join(f"w{number}" for number in draws.zipf(1.2, 100) % 5000)
