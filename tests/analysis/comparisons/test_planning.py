"""A planned study would find, pair by pair, what scores that exist say."""

import math
from typing import Any

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from analysis.comparisons.planning import (
    compute_detectable_effects,
    estimate_from_results,
    estimate_from_scores,
    read_pilot,
)
from analysis.data.score_table import ScoreTable
from analysis.readers.study_reader import read_records
from analysis.stats.interim_tests import get_alpha_shares
from analysis.stats.pooled import compute_pooled_df
from analysis.stats.power import DifferenceVariance, minimum_detectable_effect
from records.plan import Plan
from tests.analysis import builders
from trainables.utils.errors import UserError

VARIANTS = [("LS", "BERT"), ("T-LS", "BERT"), ("T-LS", "BM25")]
SWITCH = ("T-LS", "LS")
VARIANCE = DifferenceVariance(1e-4, 1e-3, 1e-2)


def plan_of(**changes: Any) -> Plan:
    families = [
        {"name": "other metrics", "comparisons": VARIANTS, "metrics": ["MAP"]},
        {"name": "variants", "comparisons": VARIANTS},
        {"name": "switch", "comparisons": [SWITCH]},
        {"name": "on dev", "comparisons": [("LS", "BERT")], "split": "dev"},
    ]
    settings = {"study": "demo", "task": "toy", "alpha": 0.05, "seeds": (1, 2), "metric": "R10@1"}
    return Plan.model_validate({**settings, "systems": ("BERT", "LS", "T-LS"), "families": families, **changes})


def effects(plan: Plan, variances: dict[tuple[str, str], DifferenceVariance], *seeds: int) -> dict[Any, Any]:
    found = compute_detectable_effects(plan, variances, 500, seeds)
    return {(row.family, row.system, row.baseline): row.effects for row in found}


def test_every_pair_of_trained_systems_on_test_by_the_plan_s_metric_has_a_row_and_unknown_ones_say_so():
    found = effects(plan_of(), {SWITCH: VARIANCE}, 1, 5)
    assert found.keys() == {("variants", "LS", "BERT"), ("variants", "T-LS", "BERT"), ("switch", *SWITCH)}
    assert found["variants", "LS", "BERT"] == [None, None]
    assert found["switch", *SWITCH][0] is None
    assert found["switch", *SWITCH][1] is not None


@pytest.mark.parametrize("group_size", [None, 4])
def test_the_level_is_that_of_one_comparison_of_its_family_at_the_last_look(group_size):
    found = effects(plan_of(group_size=group_size), {VARIANTS[0]: VARIANCE, SWITCH: VARIANCE}, 12)
    share = get_alpha_shares((4, 8, 12))[-1] if group_size else 1.0
    for key, count in ((("variants", *VARIANTS[0]), 3), (("switch", *SWITCH), 1)):
        expected = minimum_detectable_effect(VARIANCE.estimate(12, 500), 0.05 * share / count)
        assert found[key] == [pytest.approx(expected)]


def test_where_seeds_dominate_it_is_the_effect_of_a_t_test_over_seeds():
    """The oracle: the power of statsmodels."""
    found = effects(plan_of(), {SWITCH: DifferenceVariance(1e-4, 0.0, 1e-12)}, 4, 30)["switch", *SWITCH]
    for seeds, effect in zip((4, 30), found, strict=True):
        assert TTestPower().power(effect / 0.01, seeds, 0.05) == pytest.approx(0.8, abs=1e-3)


def test_the_variances_are_those_of_the_pair_s_own_differences():
    """Systems that share effects of seeds differ less, and the third system does not matter."""
    rng = np.random.default_rng(1)
    base, rest = rng.normal(size=(200, 1, 400)), 0.1 * rng.normal(size=(3, 200, 400))
    common, apart = rng.normal(0, 0.3, (200, 1)), rng.normal(0, 0.3, (200, 1))
    values = {"BERT": base[0] + apart + rest[0], "LS": base[0] + common + rest[1]}
    values["T-LS"] = base[0] + common + rest[2]
    pilot = estimate_from_scores(plan_of(), ScoreTable([*range(200)], [*range(400)], values))
    assert pilot.variances[SWITCH].seed < 1e-4
    assert pilot.variances[SWITCH].rest == pytest.approx(0.02, rel=0.05)
    assert pilot.variances["LS", "BERT"].seed == pytest.approx(2 * 0.3**2, rel=0.25)
    assert (pilot.source, pilot.queries) == ("scores of 200 seeds and 400 queries", 400)


def test_pairs_without_two_seeds_or_with_gaps_are_absent():
    values = {"BERT": np.ones((2, 5)), "LS": np.ones((1, 5)), "T-LS": np.full((2, 5), math.nan)}
    assert estimate_from_scores(plan_of(), ScoreTable([1, 2], [*range(5)], values)).variances == {}


def test_a_sequential_study_that_stopped_early_says_what_its_test_scores_say(tmp_path):
    runs = builders.study_runs((1, 2), grid=False)
    plan = builders.plan_of(runs, seeds=[1, 2], confirm_seeds=[1, 2, 3, 4], group_size=2)
    builders.write_records(tmp_path, plan, runs)
    pilot = estimate_from_results(Plan.model_validate(builders.plan_of(runs)), read_records(tmp_path))
    assert (pilot.source, pilot.queries) == ("test scores of 2 seeds and 60 queries", 60)


def test_a_study_of_one_system_has_no_pair_to_plan():
    plan = plan_of(systems=("BERT",), families=[{"name": "sanity", "comparisons": [("BERT", "BM25")]}])
    fault = "^--records: archive:seeds-docstrings; expected a study that compares trained systems$"
    with pytest.raises(UserError, match=fault):
        read_pilot(plan, "archive:seeds-docstrings")


def test_pooled_seeds_count_as_those_of_the_family_where_these_vary_more():
    noisy = VARIANCE._replace(seed=4e-4)
    variances = {VARIANTS[0]: VARIANCE, VARIANTS[1]: noisy, SWITCH: VARIANCE}
    own, pooled = (effects(plan_of(seed_variance=how), variances, 3, 10) for how in ("own", "pooled"))
    df = compute_pooled_df(VARIANTS, 3, 500)
    for pair, seed in ((VARIANTS[0], 2.5e-4), (VARIANTS[1], 4e-4)):
        estimate = VARIANCE._replace(seed=seed).estimate(3, 500)._replace(df=df)
        expected = minimum_detectable_effect(estimate, 0.05 / 3)
        assert pooled["variants", *pair] == [pytest.approx(expected), own["variants", *pair][1]]
    assert pooled["switch", *SWITCH] == own["switch", *SWITCH]
