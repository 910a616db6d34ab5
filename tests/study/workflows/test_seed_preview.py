"""Rows of --dry-run about numbers of fresh seeds: the trainings that they take, their cost, and what they show."""

import math
from pathlib import Path
from typing import Any

import pytest

from analysis.comparisons.planning import compute_detectable_effects, estimate_dev_components
from analysis.readers.study_reader import read_records
from analysis.stats.interim_tests import get_alpha_shares
from analysis.stats.power import minimum_detectable_effect
from analysis.stats.variance_components import VarianceComponents
from records.plan import Plan
from study.plan.analysis_plan import build_plan, register_plan
from study.plan.cost_estimate import Cost
from study.workflows.seed_preview import build_seed_rows, format_seed_rows
from tests.study.driving import RESOLVED
from tests.study.scored import QUERIES, conduct, scheduler, study

SMALL: dict[str, Any] = {
    "seeds": (1, 2),
    "variants": ("BERT", "LS", "T-LS"),
    "search": {"n_configurations": {"LS": 3, "T-LS": 4}},
}


def rows(folder: Path, cost: Cost | None = None, **changes: Any) -> list[dict[str, Any]]:
    made = study(**SMALL, output={"folder": str(folder)}, **changes)
    plan = Plan.model_validate(build_plan(made, ""))
    return build_seed_rows(made, plan, cost, {"dev": QUERIES, "test": QUERIES})


def test_the_trainings_are_those_of_the_confirmation_or_fewer(tmp_path):
    made = study(**SMALL, confirm={"seeds": (11, 12, 13)})
    started = conduct(scheduler(made, tmp_path))
    fresh = [r for r in started if r.trial.action == "train" and r.labels["seed"] in made.confirm.seeds]
    trained = [r for r in fresh if r.labels["variant"] != "untrained"]
    row = next(row for row in rows(tmp_path / "other") if row["seeds"] == 3)
    won_by_default = row["trainings"] - len(trained)
    assert won_by_default in (0, 3, 6)


def test_hours_are_those_of_the_trainings_and_their_tests(tmp_path):
    found = rows(tmp_path, Cost(fixed=60, instance=1.0, test=30, once=1000, source=""))
    assert [row["seeds"] for row in found] == [3, 5, 10, 20]
    for row in found:
        trainings, tests = 5 * row["seeds"], 4 * row["seeds"]
        assert row["trial_hours"] == pytest.approx((trainings * (60 + 64) + tests * 30) / 3600, abs=1e-3)


def test_the_study_s_own_number_is_there_and_marked(tmp_path):
    found = rows(tmp_path, Cost(0, 1.0, 0, 0, ""), confirm={"seeds": (11, 12, 13, 14)})
    lines = format_seed_rows(4, found)
    assert [row["seeds"] for row in found] == [3, 4, 5, 10, 20]
    assert [line for line in lines if line.endswith("(this study)")] == [lines[2]]


def test_before_anything_is_known_one_line_says_the_trainings(tmp_path):
    (line,) = format_seed_rows(0, rows(tmp_path))
    assert line == "fresh seeds: 3 take 15, 5 take 25, 10 take 50, 20 take 100 trainings at most"
    assert format_seed_rows(0, []) == []


def test_what_seeds_show_follows_from_the_scores_of_the_search(tmp_path):
    made = study(**SMALL, output={"folder": str(tmp_path)})
    register_plan(made, RESOLVED.model_digest, tmp_path)
    conduct(scheduler(made, tmp_path))
    components = estimate_dev_components(read_records(tmp_path))
    assert components is not None
    effects = [row["detectable"] for row in rows(tmp_path)]
    plan = Plan.model_validate(build_plan(made, ""))
    assert effects == compute_detectable_effects(plan, components, QUERIES, [3, 5, 10, 20])
    assert effects == sorted(effects, reverse=True)


def test_where_seeds_dominate_the_difference_falls_as_their_root():
    plan = Plan.model_validate(build_plan(study(**SMALL), ""))
    many, four_times = compute_detectable_effects(plan, VarianceComponents(1e-4, 0.0, 1e-9), 1000, [200, 800])
    assert many is not None
    assert four_times is not None
    assert many / four_times == pytest.approx(math.sqrt(4), rel=0.02)
    assert compute_detectable_effects(plan, VarianceComponents(1e-4, 0.0, 1e-9), 1000, [1]) == [None]


@pytest.mark.parametrize("changes", [{}, {"confirm": {"seeds": tuple(range(11, 23)), "group_size": 4}}])
def test_the_level_is_that_of_one_comparison_at_the_last_look(changes):
    plan = Plan.model_validate(build_plan(study(**SMALL, **changes), ""))
    components = VarianceComponents(1e-4, 1e-3, 1e-2)
    share = get_alpha_shares((4, 8, 12))[-1] if changes else 1.0
    estimate = components.to_difference_variance().estimate(12, 500)
    expected = minimum_detectable_effect(estimate, 0.05 * share / len(plan.headline.comparisons))
    assert compute_detectable_effects(plan, components, 500, [12]) == [pytest.approx(expected)]


def test_pooled_seeds_show_smaller_differences():
    own, pooled = (
        Plan.model_validate(build_plan(study(**SMALL, analysis={"seeds": how}), "")) for how in ("own", "pooled")
    )
    components = VarianceComponents(1e-4, 1e-3, 1e-2)
    first, second = (compute_detectable_effects(plan, components, 500, [3, 10]) for plan in (own, pooled))
    assert first[0] is not None
    assert second[0] is not None
    assert second[0] < first[0]
    assert second[1] == first[1]
