"""The planned number of instances is that of the tree of stages; its bounds hold for all possible proposals."""

from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.ranker_search import STUDY_TYPE
from search_spaces.search_settings import ConfirmSettings
from search_spaces.space import Params
from study.config.schema import Study
from study.config.spaces import count_configurations, count_proposals, make_system_space
from study.config.study_class import get_study_class
from study.plan.shared_training import (
    Bounds,
    bound_instances_with_sharing,
    bound_instances_without_sharing,
    count_distinct_instances,
    list_shared_beginnings,
)
from tests.study import scored
from trainables.specs.checkpoint_chain import checkpoint_key, get_run_segments, split_into_segments
from trainables.specs.ranker import LabelSmoothing

BATCH = 4


def union(variants: list[LabelSmoothing], total: int) -> int:
    """The oracle: every batch by all that was in force up to it, each once."""
    batches = set()
    for variant in variants:
        before: tuple[object, ...] = ()
        for part in split_into_segments(variant, total, BATCH):
            for _ in range(part.start, part.stop, BATCH):
                before = (*before, part.smoothing)
                batches.add(before)
    return BATCH * len(batches)


epsilons = st.sampled_from([0.0, 0.1, 0.2])
variants = st.builds(
    LabelSmoothing,
    distribution=st.sampled_from(["none", "uniform", "weak_supervision"]),
    schedule=st.sampled_from(["constant", "two_stage"]),
    epsilon=epsilons,
    switch=st.none() | st.floats(0, 1.2),
)


@given(st.lists(variants, max_size=8), st.integers(1, 8))
def test_distinct_instances_are_the_union_of_all_segments(chosen, batches):
    assert count_distinct_instances(chosen, batches * BATCH, BATCH) == union(chosen, batches * BATCH)


Run = tuple[LabelSmoothing, tuple[tuple[str, Any], ...]]


def run_of(name: str, params: Params) -> Run:
    return STUDY_TYPE.make_smoothing(name, dict(params.smoothing)), params.optimisation


def runs(study: Study, name: str) -> list[Run]:
    """One of each configuration of a variant."""
    return [run_of(name, params) for params in make_system_space(study, name).list_configurations()]


def default(study: Study, name: str) -> Run:
    return run_of(name, make_system_space(study, name).list_default_configurations()[0])


def proposals(study: Study, name: str) -> list[tuple[Run, ...]]:
    """All sets of configurations that a search may end with: the papers' values are proposed first."""
    every, first = runs(study, name), default(study, name)
    sets = combinations(every, count_proposals(study)[name])
    return [chosen for chosen in sets if first not in every or first in chosen]


def study_of(
    batches: int, grid: tuple[list[float], list[float]], trials: dict[str, int], seeds: int = 1, **search: Any
) -> Study:
    epsilon, switch = grid
    return get_study_class().model_validate(
        {
            "name": "small",
            "seeds": list(range(seeds)),
            "variants": list(dict.fromkeys(["BERT", *trials])),
            "training": {"instances": batches * BATCH, "batch_size": BATCH, "negatives": 1, "learning_rate": 1e-5},
            "search": {
                "epsilon": epsilon,
                "schedule_settings": {"switch": switch},
                "n_configurations": trials,
                **search,
            },
        }
    )


def spent(chosen: tuple[Run, ...], batches: int) -> int:
    """Distinct instances of one seed: nothing is shared between settings of training."""
    by_training: dict[Any, list[LabelSmoothing]] = {}
    for variant, training in chosen:
        by_training.setdefault(training, []).append(variant)
    return sum(count_distinct_instances(variants, batches * BATCH, BATCH) for variants in by_training.values())


grids = st.tuples(
    st.sampled_from([[0.2], [0.1, 0.3], [0.1, 0.2, 0.3]]),
    st.sampled_from([[0.5], [0.25, 0.5], [0.5, 0.52, 0.9], [0.001, 0.3, 0.6], [0.3, 0.31, 0.99]]),
)


spaces = st.sampled_from(
    [{}, {"schedule": ["two_stage", "linear"]}, {"schedule": ["cosine"]}, {"learning_rate": [1e-5, 3e-5]}]
)


@given(st.data(), grids, spaces, st.integers(1, 9), st.integers(1, 3), st.sampled_from([(), (7, 8)]))
def test_every_choice_of_a_search_lies_within_the_bounds(data, grid, space, batches, seeds, fresh):
    """With fresh seeds: of the defaults, and of any winner."""
    names = sorted(data.draw(st.sets(st.sampled_from(["LS", "T-LS"]), min_size=1)))
    whole = study_of(batches, grid, dict.fromkeys(names, 1), **space)
    sizes = {name: count_configurations(whole, name) for name in names}
    trials = {name: data.draw(st.integers(1, min(3, sizes[name])), name) for name in names}
    trials |= {"BERT": 1} if "learning_rate" in space else {}
    study = study_of(batches, grid, trials, seeds, **space)
    study = study.model_copy(update={"confirm": ConfirmSettings(seeds=fresh)})
    own = tuple((name, 1e-5) for name in study.search.optimisation_grid)
    baseline = ((LabelSmoothing(), own),)
    shared, unshared = bound_instances_with_sharing(study), bound_instances_without_sharing(study)
    chosen = [sum(choice, baseline) for choice in product(*(proposals(study, name) for name in names))]
    search = [seeds * spent(choice, batches) for choice in chosen]
    confirmation = [0]
    if fresh:
        kept = (*baseline, *(default(study, name) for name in names))
        winners = product(*(runs(study, name) for name in names))
        confirmation = [len(fresh) * spent(tuple(dict.fromkeys(kept + won)), batches) for won in winners]
    assert shared.low <= min(search) + min(confirmation)
    assert max(search) + max(confirmation) <= shared.high <= unshared.high
    if not fresh:
        assert unshared.low == unshared.high == seeds * len(chosen[0]) * batches * BATCH
        if all(trials[name] == sizes[name] for name in names) and "learning_rate" not in space:
            assert shared == Bounds(search[0], search[0])


def test_sharing_saves_at_most_everything_before_the_latest_switch_point():
    study = study_of(8, ([0.1, 0.2, 0.3], [0.25, 0.5]), {"LS": 1, "T-LS": 3}, seeds=2)
    assert bound_instances_without_sharing(study) == (2 * 5 * 32,) * 2
    assert bound_instances_with_sharing(study) == (2 * (5 * 32 - 3 * 16), 2 * 5 * 32)


def test_switch_points_in_one_batch_may_save_a_whole_run():
    study = study_of(4, ([0.1, 0.2], [0.3, 0.31]), {"T-LS": 2})
    assert bound_instances_with_sharing(study) == (16, 3 * 16)


def test_a_confirmation_trains_the_defaults_and_at_most_one_run_more_for_each_variant():
    whole = study_of(8, ([0.2], [0.5]), {"LS": 1, "T-LS": 1})
    search = bound_instances_with_sharing(whole)
    study = whole.model_copy(update={"confirm": ConfirmSettings(seeds=(7, 8))})
    assert search == (32 + 32 + 16,) * 2
    assert bound_instances_with_sharing(study) == (search.low + 2 * (3 * 32 - 16), search.high + 2 * 5 * 32)
    assert bound_instances_without_sharing(study) == ((3 + 2 * 3) * 32, (3 + 2 * 5) * 32)


def test_a_whole_grid_leaves_no_choice():
    """1 baseline, 2 columns of a whole run and tails of 3/4 and 1/2."""
    found = bound_instances_with_sharing(study_of(8, ([0.1, 0.2], [0.25, 0.5]), {"LS": 2, "T-LS": 4}))
    assert found == (32 + 2 * (32 + 24 + 16),) * 2
    assert found == Bounds(176, 176)


GRID = {"sampler": "grid", "n_configurations": {}, "epsilon": [0.1, 0.2], "schedule_settings": {"switch": [0.5, 0.75]}}


@pytest.mark.parametrize(
    ("variants", "search", "more"),
    [
        (["BERT", "LS", "T-LS", "WSLS", "T-WSLS"], {}, {}),
        (["BERT", "LS", "T-LS", "LCE", "LCE-LS", "LCE-T-LS"], {}, {}),
        (["BERT", "LS", "T-LS"], {"schedule": ["linear"]}, {}),
        (["BERT", "LS", "T-LS"], {"schedule": ["linear", "two_stage"], "compare": "schedule"}, {}),
        (["BERT", "LS", "T-LS"], {"compare": "epsilon"}, {}),
        (["BERT", "T-LS"], {"compare": "switch"}, {}),
        (
            ["BERT", "LS", "T-LS"],
            {},
            {
                "training": {"sampling": "uniform"},
                "curriculum": {"variants": ["BERT", "LS", "T-LS"], "score": ["turns"]},
            },
        ),
        (
            ["BERT"],
            {},
            {"training": {"sampling": "uniform"}, "curriculum": {"variants": ["BERT"], "compare": "pacing"}},
        ),
    ],
)
def test_systems_that_share_a_beginning_are_those_with_equal_checkpoints(tmp_path, variants, search, more):
    """The oracle: the keys of the checkpoints of every run."""
    made = scored.study(seeds=[1], variants=variants, search=GRID | search, **more)
    named = [
        (request.labels["variant"], request.trial.specification)
        for request in scored.conduct(scored.scheduler(made, tmp_path))
        if request.trial.action == "train" and request.labels["role"] == "search"
    ]
    runs_of = [(name, run) for name, run in named if run.training and run.training.instances]
    shared = set()
    for (name, run), (other, another) in combinations(runs_of, 2):
        cut = min(get_run_segments(one)[0].stop for one in (run, another))
        if name != other and checkpoint_key(run, cut) == checkpoint_key(another, cut):
            shared.add(frozenset((name, other)))
    assert {frozenset(pair) for pair in list_shared_beginnings(made)} == shared
