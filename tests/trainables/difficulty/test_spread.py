"""The definitions, as plain loops; BM25 is rank_bm25's."""

import math
import statistics
import string
from operator import mul

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from tests.trainables.data.protocols import use_protocol
from tests.trainables.difficulty.small import vectors_of, written
from trainables.data.ranking_dataset import RankingDataset
from trainables.difficulty.inputs import build_difficulty_inputs
from trainables.difficulty.text_scores import ap_bm25, sigma_bm25, sigma_sm
from trainables.specs.ranking_task import SamplerSettings
from trainables.text.words import find_words, split_words
from trainables.utils.errors import UserError

TABLE = {"a": [1.0, 0.0, 0.0], "b": [0.5, -2.0, 0.0], "c": [0.0, 1.0, 3.0], "d": [-1.0, 0.2, 0.1], "o": [0.0, 0.0, 0.0]}
text = st.lists(st.sampled_from(["a", "b", "c", "d", "o", "zz", "a,", "--"]), max_size=30).map(" ".join)
BM25 = SamplerSettings()


def spread_by_loops(context: list[str], candidates: list[str]) -> float:
    def known(text: str, part: slice) -> list[list[float]]:
        found = [word.strip(string.punctuation) for word in text.split() if word.strip(string.punctuation)]
        return [TABLE[word] for word in found[part] if any(TABLE.get(word, [0.0]))]

    left, means = known(" ".join(context), slice(-20, None)), []
    for candidate in candidates:
        right = known(candidate, slice(20))
        pairs = [math.fsum(map(mul, u, v)) / math.hypot(*u) / math.hypot(*v) for u in left for v in right] or [0.0]
        means.append(sum(pairs) / len(pairs))
    return statistics.pstdev(means)


@given(st.lists(st.tuples(st.lists(text, min_size=1, max_size=3), st.lists(text, min_size=3, max_size=3)), max_size=4))
def test_sigma_sm_is_that_of_plain_loops(drawn: list[tuple[list[str], list[str]]]) -> None:
    drawn = [(["a b"], ["c", "a a", "d"]), *drawn]
    found = sigma_sm(written([one[0] for one in drawn], [one[1] for one in drawn]), vectors_of(TABLE))
    assert found.tolist() == pytest.approx([spread_by_loops(*one) for one in drawn], abs=1e-12)


def test_the_last_20_words_of_a_context_and_the_first_20_of_a_response_count() -> None:
    table = {"x": [1.0, 0.0], "y": [0.0, 1.0]}
    other = "- ".join(["y"] * 20)
    instances = written([["x x", other], [f"{other} x"]], [["x", "y"], [f"x {other}", f"{other} x"]])
    # cosines 0 and 1; of 19 y and one x with 19 y and one x, and with 20 y
    expected = [0.5, ((19 * 19 + 1) / 400 - 19 / 20) / -2]
    assert sigma_sm(instances, vectors_of(table)).tolist() == pytest.approx(expected)


def test_words_are_without_the_punctuation_around_them() -> None:
    assert split_words('"Don\'t", he said -- (see /etc/fstab)... ?') == ["Don't", "he", "said", "see", "etc/fstab"]


@pytest.mark.parametrize("given", [BM25, SamplerSettings(name="random")])
def test_sigma_bm25_is_that_of_rank_bm25_over_the_candidates(dialogues: RankingDataset, given: SamplerSettings) -> None:
    found = build_difficulty_inputs(dialogues, "train")
    assert np.isnan(found.bm25).all()
    oracle = BM25Okapi([find_words(text) for text in found.responses], k1=given.protocol.k1, b=given.protocol.b)
    scores = [
        oracle.get_scores(find_words(text))[own]
        for text, own in zip(found.queries, found.candidates.reshape(len(found.queries), -1), strict=True)
    ]
    expected = [statistics.pstdev(own) for own in scores]
    assert max(expected) > 1
    assert sigma_bm25(found, given).tolist() == pytest.approx(expected, rel=1e-12)


@given(st.lists(st.tuples(text, st.lists(text, min_size=3, max_size=3)), max_size=4))
def test_sigma_bm25_of_repeated_and_unknown_words_is_that_of_rank_bm25(drawn: list[tuple[str, list[str]]]) -> None:
    drawn = [("a zz zz b", ["a", "c", "zz a zz"]), *drawn]
    found = written([[one[0]] for one in drawn], [one[1] for one in drawn])
    oracle = BM25Okapi([find_words(text) for text in found.responses])
    scores = [
        oracle.get_scores(find_words(text))[own]
        for text, own in zip(found.queries, found.candidates.reshape(len(found.queries), -1), strict=True)
    ]
    assert sigma_bm25(found, BM25).tolist() == pytest.approx([statistics.pstdev(own) for own in scores], abs=1e-12)


def test_sigma_bm25_has_the_tasks_words_and_reads_what_its_sampler_reads_of_a_query() -> None:
    found = written([["other mounted " + "x" * 520 + " disk"]], [["mount", "disk", "other", "none of them"]])
    disk = written([["disk"]], [found.responses])
    expected = sigma_bm25(disk, BM25)
    with use_protocol(paper_code=True):
        assert sigma_bm25(found, BM25) == expected
    plain = sigma_bm25(found, BM25)
    with use_protocol(words="stemmed"):
        assert sigma_bm25(found, BM25) != plain
        assert sigma_bm25(found, BM25) == sigma_bm25(written([["other mount disk"]], [found.responses]), BM25)


def test_sigma_bm25_takes_the_tasks_own_scores_where_all_have_one(
    dialogues: RankingDataset, docstrings: RankingDataset
) -> None:
    for prepared, split in ((dialogues, "dev"), (dialogues, "test"), (docstrings, "train")):
        table = prepared.read_candidates(split)
        expected = table.groupby("query_id", sort=False)["bm25"].std(ddof=0).to_list()
        assert sigma_bm25(build_difficulty_inputs(prepared, split), BM25).tolist() == pytest.approx(expected, rel=1e-12)
        assert len(set(expected)) > 1


def test_one_missing_score_and_all_are_computed(docstrings: RankingDataset) -> None:
    found = build_difficulty_inputs(docstrings, "test")
    nothing, one = np.full_like(found.bm25, np.nan), found.bm25.copy()
    one[-1] = np.nan
    computed = sigma_bm25(found._replace(bm25=one), BM25)
    np.testing.assert_array_equal(computed, sigma_bm25(found._replace(bm25=nothing), BM25))
    assert (computed != sigma_bm25(found, BM25)).any()


def test_candidates_without_a_word_are_an_error() -> None:
    with pytest.raises(UserError, match=r"^curriculum\.score: a score by BM25, but no document contains a word; exp"):
        sigma_bm25(written([["a"]], [["?", "!"]]), BM25)


def test_ap_bm25_is_one_minus_the_reciprocal_rank_of_the_relevant_one() -> None:
    contexts = [["disk format"]] * 3
    first, second, equal = ["disk format", "disk", "no"], ["disk", "disk format", "no"], ["no", "never", "not"]
    found = ap_bm25(written(contexts, [first, second, equal]), BM25).tolist()
    assert found == pytest.approx([0, 1 / 2, 1 - (1 + 1 / 2 + 1 / 3) / 3])


def test_ap_bm25_is_that_of_the_tasks_scores(dialogues: RankingDataset) -> None:
    table = dialogues.read_candidates("dev")
    expected = []
    for _, block in table.groupby("query_id", sort=False):
        ranked = block.sort_values("bm25", ascending=False, kind="stable")["relevant"].to_numpy()
        ranks = 1 + np.flatnonzero(ranked)
        if block["bm25"].is_unique:
            expected.append(1 - np.mean(np.arange(1, len(ranks) + 1) / ranks))
        else:
            expected.append(math.nan)
    found = ap_bm25(build_difficulty_inputs(dialogues, "dev"), BM25)
    known = ~np.isnan(expected)
    assert known.sum() > 3
    np.testing.assert_allclose(found[known], np.array(expected)[known], atol=1e-12)


def test_words_between_blanks_keep_punctuation_and_case() -> None:
    """The scores of the task are over its own words, so they are not used."""
    instances = written([["Disk, format"]], [["disk format", "Disk, now"]])
    scored = instances._replace(bm25=np.array([1.0, 3.0]))
    by_blanks = scored._replace(words="blanks")
    assert sigma_bm25(scored, BM25).tolist() == [1.0]
    oracle = BM25Okapi([["disk", "format"], ["Disk,", "now"]]).get_scores(["Disk,", "format"])
    assert sigma_bm25(by_blanks, BM25).tolist() == pytest.approx([np.std(oracle)])
    vectors = vectors_of({"disk": [1.0, 0.0], "Disk,": [0.0, 1.0], "format": [1.0, 0.0], "Disk": [1.0, 0.0]})
    # plain words: Disk and format with disk and format, and with Disk; blanks: "Disk," is a word of its own
    assert sigma_sm(instances, vectors).tolist() == [0.0]
    assert sigma_sm(by_blanks, vectors).tolist() == pytest.approx([np.std([0.5, 0.5])])
    only = written([["Disk,"]], [["disk", "Disk,"]])
    assert sigma_sm(only._replace(words="blanks"), vectors).tolist() == [0.5]
    assert sigma_sm(only, vectors).tolist() == [0.0]
