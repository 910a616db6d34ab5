"""The planned number of instances is that of the tree of stages; its bounds are those over all possible proposals."""

from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.smoothing import DEFAULTS
from search_spaces.smoothing import settings as settings_of
from study.settings import TRIALS, Study
from study.sharing import Bounds, distinct, shared, unshared
from trainables.smoothing import VARIANTS
from trainables.specification import VariantSettings
from trainables.stages import segments

BATCH = 4


def union(variants: list[VariantSettings], total: int) -> int:
    """The oracle: every batch by all that was in force up to it, each once."""
    batches = set()
    for variant in variants:
        before: tuple[object, ...] = ()
        for part in segments(variant, total, BATCH):
            for _ in range(part.start, part.stop, BATCH):
                before = (*before, part.smoothing)
                batches.add(before)
    return BATCH * len(batches)


epsilons = st.sampled_from([0.0, 0.1, 0.2])
variants = st.builds(
    VariantSettings,
    distribution=st.sampled_from(["none", "uniform", "weak_supervision"]),
    schedule=st.sampled_from(["constant", "two_stage"]),
    epsilon=epsilons,
    switch=st.none() | st.floats(0, 1.2),
)


@given(st.lists(variants, max_size=8), st.integers(1, 8))
def test_distinct_instances_are_the_union_of_all_segments(chosen: list[VariantSettings], batches: int) -> None:
    assert distinct(chosen, batches * BATCH, BATCH) == union(chosen, batches * BATCH)


def proposals(study: Study, name: str) -> list[tuple[VariantSettings, ...]]:
    """All sets of configurations that a search may end with: the papers' values are proposed first."""
    space = study.search
    points = [{"epsilon": epsilon} for epsilon in space.epsilon]
    if VARIANTS[name].schedule == "two_stage":
        points = [{"epsilon": epsilon, "switch": switch} for epsilon in space.epsilon for switch in space.switch]
    default = {key: value for key, value in DEFAULTS.items() if key in points[0]}
    sets = [chosen for chosen in combinations(points, space.trials[name]) if default not in points or default in chosen]  # type: ignore[index]
    return [tuple(settings_of(name, point) for point in chosen) for chosen in sets]


def study_of(batches: int, grid: tuple[list[float], list[float]], trials: dict[str, int], seeds: int = 1) -> Study:
    epsilon, switch = grid
    return Study.model_validate(
        {
            "name": "small",
            "seeds": list(range(seeds)),
            "variants": ["BERT", *trials],
            "training": {"instances": batches * BATCH, "batch_size": BATCH, "negatives": 1},
            "search": {"epsilon": epsilon, "switch": switch, "trials": dict.fromkeys(TRIALS, 1) | trials},
        }
    )


grids = st.tuples(
    st.sampled_from([[0.2], [0.1, 0.3], [0.1, 0.2, 0.3]]),
    st.sampled_from([[0.5], [0.25, 0.5], [0.5, 0.52, 0.9], [0.001, 0.3, 0.6], [0.3, 0.31, 0.99]]),
)


@settings(max_examples=60)
@given(st.data(), grids, st.integers(1, 9), st.integers(1, 3))
def test_bounds_are_those_over_all_choices(
    data: st.DataObject, grid: tuple[list[float], list[float]], batches: int, seeds: int
) -> None:
    sizes = {"LS": len(grid[0]), "T-LS": min(4, len(grid[0]) * len(grid[1]))}
    names = data.draw(st.sets(st.sampled_from(["LS", "T-LS"]), min_size=1))
    trials = {name: data.draw(st.integers(1, sizes[name])) for name in sorted(names)}
    study = study_of(batches, grid, trials, seeds)
    baseline = VariantSettings()
    choices = product(*(proposals(study, name) for name in trials))
    counts = [distinct([baseline, *sum(chosen, ())], batches * BATCH, BATCH) for chosen in choices]
    assert shared(study) == Bounds(seeds * min(counts), seeds * max(counts))
    assert unshared(study) == seeds * (1 + sum(trials.values())) * batches * BATCH


def test_two_distributions_share_nothing_but_the_baseline() -> None:
    grid = ([0.1, 0.2], [0.25, 0.5])
    each = [shared(study_of(8, grid, trials)) for trials in ({"LS": 1, "T-LS": 2}, {"WSLS": 2, "T-WSLS": 1})]
    both = shared(study_of(8, grid, {"LS": 1, "T-LS": 2, "WSLS": 2, "T-WSLS": 1}))
    assert both == (each[0].low + each[1].low - 32, each[0].high + each[1].high - 32)


def test_a_whole_grid_leaves_no_choice() -> None:
    """1 baseline, 2 columns of a whole run and tails of 3/4 and 1/2."""
    found = shared(study_of(8, ([0.1, 0.2], [0.25, 0.5]), {"LS": 2, "T-LS": 4}))
    assert found == (32 + 2 * (32 + 24 + 16),) * 2
    assert str(found) == "176"


def test_a_large_grid_is_counted_without_trying_all_choices() -> None:
    grid = ([round(0.02 * i, 2) for i in range(1, 21)], [round(i / 21, 3) for i in range(1, 21)])
    study = study_of(100, grid, {"LS": 10, "T-LS": 60})
    low, high = shared(study)
    assert low < high < unshared(study)
