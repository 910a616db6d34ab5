"""Training as a chain of stages.

A stage is (parent stage, settings in force, instances from..to), its key the hash of those. Runs whose first instances
are trained under equal settings share keys, so the later run starts from the earlier one's checkpoint: a two-stage
schedule forks from the constant one at its switch point. Loads no torch.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from trainables.smoothing.schedules import compute_switch_instances
from trainables.specs.base import BaseSmoothing, RunSpec
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from torch import Tensor


class Segment(NamedTuple):
    """Instances start..stop, trained under one smoothing, never two_stage: that makes two segments."""

    start: int
    stop: int
    smoothing: BaseSmoothing


class TrainedBy(NamedTuple):
    """Who trained the instances up to `stop`, from where the origin before it ends."""

    stop: int
    owner: str


class BestEvaluation(NamedTuple):
    """An evaluation of the development set: after how many instances, and its metric that decides which weights a run
    ends with."""

    instances: int
    value: float


class Checkpoint(NamedTuple):
    """The state of training after some instances."""

    instances: int
    tensors: "dict[str, Tensor]"
    history: list[dict[str, float]]
    origins: tuple[TrainedBy, ...] = ()
    best: BestEvaluation | None = None  # so far; None where a run ends with its last weights


def split_into_segments(variant: BaseSmoothing, total: int, batch_size: int) -> list[Segment]:
    """The stretches of training over which the settings in force do not change."""
    variant = variant.canonicalize()
    parts = [Segment(0, total, variant)]
    if variant.schedule == "two_stage":
        assert variant.switch is not None
        cut = min(compute_switch_instances(variant.switch, total, batch_size), total)
        parts = [Segment(0, cut, variant.to_constant()), Segment(cut, total, type(variant)())]
    return [part for part in parts if part.start < part.stop]


def get_run_segments(specification: RunSpec) -> list[Segment]:
    """The segments of a run that trains; none without instances."""
    training = specification.training
    assert training is not None
    return split_into_segments(specification.variant, training.instances, training.batch_size)


def checkpoint_key(specification: RunSpec, instances: int) -> str:
    """Key of the state after `instances`: the hash chained over the segments up to there."""
    root = specification.model_dump(mode="json", exclude={"variant"})
    key = hash_json({"root": root})
    for part in get_run_segments(specification):
        if part.start < instances:
            stop = min(part.stop, instances)
            key = hash_json({"parent": key, "smoothing": part.smoothing.model_dump(mode="json"), "to": stop})
    return key


def plan_checkpoints(specification: RunSpec, fork_points: Iterable[int]) -> list[int]:
    """The instances, increasing, after which a run's state is worth keeping: where another run may fork from it, which
    is only while labels are smoothed at constant strength, and the end.

    Args:
        specification: the run.
        cuts: where runs of its study turn their smoothing off.
    """
    parts = get_run_segments(specification)
    smoothed = [part for part in parts if part.smoothing.initial_strength > 0 and part.smoothing.schedule == "constant"]
    forks = {cut for cut in fork_points if any(part.start < cut <= part.stop for part in smoothed)}
    return sorted(forks | {part.stop for part in parts[-1:]})


def count_instances_trained_by(owner: str, origins: Iterable[TrainedBy]) -> int:
    """How many of the instances were trained by `owner`."""
    total, start = 0, 0
    for origin in origins:
        total += origin.stop - start if origin.owner == owner else 0
        start = origin.stop
    return total
