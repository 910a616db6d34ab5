"""Pacing functions against the paper's formulas, their three properties, and values worked by hand."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainables.curriculum.pacing import PACING

FORMULAS = {
    "standard": lambda t, full, d: 1.0,
    "step": lambda t, full, d: 0.33 if t <= 0.33 * full else 0.66 if t <= 0.66 * full else 1.0,
    "linear": lambda t, full, d: t * (1 - d) / full + d,
    **{f"root_{n}": lambda t, full, d, n=n: (t * (1 - d**n) / full + d**n) ** (1 / n) for n in (2, 5, 7, 10, 20, 50)},
    "geometric_progression": lambda t, full, d: 2 ** (t * (math.log2(1) - math.log2(d)) / full + math.log2(d)),
}
"""Penha and Hauff (2020), table of pacing functions; what exceeds 1 is all data."""
NAMES = st.one_of(
    st.sampled_from([name for name in PACING if name != "standard"]), st.integers(2, 2000).map("root_{}".format)
)
DELTAS = st.floats(0.01, 0.99)
STEPS = st.integers(1, 10**6)


@pytest.mark.parametrize("name", FORMULAS)
def test_it_is_the_papers_formula_at_a_thousand_points(name: str) -> None:
    draw = np.random.default_rng(0)
    for _ in range(1000):
        full, delta = float(draw.uniform(1, 1e5)), float(draw.uniform(0.02, 0.98))
        step = float(draw.uniform(0, 1.2 * full))
        wanted = min(1.0, FORMULAS[name](step, full, delta))
        assert PACING[name](step, full, delta) == pytest.approx(wanted, abs=1e-12)


def test_every_function_that_is_listed_has_a_formula_here() -> None:
    assert set(PACING) <= set(FORMULAS)


@given(NAMES, STEPS, DELTAS, st.lists(st.floats(0, 1.5), min_size=2))
def test_none_falls_and_all_stay_between_their_start_and_one(
    name: str, full: int, delta: float, shares: list[float]
) -> None:
    found = [PACING[name](share * full, full, delta) for share in sorted(shares)]
    start = 0.33 if name == "step" else delta
    assert all(a <= b or math.isclose(a, b, rel_tol=1e-12) for a, b in pairwise(found))
    assert all(start - 1e-12 <= value <= 1 for value in found)


def test_values_worked_by_hand() -> None:
    # T = 100, delta = 0.25: linear at half way is (1 + .25) / 2, root_2 sqrt((1 + 1/16) / 2), geometric 1/4^(1/2)
    assert PACING["linear"](50, 100, 0.25) == 0.625
    assert PACING["root_2"](50, 100, 0.25) == pytest.approx(math.sqrt(17 / 32))
    assert PACING["geometric_progression"](50, 100, 0.25) == pytest.approx(0.5)
    # with the default delta, .33^2 = .1089: root_2 at T/3 is sqrt(.1089 + .8911 / 3) = sqrt(.405933...)
    assert PACING["root_2"](30, 90) == pytest.approx(0.6371289, abs=1e-7)
    # the paper's figure: of 1,000 iterations root_5 has 80 % in before a third
    assert PACING["root_5"](330, 1000) == pytest.approx((0.33**5 + 0.33 * (1 - 0.33**5)) ** 0.2)
    assert [PACING["step"](step, 100) for step in (0, 33, 33.5, 66, 66.5, 100)] == [0.33, 0.33, 0.66, 0.66, 1, 1]


def test_a_root_of_any_degree_is_known() -> None:
    assert PACING["root_137"](0, 10, 0.5) == 0.5
    for wrong in ("root_0", "root_1", "root_-2", "roots_2", "quadratic", "root_2.5", ""):
        with pytest.raises(KeyError):
            PACING[wrong]


@pytest.mark.parametrize("wrong", [(-1, 10, 0.3), (1, 0, 0.3), (1, 10, 0.0), (1, 10, 1.1)])
@pytest.mark.parametrize("name", [*PACING, "root_3"])
def test_what_makes_no_sense_is_an_error(name: str, wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="expected step"):
        PACING[name](*wrong)
