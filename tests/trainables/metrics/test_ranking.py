"""Laws of the metrics of ranked lists: ir-measures without ties, the mean over all orders with them."""

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations
from statistics import fmean

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trainables.metrics import (
    METRICS,
    average_precision,
    get_measure,
    ndcg_at,
    precision_at,
    rank_of_first_relevant,
    recall_at,
    reciprocal_rank,
    reciprocal_rank_at,
)

Function = Callable[..., np.ndarray]
FUNCTIONS: dict[str, Function] = {
    "MAP": average_precision,
    "MRR": reciprocal_rank,
    "position": rank_of_first_relevant,
    **{f"nDCG@{k}": partial(ndcg_at, k) for k in (1, 3, 20)},
    **{f"R@{k}": partial(recall_at, k) for k in (1, 2, 3, 20)},
    **{f"P@{k}": partial(precision_at, k) for k in (1, 3, 20)},
    **{f"MRR@{k}": partial(reciprocal_rank_at, k) for k in (1, 3, 20)},
}
ORACLES = {
    "MAP": ir_measures.AP,
    "MRR": ir_measures.RR,
    **{f"nDCG@{k}": ir_measures.nDCG @ k for k in (1, 3, 20)},
    **{f"R@{k}": ir_measures.R @ k for k in (1, 2, 3, 20)},
    **{f"P@{k}": ir_measures.P @ k for k in (1, 3, 20)},
    **{f"MRR@{k}": ir_measures.RR @ k for k in (1, 3, 20)},
}


ELSEWHERE = {
    "R<n>@<k>": "test_ranking.py, as R@<k>",
    "Judged@<k>": "test_unretrieved.py",
    "STS": "test_sts.py",
    "STS/<set>": "test_sts.py",
}
"""Metric of ranked lists or of sentence pairs -> file that has its laws."""


def test_every_metric_that_is_registered_has_a_function_here() -> None:
    for entry in METRICS.entries:
        measure = METRICS[entry.examples[0] if entry.examples else entry.name]
        if measure.is_rank_based and entry.name not in ELSEWHERE:
            pattern = entry.pattern or re.escape(entry.name)
            assert any(re.fullmatch(pattern, name) for name in FUNCTIONS), f"{entry.name} is not in FUNCTIONS"


def of_order(name: str, labels: Sequence[int]) -> float:
    """The definition for one order of the candidates: plain loops."""
    ranks = [rank for rank, label in enumerate(labels, 1) if label]
    if name == "MAP":
        return fmean(sum(bool(label) for label in labels[:rank]) / rank for rank in ranks)
    if name in ("MRR", "position"):
        return 1 / ranks[0] if name == "MRR" else float(ranks[0])
    k = int(name.partition("@")[2])
    hits = sum(bool(label) for label in labels[:k])
    if name.startswith(("R@", "P@")):
        return hits / len(ranks) if name.startswith("R@") else hits / k
    if name.startswith("MRR@"):
        return 1 / ranks[0] if ranks[0] <= k else 0.0
    own, best = (
        sum(gain / math.log2(rank + 1) for rank, gain in enumerate(order[:k], 1))
        for order in (labels, sorted(labels, reverse=True))
    )
    return own / best


def expected(name: str, scores: np.ndarray, labels: np.ndarray) -> float:
    """The mean over every order of the candidates; sorting is stable, so that the order breaks the ties."""
    orders = [sorted(order, key=lambda i: -scores[i]) for order in permutations(range(len(scores)))]
    return fmean(of_order(name, labels[order].tolist()) for order in orders)


def relevance(size: int, highest: int = 1) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.int64, size, elements=st.integers(0, highest)).filter(lambda labels: labels.any())


@st.composite
def tied(draw: st.DrawFn, highest: int = 1) -> tuple[np.ndarray, np.ndarray]:
    size = draw(st.integers(1, 6))
    return draw(arrays(np.int64, size, elements=st.integers(0, 2))), draw(relevance(size, highest))


@st.composite
def distinct(draw: st.DrawFn, highest: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(queries, candidates) scores without ties, and relevance."""
    queries, size = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    scores = np.array([draw(st.permutations(range(size))) for _ in range(queries)]) / 8 - 0.5
    return scores, np.stack([draw(relevance(size, highest)) for _ in range(queries)])


def by_ir_measures(name: str, scores: np.ndarray, labels: np.ndarray) -> list[float]:
    pairs = [(q, d) for q in range(len(scores)) for d in range(scores.shape[1])]
    qrels = [ir_measures.Qrel(str(q), str(d), int(labels[q, d])) for q, d in pairs]
    run = [ir_measures.ScoredDoc(str(q), str(d), float(scores[q, d])) for q, d in pairs]
    found = {int(one.query_id): one.value for one in ir_measures.iter_calc([ORACLES[name]], qrels, run)}
    return [found[q] for q in range(len(scores))]


@pytest.mark.parametrize("name", ORACLES)
@given(lists=distinct())
def test_without_ties_equals_ir_measures(name: str, lists: tuple[np.ndarray, np.ndarray]) -> None:
    np.testing.assert_allclose(FUNCTIONS[name](*lists), by_ir_measures(name, *lists), rtol=0, atol=1e-10)


@given(lists=distinct(highest=3), k=st.sampled_from([1, 3, 20]))
def test_grades_equal_ir_measures(lists: tuple[np.ndarray, np.ndarray], k: int) -> None:
    np.testing.assert_allclose(ndcg_at(k, *lists), by_ir_measures(f"nDCG@{k}", *lists), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
@given(one=tied())
def test_ties_are_the_mean_over_all_orders(name: str, one: tuple[np.ndarray, np.ndarray]) -> None:
    scores, labels = one
    assert FUNCTIONS[name](scores[None], labels[None])[0] == pytest.approx(expected(name, scores, labels), abs=1e-12)


@given(one=tied(highest=3), k=st.sampled_from([1, 3, 20]))
def test_tied_grades_are_the_mean_over_all_orders(one: tuple[np.ndarray, np.ndarray], k: int) -> None:
    scores, labels = one
    value = ndcg_at(k, scores[None], labels[None])[0]
    assert value == pytest.approx(expected(f"nDCG@{k}", scores, labels), abs=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
@given(
    lists=st.integers(1, 5).flatmap(lambda n: st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=n))
)
def test_only_the_order_counts(name: str, lists: list[tuple[int, int]]) -> None:
    scores, labels = np.array([*lists, (0, 1)]).T[:, None]
    value = FUNCTIONS[name](scores, labels)
    np.testing.assert_array_equal(FUNCTIONS[name](np.exp(scores / 2.0), labels), value)
    np.testing.assert_array_equal(FUNCTIONS[name](np.arctan(scores) * 1e-9 - 5, labels), value)
    np.testing.assert_allclose(FUNCTIONS[name](scores[:, ::-1], labels[:, ::-1]), value, rtol=1e-14)


@pytest.mark.parametrize("relevant", [1, 3, 100, 999, 1000])
def test_long_ties_equal_the_count_of_all_their_orders(relevant: int) -> None:
    """The first of r relevant documents among n stands at place j in C(n - j, r - 1) of C(n, r) choices of places."""
    size, labels = 1000, np.zeros((1, 1000))
    labels[0, :relevant] = 1
    chances = [math.comb(size - j, relevant - 1) / math.comb(size, relevant) for j in range(1, size + 1)]
    value = sum(chance / j for j, chance in enumerate(chances, 1))
    assert reciprocal_rank(np.zeros((1, size)), labels)[0] == pytest.approx(value, rel=1e-11)
    place = sum(chance * j for j, chance in enumerate(chances, 1))
    assert rank_of_first_relevant(np.zeros((1, size)), labels)[0] == pytest.approx(place, rel=1e-11)


def test_names_of_recalls() -> None:
    assert (get_measure("R10@1").name, get_measure("R10@1").required_candidates) == ("R10@1", 10)
    for name in ("R10@11", "R10@0", "R10", "r10@1"):
        with pytest.raises(ValueError, match="not a metric"):
            get_measure(name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_infinite_score_is_ranked(name: str) -> None:
    for finite in ([2.0, 1.0, 0.0], [2.0, 2.0, 0.0]):
        scores = np.where(np.array(finite) == 2, np.inf, finite)
        for labels in ([0, 1, 1], [1, 0, 0]):
            assert FUNCTIONS[name](scores[None], [labels]) == FUNCTIONS[name]([finite], [labels])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("scores", "relevant", "message"),
    [
        ([[np.nan, 1.0]], [[1, 0]], "NaN"),
        ([[1.0, 2.0]], [[0, 0]], "no relevant"),
        ([[1.0, 2.0]], [[-1, 1]], "only 0 and 1|at least 0"),
        ([[1.0, 2.0]], [[np.nan, 1]], "only 0 and 1|finite"),
        ([1.0, 2.0], [1, 0], "queries, candidates"),
        ([[1.0, 2.0]], [[1, 0, 0]], "queries, candidates"),
    ],
)
def test_bad_input_is_an_error(name: str, scores: list[float], relevant: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FUNCTIONS[name](np.array(scores), np.array(relevant))


def test_grades_are_for_ndcg_alone_and_cutoffs_begin_at_1() -> None:
    for name, function in FUNCTIONS.items():
        if not name.startswith("nDCG"):
            with pytest.raises(ValueError, match="only 0 and 1"):
                function([[1.0, 2.0]], [[2, 0]])
    for with_cutoff in (ndcg_at, precision_at, recall_at, reciprocal_rank_at):
        with pytest.raises(ValueError, match="at least 1"):
            with_cutoff(0, [[1.0, 2.0]], [[1, 0]])
