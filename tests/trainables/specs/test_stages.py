"""A stage's key is equal exactly where the training up to it is."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.small import BASELINE, BATCH_SIZE, LS, TRAINING, specification
from trainables.smoothing.schedules import SCHEDULES, get_defaults
from trainables.specs.checkpoint_chain import (
    TrainedBy,
    checkpoint_key,
    count_instances_trained_by,
    get_run_segments,
    plan_checkpoints,
    split_into_segments,
)
from trainables.specs.ranker import LabelSmoothing, RankerRunSpec
from trainables.specs.run_spec import Environment

distributions = st.sampled_from(["uniform", "weak_supervision"])
epsilons = st.floats(0.01, 1)
seen = st.lists(st.integers(1, 40).map(lambda batches: batches * BATCH_SIZE), min_size=1, max_size=6)
TOTAL = 40 * BATCH_SIZE


def made(variant: LabelSmoothing, **training: object) -> RankerRunSpec:
    """The variant as the user wrote it, not normalised."""
    return specification(instances=TOTAL, **training).model_copy(update={"variant": variant})


def two_stage(distribution: str, epsilon: float, switch: float | None) -> LabelSmoothing:
    return LabelSmoothing.model_validate(
        {"distribution": distribution, "schedule": "two_stage", "epsilon": epsilon, "switch": switch}
    )


def constant(distribution: str, epsilon: float) -> LabelSmoothing:
    return LabelSmoothing.model_validate({"distribution": distribution, "epsilon": epsilon})


def keys(run: RankerRunSpec, instances: list[int]) -> list[str]:
    return [checkpoint_key(run, number) for number in instances]


@given(distributions, epsilons, st.floats(0, 2), seen)
def test_two_stage_shares_its_first_stage_with_constant_and_nothing_after(
    distribution: str, epsilon: float, switch: float, instances: list[int]
) -> None:
    whole, forked = made(constant(distribution, epsilon)), made(two_stage(distribution, epsilon, switch))
    parts = split_into_segments(forked.variant, TOTAL, BATCH_SIZE)
    cut = sum(part.stop - part.start for part in parts if part.smoothing.epsilon > 0)
    for number in instances:
        assert (checkpoint_key(whole, number) == checkpoint_key(forked, number)) == (number <= cut)


@given(distributions, epsilons, st.none() | st.floats(0, 2))
def test_segments_cover_training_once_in_whole_batches(distribution: str, epsilon: float, switch: float | None) -> None:
    parts = split_into_segments(two_stage(distribution, epsilon, switch), TOTAL, BATCH_SIZE)
    ends = [0, *(part.stop for part in parts)]
    assert [part.start for part in parts] == ends[:-1]
    assert ends[-1] == TOTAL
    assert all(part.start < part.stop and part.stop % BATCH_SIZE == 0 for part in parts)
    smoothed = parts[0].stop if parts[0].smoothing.epsilon else 0
    share = 1 if switch is None else min(switch, 1)
    assert share * TOTAL - 1e-6 <= smoothed < share * TOTAL + BATCH_SIZE


@given(distributions, epsilons, st.floats(0, 2), seen)
def test_without_strength_or_before_a_switch_at_0_every_name_is_the_baseline(
    distribution: str, epsilon: float, switch: float, instances: list[int]
) -> None:
    expected = keys(made(BASELINE), instances)
    assert keys(made(constant(distribution, 0)), instances) == expected
    assert keys(made(two_stage(distribution, 0, switch)), instances) == expected
    assert keys(made(two_stage(distribution, epsilon, 0)), instances) == expected


@given(distributions, epsilons, st.floats(1, 9), seen)
def test_a_switch_at_the_end_or_later_is_the_constant_schedule(
    distribution: str, epsilon: float, switch: float, instances: list[int]
) -> None:
    expected = keys(made(constant(distribution, epsilon)), instances)
    assert keys(made(two_stage(distribution, epsilon, switch)), instances) == expected
    assert keys(made(two_stage(distribution, epsilon, None)), instances) == expected


def test_two_switch_points_in_one_batch_are_one_training() -> None:
    """0.51 and 0.52 of 4 batches both switch after the third."""
    after = 4 * BATCH_SIZE
    first, second = (specification(two_stage("uniform", 0.2, switch)) for switch in (0.51, 0.52))
    assert checkpoint_key(first, after) == checkpoint_key(second, after)


ENVIRONMENT = Environment(device="cpu", instruction_set="a", torch="1", transformers="1", numpy="1")
CHANGES = {
    "seed": {"seed": 2},
    "data": {"data": "other"},
    "model": {"model": {"name": "sha256:1", "max_length": 32}},
    "layers": {"model": {"name": "sha256:0", "max_length": 32, "num_layers": 2}},
    "pooling": {"model": {"name": "sha256:0", "max_length": 32, "pooling": "mean"}},
    "scores of the learning curve": {
        "model": {"name": "sha256:0", "max_length": 32, "ranking_score": "relevant_logit"}
    },
    "threads": {"training": {**TRAINING, "threads": 2}},
    "precision": {"training": {**TRAINING, "precision": "bf16"}},
    "dropout": {"training": {**TRAINING, "dropout": 0.2}},
    "total, on which the learning rate depends": {"training": {**TRAINING, "instances": 2 * BATCH_SIZE}},
    "which weights it ends with": {"training": {**TRAINING, "checkpoint": "MAP"}},
    "task": {"task": {"libraries": ["numpy"]}},
    "strength": {"variant": {"distribution": "uniform", "epsilon": 0.3}},
    "distribution": {"variant": {"distribution": "weak_supervision", "epsilon": 0.2}},
    **{
        name: {"environment": {**ENVIRONMENT.model_dump(), name: "2"}}
        for name in ("device", "instruction_set", "torch", "transformers")
    },
}


def test_everything_that_changes_the_bits_changes_the_key() -> None:
    base = specification(LS).model_copy(update={"environment": ENVIRONMENT}).model_dump(mode="json")
    runs = [RankerRunSpec.model_validate(base)]
    runs += [RankerRunSpec.model_validate({**base, **change}) for change in CHANGES.values()]
    assert len({checkpoint_key(run, BATCH_SIZE) for run in runs}) == len(runs)
    assert len({run.id for run in runs}) == len(runs)


cuts = st.lists(st.integers(1, 40).map(lambda batches: batches * BATCH_SIZE), max_size=6)


@given(distributions, epsilons, st.floats(0.01, 2), cuts)
def test_what_is_remembered_is_where_another_run_may_fork_and_the_end(
    distribution: str, epsilon: float, switch: float, cuts: list[int]
) -> None:
    run = made(two_stage(distribution, epsilon, switch))
    smoothed = sum(part.stop - part.start for part in get_run_segments(run) if part.smoothing.epsilon > 0)
    assert plan_checkpoints(run, cuts) == sorted({*(cut for cut in cuts if cut <= smoothed), TOTAL})


@pytest.mark.parametrize("schedule", [name for name in SCHEDULES if name not in ("constant", "two_stage")])
def test_smoothing_that_ends_little_by_little_shares_nothing(schedule: str) -> None:
    variant = LabelSmoothing(distribution="uniform", schedule=schedule, epsilon=0.2, **get_defaults(schedule))
    run = made(variant)
    assert plan_checkpoints(run, [BATCH_SIZE, 2 * BATCH_SIZE]) == [TOTAL]
    others = [made(constant("uniform", 0.2)), made(two_stage("uniform", 0.2, 0.5)), specification()]
    assert not {checkpoint_key(run, BATCH_SIZE)} & {checkpoint_key(other, BATCH_SIZE) for other in others}


def test_a_run_without_instances_has_nothing_to_remember() -> None:
    assert plan_checkpoints(specification(instances=0), [BATCH_SIZE]) == []


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from("abc"))))
def test_every_instance_was_trained_by_one_run(parts: list[tuple[int, str]]) -> None:
    stops = accumulate(length for length, _ in parts)
    origins = [TrainedBy(stop, owner) for stop, (_, owner) in zip(stops, parts, strict=True)]
    for owner in "abcd":
        assert count_instances_trained_by(owner, origins) == sum(length for length, other in parts if other == owner)
