"""Laws of documents that were not retrieved, which have the score -inf: ir-measures judges the run without them."""

from itertools import permutations
from typing import NamedTuple

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.metrics import collect_documents, get_measure, judged_at, rank_of_first_relevant

ORACLES = {
    **{f"R@{k}": f"R(rel=GRADE)@{k}" for k in (1, 3, 20)},
    **{f"P@{k}": f"P(rel=GRADE)@{k}" for k in (1, 3, 20)},
    **{f"nDCG@{k}": f"nDCG@{k}" for k in (1, 3, 20)},
    "MAP": "AP(rel=GRADE)",
    "MRR": "RR(rel=GRADE)",
    **{f"MRR@{k}": f"RR(rel=GRADE)@{k}" for k in (1, 3, 20)},
    **{f"Judged@{k}": f"Judged@{k}" for k in (1, 3, 20)},
}
"""Metric -> measure of ir-measures; GRADE is the lowest grade of a relevant document."""


class Query(NamedTuple):
    """(candidates,) each."""

    scores: np.ndarray  # -inf if not retrieved
    grades: np.ndarray  # -1 if not judged


@st.composite
def queries(draw: st.DrawFn, relevant_from: int, max_size: int, tied: bool) -> Query:
    """A query with at least one judged document; perhaps nothing was retrieved, or nothing is relevant."""
    size = draw(st.integers(1, max_size))
    grades = np.array(draw(st.lists(st.integers(-1, 3), min_size=size, max_size=size)))
    grades[draw(st.integers(0, size - 1))] = draw(st.integers(0, 3))
    if tied:
        scores = np.array(draw(st.lists(st.integers(-1, 1), min_size=size, max_size=size)), float)
    else:
        scores = np.array(draw(st.permutations(range(size)))) - size / 2
    retrieved = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    if draw(st.integers(0, 5)) == 0:
        retrieved[:] = False
    return Query(np.where(retrieved, scores, -np.inf), grades)


def compute(name: str, found: list[Query], relevant_from: int) -> np.ndarray:
    scores, grades = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    measure, lengths = get_measure(name), np.array([len(one.scores) for one in found])
    retrieved = collect_documents(grades, [str(document) for length in lengths for document in range(length)])
    inputs = measure.select_inputs(scores, (grades >= relevant_from) * 1, retrieved)
    return measure.compute_values(*inputs, lengths, is_retrieved=True)


def compute_expectation(name: str, one: Query, relevant_from: int) -> float:
    """The function of the metric itself, for which ids of tied documents do not matter."""
    measure, relevant = get_measure(name), (one.grades >= relevant_from) * 1
    retrieved = collect_documents(one.grades, np.zeros(len(one.grades)).astype(str))
    labels = measure.select_inputs(one.scores, relevant, retrieved)[1]
    return float(measure.compute_values(one.scores, labels, np.array([len(one.scores)]), is_retrieved=True)[0])


def by_ir_measures(found: list[Query], relevant_from: int) -> dict[str, np.ndarray]:
    """Metric -> (queries,) values."""
    rows = [
        (str(query), str(document), float(score), int(grade))
        for query, one in enumerate(found)
        for document, (score, grade) in enumerate(zip(*one, strict=True))
    ]
    qrels = [ir_measures.Qrel(query, document, grade) for query, document, _, grade in rows if grade >= 0]
    run = [ir_measures.ScoredDoc(query, document, score) for query, document, score, _ in rows if score > -np.inf]
    parsed = {
        ir_measures.parse_measure(oracle.replace("GRADE", str(relevant_from))): name for name, oracle in ORACLES.items()
    }
    values = {name: np.full(len(found), np.nan) for name in ORACLES}
    for one in ir_measures.iter_calc(list(parsed), qrels, run):
        values[parsed[one.measure]][int(one.query_id)] = one.value
    return values


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("relevant_from", [1, 2])
@given(data=st.data())
def test_equals_ir_measures_also_where_documents_tie(relevant_from: int, tied: bool, data: st.DataObject) -> None:
    """With 12 documents, the order of their ids is not that of their numbers."""
    found = data.draw(st.lists(queries(relevant_from, 12, tied), min_size=1, max_size=4))
    if data.draw(st.booleans()):  # equal in single precision, which is what trec_eval compares
        found = [one._replace(scores=one.scores + np.arange(len(one.scores)) * 1e-12) for one in found]
    for name, values in by_ir_measures(found, relevant_from).items():
        np.testing.assert_allclose(compute(name, found, relevant_from), values, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("relevant_from", [1, 2])
@given(data=st.data())
def test_ties_are_the_mean_of_ir_measures_over_all_orders(relevant_from: int, data: st.DataObject) -> None:
    one = data.draw(queries(relevant_from, 5, tied=True))
    orders = [Query(one.scores + np.array(order) / 8, one.grades) for order in permutations(range(len(one.scores)))]
    for name, values in by_ir_measures(orders, relevant_from).items():
        assert compute_expectation(name, one, relevant_from) == pytest.approx(values.mean(), abs=1e-12), name


@pytest.mark.parametrize("name", ORACLES)
def test_a_query_without_a_retrieved_relevant_document_has_the_value_0(name: str) -> None:
    nothing = Query(np.full(3, -np.inf), np.array([2, 1, 0]))
    only_others = Query(np.array([-np.inf, 1.0, 1.0]), np.array([2, -1, -1]))
    assert compute(name, [nothing, only_others], 1).tolist() == [0.0, 0.0]


def test_the_first_relevant_document_has_a_rank_only_if_one_was_retrieved() -> None:
    assert rank_of_first_relevant([[1.0, 2.0, -np.inf]], [[1, 0, 1]]).tolist() == [2.0]
    with pytest.raises(ValueError, match="no relevant document of 2 queries was retrieved"):
        rank_of_first_relevant([[1.0, -np.inf], [-np.inf, -np.inf], [1.0, 2.0]], [[0, 1], [1, 1], [1, 0]])


def test_judgements_are_yes_or_no_and_need_not_exist() -> None:
    assert judged_at(2, [[3.0, 2.0, 1.0]], [[0, 0, 0]]).tolist() == [0.0]
    for k, judged, message in ((0, [[1, 0]], "at least 1"), (1, [[2, 0]], "judged must contain only 0 and 1")):
        with pytest.raises(ValueError, match=message):
            judged_at(k, [[1.0, 2.0]], judged)
    with pytest.raises(ValueError, match="NaN"):
        judged_at(1, [[np.nan, 2.0]], [[1, 0]])
    with pytest.raises(ValueError, match="scores and judged must both be"):
        judged_at(1, [1.0, 2.0], [1, 0])
