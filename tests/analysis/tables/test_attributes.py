"""Strata: every query is in one; the classes are what they are said to be."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.tables.query_strata import (
    MAX_GROUPS,
    MIN_QUERIES,
    group_by_difficulty,
    group_by_domain,
    group_by_turns,
    group_queries,
)

_TURNS = st.lists(st.integers(0, 30), min_size=1, max_size=400)


def _named(found: tuple[list[str], np.ndarray]) -> list[str]:
    names, of = found
    return [names[place] for place in of]


def test_numbers_of_turns_by_hand() -> None:
    counts = {1: 30, 2: 20, 3: 12, 4: 5, 6: 3, 7: 25, 9: 11, 12: 8}
    turns = np.repeat(list(counts), list(counts.values()))
    names, of = group_by_turns(turns)
    assert names == ["1", "2", "3-6", "7 or more"]
    assert np.bincount(of).tolist() == [30, 20, 20, 44]
    assert group_by_turns(np.array([3, 3, 5]))[0] == ["3 or more"]
    assert group_by_turns(np.repeat([1, 2], 20))[0] == ["1", "2"]
    assert group_by_turns(np.repeat(np.arange(1, 15), 20))[0] == [*map(str, range(1, 10)), "10 or more"]


@given(_TURNS)
def test_classes_of_turns_are_adjacent_large_enough_and_not_larger_than_need_be(turns: list[int]) -> None:
    names, of = group_by_turns(np.array(turns))
    sizes = np.bincount(of, minlength=len(names))
    assert len(sizes) == len(names) == len(set(names)) <= MAX_GROUPS
    assert sizes.min() >= min(MIN_QUERIES, len(turns))
    own = [sorted(np.array(turns)[of == place]) for place in range(len(names))]
    assert [value for several in own for value in several] == sorted(turns)
    for several in own[:-1]:  # without its largest number of turns a class would be too small
        assert sum(value < several[-1] for value in several) < MIN_QUERIES


@given(st.lists(st.sampled_from([*"abcdefghijklmno", "", "other"]), min_size=1, max_size=200))
def test_domains_are_the_most_frequent_ones_and_the_others(domains: list[str]) -> None:
    found = _named(group_by_domain(domains))
    counts = pd.Series([name or "none" for name in domains]).value_counts()
    least = counts.iloc[min(MAX_GROUPS, len(counts)) - 1]
    for name, shown in zip(domains, found, strict=True):
        if counts[name or "none"] > least:
            assert shown == (name or "none")
        assert shown in (name or "none", "other")
    assert len(set(found)) == min(len(counts), MAX_GROUPS + 1) or "other" in domains
    assert (len(counts) <= MAX_GROUPS) <= (found == [name or "none" for name in domains])


def test_equally_frequent_domains_are_taken_by_the_alphabet() -> None:
    names, _ = group_by_domain([*"zyxwvutsrqpz"])
    assert names == ["z", *"pqrstuvwx", "other"]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=100))
def test_terciles_are_thirds_in_order_with_ties_by_hash(values: list[int]) -> None:
    queries = [f"q{number}" for number in range(len(values))]
    _, of = group_by_difficulty(np.array(values, float), queries)
    sizes = np.bincount(of, minlength=3)
    assert sizes.sum() == len(values)
    assert np.ptp(sizes) <= 1
    hashed = [hashlib.sha256(name.encode()).hexdigest() for name in queries]
    keys = [(value, key) for value, key in zip(values, hashed, strict=True)]
    for one, first in zip(keys, of, strict=True):
        for other, second in zip(keys, of, strict=True):
            if first < second:
                assert one < other


def test_the_order_of_the_rows_says_nothing() -> None:
    values, queries = np.array([1.0, 1.0, 1.0, 0.0, 2.0, 1.0]), [*"abcdef"]
    of = dict(zip(queries, group_by_difficulty(values, queries)[1], strict=True))
    again = dict(zip(queries[::-1], group_by_difficulty(values[::-1], queries[::-1])[1], strict=True))
    assert of == again


@pytest.mark.parametrize("columns", [["turns"], ["domain", "difficulty/sigma_SM"], []])
def test_there_is_an_attribute_for_each_column(columns: list[str]) -> None:
    values = {"turns": [1, 2], "domain": ["a", "b"], "difficulty/sigma_SM": [0.5, 0.1]}
    frame = pd.DataFrame({"split": "test", "query_id": ["p", "q"], **{name: values[name] for name in columns}})
    found = group_queries(frame)
    assert [one.name for one in found] == columns
    assert [one.title for one in found] == ["difficulty (sigma_SM)" if "/" in name else name for name in columns]
