"""Texts that several splits contain are counted by id and by text, kept with the data, and an error beyond a share."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.data.store import load_or_compute
from trainables.text.text_overlap import SplitTexts, check_overlaps, count_overlaps, describe_overlap, normalize_text
from trainables.utils.errors import UserError

ROW = {"split": "test", "other": "train", "unit": "queries", "of": 200, "texts": 44, "ids": 3}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("How do I?", " how  DO\ti?\n", True),
        ("Straße", "STRASSE", True),
        ("ΌΔΟΣ", "όδος", True),
        ("a b", "a\N{NO-BREAK SPACE}b", True),
        ("a b", "ab", False),
        ("cafe", "café", False),
        ("cafe\N{COMBINING ACUTE ACCENT}", "CAFÉ", True),
    ],
)
def test_case_and_white_space_make_no_other_text(one: str, other: str, same: bool) -> None:
    assert (normalize_text(one) == normalize_text(other)) == same


words = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)


@given(st.fixed_dictionaries(dict.fromkeys(("train", "dev", "test"), words)))
def test_the_counts_are_those_of_sets(splits: dict[str, Sequence[str]]) -> None:
    """Texts of the same letter differ in case and blanks; ids hang on the letter too, except half of the letters."""
    made = {
        split: SplitTexts([f" {own.upper()} " if split == "dev" else own for own in letters],
                     [own if own < "e" else f"{split}-{own}" for own in letters])
        for split, letters in splits.items()
    }  # fmt: skip
    found = {(row["other"], row["split"]): row for row in count_overlaps(made, "queries")}
    for other, split in (("train", "dev"), ("train", "test"), ("dev", "test")):
        shared = {*splits[other]} & {*splits[split]}
        if not shared:
            assert (other, split) not in found
            continue
        row = found[other, split]
        assert (row["texts"], row["ids"], row["of"]) == (len(shared), sum(x < "e" for x in shared), len(splits[split]))


def test_queries_of_one_text_each_count() -> None:
    made = {
        "train": SplitTexts(["a"], ["1"]),
        "dev": SplitTexts(["A", "a ", "b"], ["2", "3", "4"]),
        "test": SplitTexts(["c"], ["5"]),
    }
    assert count_overlaps(made, "queries") == [
        {"split": "dev", "other": "train", "unit": "queries", "of": 3, "texts": 2, "ids": 0}
    ]


def test_an_overlap_in_words() -> None:
    said = "44 of 200 test queries (22 %) are training queries too (3 by id, 44 by text)"
    assert describe_overlap(ROW) == said
    without = {name: value for name, value in ROW.items() if name != "ids"} | {"unit": "sentences"}
    assert describe_overlap(without) == "44 of 200 test sentences (22 %) are training sentences too"


def test_more_than_is_allowed_is_an_error_with_what_would_be_enough() -> None:
    check_overlaps([ROW], 0.22)
    with pytest.raises(UserError) as error:
        check_overlaps([ROW], 0.219)
    assert str(error.value) == (
        "task.allowed_overlap: 0.219, but 44 of 200 test queries (22 %) are training queries too (3 by id, 44 by text);"
        " expected splits that share no queries, or task.allowed_overlap=0.22 to continue anyway"
    )


@given(st.integers(1, 10_000), st.data())
def test_the_share_that_an_error_names_is_enough(of: int, data: st.DataObject) -> None:
    row = ROW | {"of": of, "texts": data.draw(st.integers(1, of)), "ids": 0}
    with pytest.raises(UserError) as error:
        check_overlaps([row], 0.0)
    check_overlaps([row], float(str(error.value).partition("task.allowed_overlap=")[2].split()[0]))


def test_counts_are_kept_and_damaged_ones_made_again(tmp_path: Path) -> None:
    asked = 0

    def count() -> list[dict[str, Any]]:
        nonlocal asked
        asked += 1
        return [dict(ROW)]

    path = tmp_path / "overlaps.json"
    assert load_or_compute(path, 2, count) == load_or_compute(path, 2, count) == [ROW]
    assert asked == 1
    whole = path.read_text()
    for damaged in (whole.replace("44", "4"), whole[: len(whole) // 2], "", "[]", "{}", "\udcff"):
        path.write_bytes(damaged.encode(errors="surrogateescape"))
        before = asked
        assert load_or_compute(path, 2, count) == [ROW]
        assert asked == before + 1
        assert json.loads(path.read_text()) == json.loads(whole)


def test_a_folder_that_cannot_be_written_keeps_nothing_and_fails_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert load_or_compute(file / "overlaps.json", 2, lambda: [dict(ROW)]) == [ROW]
