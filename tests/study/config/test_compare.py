"""Studies with one system for each value of a smoothing hyperparameter: systems, plan, spaces, sweeps, mistakes."""

import re
from typing import Any

import pytest
import yaml

from records.plan import Plan
from study.config import trial_params as hyperparameters
from study.config.loader import load_study
from study.config.spaces import count_proposals, make_system_space
from study.config.study_class import get_study_class
from study.config.systems import get_systems
from study.plan.analysis_plan import build_plan
from study.plan.shared_training import bound_instances_with_sharing
from study.wandb_sweeps import sweep_export as sweep_files
from trainables.utils.errors import UserError

ONE_EACH = ["search.n_configurations.LS=1", "search.n_configurations.WSLS=1"]
GRIDS = ["search.epsilon=[0.1, 0.25]", "search.schedule_settings.switch=[0.25, 0.5, 0.75]"]
POINTWISE = 'variants=["BERT", "LS", "T-LS", "WSLS", "T-WSLS"]'
EPSILON = [POINTWISE, "search.compare=epsilon", *GRIDS, *ONE_EACH]


def encoders(**search: Any) -> Any:
    return get_study_class("sentence-encoder").model_validate({"name": "encoders", "search": search})


def test_each_value_is_a_system_of_each_variant_that_has_the_hyperparameter():
    found = get_systems(load_study("quick", EPSILON))
    smoothed = [f"{variant}-{value}" for variant in ("LS", "T-LS", "WSLS", "T-WSLS") for value in ("0.1", "0.25")]
    assert list(found) == ["BERT", *smoothed]
    switches = [POINTWISE, "search.compare=switch", "search.schedule_settings.switch=[0.5]"]
    assert list(get_systems(load_study("quick", switches))) == ["BERT", "LS", "T-LS-0.5", "WSLS", "T-WSLS-0.5"]
    noise = get_systems(encoders(compare="multiple", multiple=(0.5, 1.0, 16.0)))
    heads = ("GS-InfoNCE", "T-GS-InfoNCE")
    assert list(noise) == ["SimCSE", *(f"{head}-{value}" for head in heads for value in ("0.5", "1", "16"))]


@pytest.mark.parametrize("compared", ["epsilon", "switch", "schedule"])
def test_the_systems_of_a_variant_divide_its_configurations_among_them(compared):
    few = [f"search.n_configurations.{name}=1" for name in ("LS", "WSLS", "T-LS", "T-WSLS")]
    changes = [*GRIDS, *few]
    if compared == "schedule":
        changes += ['search.schedule=["two_stage", "linear", "beta"]', "search.schedule_settings.a=[1.0, 2.0]"]
    whole, made = load_study("quick", changes), load_study("quick", [*changes, f"search.compare={compared}"])
    for variant in whole.variants:
        own = [name for name, system in get_systems(made).items() if system.variant == variant]
        parts = [make_system_space(made, name).points for name in own]
        everything = [point for part in parts for point in part]
        assert sorted(map(repr, everything)) == sorted(map(repr, make_system_space(whole, variant).points))
        assert all(len({point.values.get(compared) for point in part}) == 1 for part in parts)


def test_the_default_of_a_system_has_its_own_value_and_else_the_published_ones():
    made = load_study("quick", ['search.schedule=["two_stage", "linear"]', *EPSILON])
    space = make_system_space(made, "T-LS-0.25")
    defaults = [dict(params.smoothing) for params in space.list_default_configurations()]
    assert defaults == [
        {"epsilon": 0.25, "schedule": "two_stage", "switch": 0.5},
        {"epsilon": 0.25, "schedule": "linear", "end": 0.8},
    ]
    switched = make_system_space(load_study("quick", ["search.compare=switch"]), "T-WSLS-0.75")
    (default,) = switched.list_default_configurations()
    assert dict(default.smoothing) == {"epsilon": 0.2, "schedule": "two_stage", "switch": 0.75}


def test_the_number_of_a_variant_is_that_of_each_of_its_systems():
    counts = count_proposals(load_study("quick", [*EPSILON, "search.n_configurations.T-LS=2"]))
    assert counts == {
        **{f"{name}-{value}": 1 for name in ("LS", "WSLS") for value in ("0.1", "0.25")},
        **{f"T-LS-{value}": 2 for value in ("0.1", "0.25")},
        **{f"T-WSLS-{value}": 3 for value in ("0.1", "0.25")},
    }
    assert count_proposals(encoders(compare="multiple", multiple=(1.0, 3.0)))["GS-InfoNCE-3"] == 1


def test_the_plan_pairs_systems_of_the_same_value_and_names_variant_and_value():
    plan = build_plan(load_study("quick", EPSILON), "sha256:0")
    against_baseline = [[name, "BERT"] for name in plan["systems"][1:]]
    pairs = [["T-WSLS-0.1", "T-LS-0.1"], ["T-WSLS-0.25", "T-LS-0.25"]]
    assert plan["families"][0]["comparisons"] == [*against_baseline, *pairs]
    read = Plan.model_validate(plan)
    assert (read.compared.hyperparameter, read.compared.systems["T-LS-0.25"].value) == ("epsilon", 0.25)
    assert [read.get_variant(name) for name in ("T-LS-0.25", "BERT")] == ["T-LS", "BERT"]


def test_systems_of_different_values_share_their_first_segments():
    changes = ["training.instances=640", "seeds=[1]", 'variants=["BERT", "T-LS"]', "search.epsilon=[0.2]", GRIDS[1]]
    whole = load_study("quick", [*changes, "search.n_configurations.T-LS=3"])
    apart = load_study("quick", [*changes, "search.n_configurations.T-LS=1", "search.compare=switch"])
    assert bound_instances_with_sharing(apart) == bound_instances_with_sharing(whole) == (2080, 2080)


def test_a_sweep_is_of_one_system_and_its_value_may_be_left_out(tmp_path):
    made = load_study("quick", EPSILON)
    paths = sweep_files.export_sweeps(made, sweep_files.StudyReference("quick", EPSILON), tmp_path)
    assert [path.name for path in paths][:3] == ["ls-0.1.yaml", "ls-0.25.yaml", "t-ls-0.1.yaml"]
    content = yaml.safe_load(paths[3].read_text())
    assert content["parameters"]["variant"] == {"value": "T-LS-0.25"}
    assert content["parameters"]["epsilon"] == {"values": [0.25]}
    given = {"variant": "T-LS-0.25", "switch": "0.5"}
    expected = {"epsilon": 0.25, "schedule": "two_stage", "switch": 0.5}
    assert hyperparameters.parse_trial_params(made, given).params.values == expected
    assert hyperparameters.parse_trial_params(made, {**given, "epsilon": "0.25"}).params.values == expected
    with pytest.raises(UserError, match=re.escape("--sweep epsilon: 0.1; expected 0.25, the only value of T-LS-0.25")):
        hyperparameters.parse_trial_params(made, {**given, "epsilon": "0.1"})


def test_the_curriculum_of_the_baseline_goes_with_compared_values():
    changes = [*EPSILON, 'curriculum.variants=["BERT"]', "training.sampling=uniform"]
    assert list(get_systems(load_study("quick", changes)))[-2:] == ["T-WSLS-0.25", "CL"]
