"""Metrics by their names: which there are, what each needs, and how lists of different lengths are judged."""

import re
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from trainables.metrics import (
    LOWER_IS_BETTER,
    METRICS,
    Measure,
    brier_score,
    collect_documents,
    expected_calibration_error,
    get_measure,
    recall_at,
    spearman,
)

RETRIEVAL = ("R@2", "P@3", "nDCG@3", "MAP", "MRR", "MRR@3", "Judged@3")
PER_QUERY = (*RETRIEVAL, "R4@1", "position", "Brier", "NLL")
POOLED = ("ECE", "Spearman")


def test_every_metric_that_is_registered_is_named_here() -> None:
    """Except those of sentence pairs, which are in test_sts.py."""
    for entry in METRICS.entries:
        measure = METRICS[entry.examples[0] if entry.examples else entry.name]
        if measure.sts_correlation is None:
            pattern, names = entry.pattern or re.escape(entry.name), PER_QUERY if measure.per_query else POOLED
            assert any(re.fullmatch(pattern, name) for name in names), f"{entry.name} is in neither list"


def lists(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(pairs,) scores with ties, and relevance with at least one relevant document in each list."""
    rng = np.random.default_rng(len(lengths))
    scores, relevant = rng.integers(-3, 4, lengths.sum()).astype(float), rng.integers(0, 2, lengths.sum())
    relevant[np.cumsum(lengths) - lengths] = 1
    return scores, relevant


def alone(one: Measure, scores: np.ndarray, relevant: np.ndarray, lengths: np.ndarray) -> list[float]:
    """Each list by itself."""
    cuts = np.cumsum(lengths)[:-1]
    parts = zip(np.split(scores, cuts), np.split(relevant, cuts), strict=True)
    return [float(one.function(own[None], labels[None])[0]) for own, labels in parts]


@pytest.mark.parametrize("name", PER_QUERY)
def test_lists_of_any_length_are_judged_one_by_one(name: str) -> None:
    one = get_measure(name)
    lengths = np.full(7, 4) if one.required_candidates else np.array([3, 1, 7, 3, 12, 1, 2])
    pairs = lists(lengths)
    np.testing.assert_allclose(one.compute_values(*pairs, lengths), alone(one, *pairs, lengths), rtol=1e-14)
    assert one.compute_overall(*pairs, lengths) == one.compute_values(*pairs, lengths).mean()


def test_recall_needs_its_number_of_candidates() -> None:
    lengths = np.array([4, 5])
    with pytest.raises(ValueError, match="exactly 4 candidates"):
        get_measure("R4@1").compute_values(*lists(lengths), lengths)


@pytest.mark.parametrize("name", POOLED)
def test_metrics_of_all_pairs_have_no_value_for_a_query(name: str) -> None:
    lengths = np.array([3, 5, 2])
    scores, relevant = lists(lengths)
    function = {"ECE": expected_calibration_error, "Spearman": spearman}[name]
    assert get_measure(name).compute_overall(scores, relevant, lengths) == function(scores, relevant)
    with pytest.raises(ValueError, match="no value for a single query"):
        get_measure(name).compute_values(scores, relevant, lengths)


def test_what_a_name_says() -> None:
    assert [name for name in (*PER_QUERY, *POOLED) if get_measure(name).per_query] == list(PER_QUERY)
    assert {name for name in (*PER_QUERY, *POOLED) if get_measure(name).lower_is_better} == set(LOWER_IS_BETTER)
    assert set(LOWER_IS_BETTER) == {"ECE", "Brier", "NLL", "position"}
    assert all(name in LOWER_IS_BETTER for name in LOWER_IS_BETTER)
    assert not [name for name in ("MAP", "R5@1", "R5@10", "accuracy", 3) if name in LOWER_IS_BETTER]
    assert {name for name in (*PER_QUERY, *POOLED) if get_measure(name).needs_logits} == {"ECE", "Brier", "NLL"}
    assert {name for name in (*PER_QUERY, *POOLED) if get_measure(name).is_rank_based} == set(PER_QUERY) - {
        "Brier",
        "NLL",
    }
    scores, relevant = [[3.0, 2.0, 1.0, 0.0]], [[0, 1, 0, 1]]
    assert get_measure("R4@2").required_candidates == 4
    assert get_measure("R4@2").function(scores, relevant) == recall_at(2, scores, relevant) == 0.5
    assert get_measure("nDCG@2").function(scores, relevant) < get_measure("nDCG@4").function(scores, relevant)
    assert get_measure("Brier").function(scores, relevant) == brier_score(scores, relevant)


def test_the_metrics_of_retrieval_allow_unretrieved_documents() -> None:
    names = (*PER_QUERY, *POOLED, "STS", "STS/STS12")
    assert [name for name in names if get_measure(name).allows_unretrieved] == list(RETRIEVAL)
    assert get_measure("R@2").required_candidates is None
    lengths, scores, labels = np.array([2, 3]), np.array([1.0, -np.inf, 3.0, 2.0, -np.inf]), np.array([0, 1, 0, 1, 1])
    assert get_measure("R@2").compute_values(scores, labels, lengths).tolist() == [0.0, 0.5]
    with pytest.raises(ValueError, match="no relevant document of 1 queries was retrieved"):
        get_measure("position").compute_values(scores, labels, lengths)


def test_each_metric_reads_its_labels() -> None:
    relevant, grades = np.array([0, 1, 0, 0]), np.array([1, 2, 0, -1])
    expected = {"nDCG@3": [1, 2, 0, 0], "Judged@3": [1, 1, 1, 0]}
    scores, retrieved = np.array([3.0, 2.0, 1.0, 0.0]), collect_documents(grades, ["d1", "d2", "d3", "d4"])
    for name in (*PER_QUERY, *POOLED, "STS"):
        measure = get_measure(name)
        if name in RETRIEVAL:
            assert measure.select_inputs(scores, relevant, retrieved)[1].tolist() == expected.get(name, [0, 1, 0, 0])
        else:
            with pytest.raises(ValueError, match=f"{name} is not defined for retrieved candidates"):
                measure.select_inputs(scores, relevant, retrieved)
        if name != "Judged@3":
            same = measure.select_inputs(scores, relevant, None)
            assert same[0] is scores
            assert same[1] is relevant
    assert {name for name in PER_QUERY if get_measure(name).labels != "relevant"} == set(expected)
    with pytest.raises(ValueError, match="Judged@3 needs candidates that a first stage retrieved"):
        get_measure("Judged@3").select_inputs(scores, relevant, None)


@pytest.mark.parametrize(
    "name",
    [
        *("", "map", "MAP@3", "R10@11", "R10@0", "nDCG", "nDCG@0", "nDCG@x", "ECE ", "speed"),
        *("R@0", "R@", "P@01", "P", "MRR@-1", "Judged", "Judged@1000000"),
    ],
)
def test_other_names_are_an_error_and_the_known_ones_told(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not a metric; expected one of R<n>@<k>, R@<k>, P@<k>, nDCG@<k>, MAP, MRR, MRR@<k>"
    ):
        get_measure(name)


def test_numpy_is_all_that_is_needed() -> None:
    code = "import sys, trainables.metrics; print([m for m in ('scipy', 'pandas', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("function", [lambda scores, relevant: scores.mean(), lambda scores, relevant: scores])
def test_a_metric_without_a_value_per_query_is_an_error(function: Callable[..., object]) -> None:
    scores, relevant = np.arange(6.0), np.tile([1, 0, 0], 2)
    with pytest.raises(ValueError, match=r"mine returned the shape .*; expected one value per query"):
        Measure("mine", function).compute_values(scores, relevant, np.array([3, 3]))
