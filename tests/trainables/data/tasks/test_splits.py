"""The laws of splitting: nothing is lost, nothing moves, and no topic is in two halves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.data.tasks.splits import split_by_hash, split_in_half, split_in_order

topics = st.lists(st.sampled_from(["1", "2", "3", "10", "20", "007"]), max_size=20)
names = st.lists(st.sampled_from(["b", "a10", "a9", "3"]), max_size=12)


@given(st.integers(0, 2000))
def test_rows_in_order_are_split_80_10_10(count: int) -> None:
    splits = split_in_order(count)
    assert splits == sorted(splits, key=["train", "dev", "test"].index)
    assert len(splits) == count
    for split, share in (("train", 0.8), ("dev", 0.1), ("test", 0.1)):
        assert abs(splits.count(split) - share * count) < 1


@given(st.one_of(topics, names))
def test_halving_loses_no_row_and_cuts_no_topic(judged: list[str]) -> None:
    rows = list(enumerate(judged))
    dev, test = split_in_half(rows, lambda row: row[1])
    assert sorted(dev + test) == rows
    assert not {topic for _, topic in dev} & {topic for _, topic in test}
    assert len(dev) >= len(rows) // 2
    last = [row for row in dev if row[1] == dev[-1][1]]
    assert len(rows) < 2 or len(dev) - len(last) < max(len(rows) // 2, 1)  # no later than the topic makes necessary
    for topic in set(judged):
        own = [row for row in dev + test if row[1] == topic]
        assert own == sorted(own)


@given(topics)
def test_topics_that_are_numbers_are_sorted_as_numbers(judged: list[str]) -> None:
    dev, test = split_in_half(judged, lambda topic: topic)
    assert [int(topic) for topic in dev + test] == sorted(int(topic) for topic in judged)


def test_topics_that_are_not_all_numbers_are_sorted_as_text() -> None:
    assert split_in_half(["9", "10", "x", "a"], str) == (["10", "9"], ["a", "x"])


def test_the_split_by_hash_is_the_same_everywhere() -> None:
    splits = {"1048585": "train", "numpy.add": "train", "é": "dev", "q3": "test"}
    assert {name: split_by_hash(name) for name in splits} == splits


@pytest.mark.parametrize(("split", "share"), [("train", 0.8), ("dev", 0.1), ("test", 0.1)])
def test_the_split_by_hash_has_the_stated_shares(split: str, share: float) -> None:
    found = [split_by_hash(f"q{i}") for i in range(5000)]
    assert found.count(split) / 5000 == pytest.approx(share, abs=0.02)
