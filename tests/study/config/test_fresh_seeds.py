"""Fresh seeds by their number: which they are, that a larger number only adds seeds, and what they may not be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from study.config.loader import load_study
from trainables.utils.errors import UserError

FIXED = ('variants=["BERT", "LS"]', "search.n_configurations.LS=1")


@given(st.integers(1, 30), st.sets(st.integers(95, 125), min_size=1, max_size=4))
def test_fresh_seeds_are_used_nowhere_else(number: int, seeds: set[int]) -> None:
    found = load_study("quick", [f"seeds={sorted(seeds)}", f"confirm.seeds={number}"])
    assert len(set(found.confirm.seeds)) == number
    assert seeds.isdisjoint(found.confirm.seeds)
    assert found.scorer_seed not in {*found.confirm.seeds, *seeds}
    assert min(found.confirm.seeds) >= 101


def test_a_larger_number_only_adds_seeds() -> None:
    few, many = (load_study("quick", [f"confirm.seeds={number}"]).confirm.seeds for number in (3, 12))
    assert many[:3] == few == (101, 102, 103)


def test_a_study_that_chooses_nothing_begins_with_its_own_seeds() -> None:
    study = load_study("quick", [*FIXED, "seeds=[1, 2, 3]", "confirm.seeds=5"])
    assert study.confirm.seeds == (1, 2, 3, 101, 102)
    assert study.fresh_seeds == (101, 102)
    assert load_study("quick", [*FIXED, "confirm.seeds=[1, 2, 9]"]).fresh_seeds == (9,)


@pytest.mark.parametrize("choice", [
    (FIXED[0], "search.n_configurations.LS=2"), (*FIXED, "training.checkpoint=MAP"),
])  # fmt: skip
def test_a_study_that_chooses_has_no_seeds_that_serve(choice: tuple[str, ...]) -> None:
    assert load_study("quick", [*choice, "confirm.seeds=2"]).confirm.seeds == (101, 102)
    with pytest.raises(UserError, match="fresh seeds; seeds also contains"):
        load_study("quick", [*choice, "confirm.seeds=[1, 9]"])


@pytest.mark.parametrize(("settings", "expected"), [
    (["confirm.seeds=0"], "the number of fresh seeds, from 1 to 1000"),
    (["confirm.seeds=1001"], "the number of fresh seeds, from 1 to 1000"),
    (["confirm.seeds=true"], "the number of fresh seeds, from 1 to 1000"),
    (["confirm.seeds=[4, 4]"], "distinct whole numbers"),
    (["confirm.group_size=2"], "fewer than the number of confirm.seeds, which is empty"),
    (["confirm.seeds=4", "confirm.group_size=4"], "fewer than the number of confirm.seeds"),
    (["confirm.seeds=4", "confirm.group_size=1"], "2"),
    (["confirm.seeds=4", "confirm.group_size=2", "analysis.seeds=pooled"], "while confirm.group_size is set"),
])  # fmt: skip
def test_what_they_may_not_be(settings: list[str], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        load_study("quick", settings)
