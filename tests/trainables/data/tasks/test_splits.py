"""The laws of splitting: nothing is lost, nothing moves, and no topic is in two halves."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.data.tasks.splits import choose_split, split_by_hash, split_in_half, split_in_order

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


IDS = [f"q{i}" for i in range(5000)]


def take_dev(share: float) -> set[str]:
    return {name for name in IDS if choose_split("train", name, share) == "dev"}


@given(st.floats(0.001, 0.999), st.sampled_from(IDS))
def test_only_training_queries_are_put_into_dev_and_the_same_everywhere(share: float, name: str) -> None:
    assert choose_split("train", name, share) in ("train", "dev")
    assert choose_split("train", name, None) == "train"
    assert [choose_split(split, name, share) for split in ("dev", "test")] == ["dev", "test"]
    assert [choose_split("train", found, 0.5) for found in ("q3", "q4", "q5", "q6")] == ["dev", "dev", "train", "train"]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_the_dev_share_is_the_stated_one_and_a_larger_one_contains_it(share: float) -> None:
    assert len(take_dev(share)) / len(IDS) == pytest.approx(share, abs=0.02)
    assert take_dev(share) < take_dev(share + 0.05)


def test_the_dev_share_has_nothing_to_do_with_the_other_hashes_of_ids() -> None:
    dev = take_dev(0.3)
    for split in ("train", "dev", "test"):
        part = {name for name in IDS if split_by_hash(name) == split}
        assert len(dev & part) / len(part) == pytest.approx(0.3, abs=0.05)
    first = set(
        sorted(IDS, key=lambda name: hashlib.sha256(name.encode()).digest())[:1000]
    )  # as task.train_queries takes them
    assert len(dev & first) / len(first) == pytest.approx(0.3, abs=0.05)
