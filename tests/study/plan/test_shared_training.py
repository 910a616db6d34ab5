"""The planned number of instances is that of the tree of stages; its bounds are those over all possible proposals."""

from itertools import combinations, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.ranker import STUDY_TYPE
from search_spaces.settings import ConfirmSettings
from study.config.schema import Study
from study.config.spaces import count_configurations, count_proposals, make_system_space
from study.config.study_class import get_study_class
from study.plan.shared_training import (
    Bounds,
    bound_instances_with_sharing,
    bound_instances_without_sharing,
    count_distinct_instances,
)
from trainables.specs.checkpoints import split_into_segments
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
def test_distinct_instances_are_the_union_of_all_segments(chosen: list[LabelSmoothing], batches: int) -> None:
    assert count_distinct_instances(chosen, batches * BATCH, BATCH) == union(chosen, batches * BATCH)


Chosen = tuple[tuple[LabelSmoothing, tuple[tuple[str, Any], ...]], ...]


def proposals(study: Study, name: str) -> list[Chosen]:
    """All sets of configurations that a search may end with: the papers' values are proposed first."""
    space = make_system_space(study, name)
    points, count = space.list_configurations(), count_proposals(study)[name]
    default = next((point for point in space.list_default_configurations()[:1] if point in points), None)
    sets = [chosen for chosen in combinations(points, count) if default is None or default in chosen]
    return [
        tuple((STUDY_TYPE.make_smoothing(name, dict(p.smoothing)), p.optimisation) for p in chosen) for chosen in sets
    ]


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
            "search": {"epsilon": epsilon, "switch": switch, "trials": trials, **search},
        }
    )


def spent(chosen: Chosen, batches: int) -> int:
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


@settings(max_examples=60)
@given(st.data(), grids, spaces, st.integers(1, 9), st.integers(1, 3))
def test_bounds_are_those_over_all_choices(
    data: st.DataObject, grid: tuple[list[float], list[float]], space: dict[str, Any], batches: int, seeds: int
) -> None:
    names = sorted(data.draw(st.sets(st.sampled_from(["LS", "T-LS"]), min_size=1)))
    whole = study_of(batches, grid, dict.fromkeys(names, 1), **space)
    trials = {name: data.draw(st.integers(1, min(3, count_configurations(whole, name))), name) for name in names}
    trials |= {"BERT": 1} if "learning_rate" in space else {}
    study = study_of(batches, grid, trials, seeds, **space)
    own = tuple((name, 1e-5) for name in study.search.optimisation_grid)
    baseline = ((LabelSmoothing(), own),)
    choices = product(*(proposals(study, name) for name in names))
    counts = [spent(sum(chosen, baseline), batches) for chosen in choices]
    assert bound_instances_with_sharing(study) == Bounds(seeds * min(counts), seeds * max(counts))
    assert (
        bound_instances_without_sharing(study).low
        == bound_instances_without_sharing(study).high
        == seeds * len(baseline + names_of(trials)) * batches * BATCH
    )


def names_of(trials: dict[str, int]) -> tuple[str, ...]:
    """One name a proposal of a smoothed variant."""
    return tuple(name for name, count in trials.items() if name != "BERT" for _ in range(count))


def test_a_confirmation_trains_the_defaults_and_at_most_one_run_more_for_each_variant() -> None:
    grid, trials = ([0.2], [0.5]), {"LS": 1, "T-LS": 1}
    search, whole = bound_instances_with_sharing(study_of(8, grid, trials)), study_of(8, grid, trials)
    study = whole.model_copy(update={"confirm": ConfirmSettings(seeds=(7, 8))})
    assert bound_instances_with_sharing(study) == (
        search.low + 2 * search.low,
        search.high + 2 * (search.high + 2 * 32),
    )
    assert bound_instances_without_sharing(study) == ((3 + 2 * 3) * 32, (3 + 2 * 5) * 32)


def test_two_distributions_share_nothing_but_the_baseline() -> None:
    grid = ([0.1, 0.2], [0.25, 0.5])
    each = [
        bound_instances_with_sharing(study_of(8, grid, trials))
        for trials in ({"LS": 1, "T-LS": 2}, {"WSLS": 2, "T-WSLS": 1})
    ]
    both = bound_instances_with_sharing(study_of(8, grid, {"LS": 1, "T-LS": 2, "WSLS": 2, "T-WSLS": 1}))
    assert both == (each[0].low + each[1].low - 32, each[0].high + each[1].high - 32)


def test_a_whole_grid_leaves_no_choice() -> None:
    """1 baseline, 2 columns of a whole run and tails of 3/4 and 1/2."""
    found = bound_instances_with_sharing(study_of(8, ([0.1, 0.2], [0.25, 0.5]), {"LS": 2, "T-LS": 4}))
    assert found == (32 + 2 * (32 + 24 + 16),) * 2
    assert str(found) == "176"


def test_a_large_grid_is_counted_without_trying_all_choices() -> None:
    grid = ([round(0.02 * i, 2) for i in range(1, 21)], [round(i / 21, 3) for i in range(1, 21)])
    study = study_of(100, grid, {"LS": 10, "T-LS": 60})
    low, high = bound_instances_with_sharing(study)
    assert low < high < bound_instances_without_sharing(study).low
