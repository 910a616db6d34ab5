"""Training as a chain of checkpoints that runs share.

The key of a checkpoint is the hash of its parent checkpoint, the smoothing since then, and its number of instances.
Runs share keys as long as they train under equal settings, so a later run starts from the checkpoint of an earlier one.
For example, a two-stage schedule forks from the constant schedule at its switch point. Loads no torch.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from trainables.smoothing.schedules import compute_switch_instances
from trainables.specs.run_spec import BaseSmoothing, RunSpec
from trainables.utils.hashing import hash_json

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS_PREFIX = "weights/"
"""What precedes the names of the trained parameters in a checkpoint."""


class Segment(NamedTuple):
    """Stretch of training under one smoothing, from instance `start` to instance `stop`.

    The schedule is never two_stage, because that makes two segments.
    """

    start: int
    stop: int
    smoothing: BaseSmoothing


class TrainedBy(NamedTuple):
    """Origin of instances: `owner` trained those from the end of the previous origin up to `stop`."""

    stop: int
    owner: str


class BestEvaluation(NamedTuple):
    """Best evaluation of the dev split, by the metric that chooses the final weights of a run."""

    instances: int  # trained before the evaluation
    value: float  # of the metric


class Checkpoint(NamedTuple):
    """Saved state of training after some instances."""

    instances: int
    tensors: "dict[str, Tensor]"
    history: list[dict[str, float]]
    origins: tuple[TrainedBy, ...] = ()
    best: BestEvaluation | None = None  # so far; None if the final weights are the last ones

    @property
    def weights(self) -> "dict[str, Tensor]":
        """Trained parameters by name, without what only further training needs."""
        return {
            key.removeprefix(WEIGHTS_PREFIX): tensor
            for key, tensor in self.tensors.items()
            if key.startswith(WEIGHTS_PREFIX)
        }


def split_into_segments(variant: BaseSmoothing, total: int, batch_size: int) -> list[Segment]:
    """Return the segments of a training of `total` instances; they begin with a whole batch."""
    variant = variant.canonicalize()
    parts = [Segment(0, total, variant)]
    if variant.schedule == "two_stage":
        assert variant.switch is not None
        cut = min(compute_switch_instances(variant.switch, total, batch_size), total)
        parts = [Segment(0, cut, variant.to_constant()), Segment(cut, total, variant.to_unsmoothed())]
    return [part for part in parts if part.start < part.stop]


def get_run_segments(specification: RunSpec) -> list[Segment]:
    """Return the segments of a run that trains; an empty list if it has no instances."""
    training = specification.training
    assert training is not None
    return split_into_segments(specification.variant, training.instances, training.batch_size)


def checkpoint_key(specification: RunSpec, instances: int) -> str:
    """Return the key of the checkpoint after some instances: a hash chained over the segments up to there."""
    root = specification.model_dump(mode="json", exclude={"variant"})
    key = hash_json({"root": root})
    for part in get_run_segments(specification):
        if part.start < instances:
            stop = min(part.stop, instances)
            key = hash_json({"parent": key, "smoothing": part.smoothing.model_dump(mode="json"), "to": stop})
    return key


def plan_checkpoints(specification: RunSpec, fork_points: Iterable[int]) -> list[int]:
    """Return the instances, in increasing order, after which a run saves a shared checkpoint.

    These are the end of training, and each point where another run may fork from this one, because it turns its
    smoothing off there. Runs fork only while the smoothing has constant strength.
    """
    parts = get_run_segments(specification)
    smoothed = [part for part in parts if part.smoothing.initial_strength > 0 and part.smoothing.schedule == "constant"]
    forks = {cut for cut in fork_points if any(part.start < cut <= part.stop for part in smoothed)}
    return sorted(forks | {part.stop for part in parts[-1:]})


def count_instances_trained_by(owner: str, origins: Iterable[TrainedBy]) -> int:
    """Return the number of instances that `owner` trained.

    Example:
        >>> count_instances_trained_by("a", [TrainedBy(100, "a"), TrainedBy(160, "b"), TrainedBy(200, "a")])
        140
    """
    total, start = 0, 0
    for origin in origins:
        total += origin.stop - start if origin.owner == owner else 0
        start = origin.stop
    return total
