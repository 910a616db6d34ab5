"""Importance of hyperparameters: against an analysis of variance by hand, and where nothing can be said."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution

from analysis.data.plan import Plan
from analysis.data.results import Results
from analysis.data.search_log import Proposal, SearchLog
from analysis.tables.importance import MIN_CONFIGURATIONS, _build_axis, compute_importances, compute_seeds_share
from tests.analysis.builders import PLAN

GRID: dict[str, list[Any]] = {
    "epsilon": [0.1, 0.2, 0.3, 0.4],
    "switch": [0.25, 0.5, 0.75],
    "learning_rate": [1e-6, 1e-5, 1e-4],
}


def results(values: list[dict[str, Any]], score: Callable[[dict[str, Any]], float], grid: dict[str, Any]) -> Results:
    proposals = [
        {"number": number, "configuration_id": str(number), "values": own, "state": "complete", "seeds": [1],
         "objectives": {"R10@1": score(own)}}
        for number, own in enumerate(values)
    ]  # fmt: skip
    system = {"sampler": "grid", "size": len(values), "wanted": len(values), "proposed": len(values), "grid": grid,
              "proposals": proposals}  # fmt: skip
    return Results(Plan.model_validate(PLAN), "0", [], SearchLog.model_validate({"systems": {"T-LS": system}}))


def everything(grid: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(grid, point, strict=True)) for point in itertools.product(*grid.values())]


def test_shares_are_those_of_an_analysis_of_variance() -> None:
    def score(values: dict[str, Any]) -> float:
        return 10 * (values["epsilon"] - 0.2) ** 2 + 0.1 * math.log10(values["learning_rate"])

    points = everything(GRID)
    scores = np.array([score(point) for point in points])
    rows = {row.hyperparameter: row for row in compute_importances(results(points, score, GRID), [])}
    for name, several in GRID.items():
        means = [scores[[point[name] == value for point in points]].mean() for value in several]
        assert rows[name].shares["R10@1"] == pytest.approx(float(np.var(means) / np.var(scores)), abs=0.1)
        assert rows[name].n_configurations == 36
    assert rows["switch"].shares["R10@1"] < 0.02


def test_the_same_search_has_the_same_importances() -> None:
    made = results(everything(GRID), lambda values: values["epsilon"] * values["switch"], GRID)
    assert compute_importances(made, []) == compute_importances(made, [])


def test_a_setting_of_one_schedule_is_judged_among_those_that_have_it() -> None:
    grid = {"epsilon": GRID["epsilon"], "schedule": ["two_stage", "linear"], "switch": GRID["switch"]}
    two_stage = [point | {"schedule": "two_stage"} for point in everything({n: GRID[n] for n in ("epsilon", "switch")})]
    linear = [{"epsilon": epsilon, "schedule": "linear", "end": 0.8} for epsilon in GRID["epsilon"]]

    def score(values: dict[str, Any]) -> float:
        return float(values.get("switch", 0.0)) + (values["schedule"] == "linear") / 4

    rows = {row.hyperparameter: row for row in compute_importances(results(two_stage + linear, score, grid), [])}
    assert (rows["switch"].n_configurations, rows["schedule"].n_configurations) == (12, 16)
    assert rows["switch"].shares["R10@1"] > 0.95
    assert rows["schedule"].shares["R10@1"] > 0.1
    assert "end" not in rows


def test_where_nothing_can_be_said_no_number_is() -> None:
    few = compute_importances(
        results(everything(GRID)[: MIN_CONFIGURATIONS - 1], lambda values: values["epsilon"], GRID), []
    )
    assert {(row.reason, len(row.shares)) for row in few} == {(f"fewer than {MIN_CONFIGURATIONS}", 0)}
    flat = compute_importances(results(everything(GRID), lambda values: 0.5, GRID), [])
    assert {row.reason for row in flat} == {"all scores are equal"}
    fixed = [point for point in everything(GRID) if point["switch"] == 0.5]
    one = {
        row.hyperparameter: row
        for row in compute_importances(results(fixed, lambda values: values["epsilon"], GRID), [])
    }
    assert one["switch"].reason == "one value was tried"
    assert one["epsilon"].shares["R10@1"] > 0.95


@given(
    st.lists(st.one_of(st.integers(-3, 3), st.floats(-3, 3, allow_nan=False)), min_size=1, max_size=8, unique=True),
    st.lists(st.one_of(st.integers(-9, 9), st.floats(-9, 9, allow_nan=False)), max_size=12),
)
def test_a_number_is_told_by_its_place_among_all_values(grid: list[float], tried: list[float]) -> None:
    """The oracle looks every value up in the sorted list."""
    own = [{"epsilon": value} for value in [*grid, *tried]]
    search = results(own, lambda _: 0.0, {"epsilon": grid}).search
    assert search is not None
    axis = _build_axis(search.systems["T-LS"], "epsilon")
    values = sorted({*grid, *tried})
    assert [axis.places[value["epsilon"]] for value in own] == [values.index(value["epsilon"]) for value in own]
    assert axis.distribution == FloatDistribution(-0.5, len(values) - 0.5)


class _Counted(tuple[Proposal, ...]):
    """Counts how often all proposals are gone through."""

    passes = 0

    def __iter__(self) -> Iterator[Proposal]:
        _Counted.passes += 1
        return super().__iter__()


def test_the_work_grows_with_the_proposals_and_no_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    def passes(count: int) -> int:
        made = results([{"epsilon": i / count} for i in range(count)], lambda values: values["epsilon"], GRID)
        assert made.search is not None
        search = made.search.systems["T-LS"]
        counted = search.model_copy(update={"proposals": _Counted(search.proposals)})
        monkeypatch.setattr(_Counted, "passes", 0)
        compute_importances(replace(made, search=SearchLog.model_construct(systems={"T-LS": counted})), [])
        return _Counted.passes

    assert passes(20) == passes(80) < 10


class _Fixed:
    """A configuration with these scores (seeds, queries)."""

    def __init__(self, number: int, scores: np.ndarray) -> None:
        self.id, self._scores = str(number), scores

    def evaluate_queries(self, plan: Plan, phase: str) -> np.ndarray:
        assert phase == "search"
        return self._scores


@pytest.mark.parametrize(("spread", "low", "high"), [(0.0, 0.7, 1.0), (1.0, 0.0, 0.05)])
def test_the_share_of_the_seeds(spread: float, low: float, high: float) -> None:
    """Nothing but noise: the seeds make nearly all of it; real differences: nearly nothing, whatever a seed does to
    all configurations alike."""
    rng = np.random.default_rng(4)
    made = results(everything(GRID), lambda values: 0.0, GRID)
    assert made.search is not None
    alike = rng.normal(0, 5, 5)
    found = [_Fixed(n, (rng.normal(0, 0.1, 5) + alike + spread * n / 36)[:, None]) for n in range(36)]
    share = compute_seeds_share(made.plan, made.search.systems["T-LS"], found)  # type: ignore[arg-type]
    assert share is not None
    assert low <= share <= high
