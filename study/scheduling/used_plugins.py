"""Lists the plug-ins that a run uses."""

from search_spaces.study_type import STUDY_TYPES
from trainables.curriculum import DIFFICULTY_SCORES, PACING
from trainables.data.tasks import TASKS
from trainables.losses import LOSSES
from trainables.metrics import METRICS
from trainables.smoothing import DISTRIBUTIONS, SCHEDULES
from trainables.specs.run_spec import RunSpec
from trainables.specs.samplers import SAMPLERS

_CHOICES = (
    (TASKS, "task.name"),
    (SAMPLERS, "task.sampler.name"),
    (SAMPLERS, "task.evaluation_sampler.name"),
    (METRICS, "training.checkpoint"),
    (SCHEDULES, "variant.schedule"),
    (DISTRIBUTIONS, "variant.distribution"),
    (LOSSES, "variant.loss"),
    (PACING, "curriculum.pacing"),
    (DIFFICULTY_SCORES, "curriculum.score"),
)
"""Registry, and the setting of a specification that names an entry."""


def list_plugins(specification: RunSpec, trainable: str) -> tuple[str, ...]:
    """Return name and digest of the plug-ins that a run uses, in alphabetical order."""
    found = {STUDY_TYPES.find_plugin(trainable)}
    for registry, path in _CHOICES:
        value: object = specification
        for name in path.split("."):
            value = getattr(value, name, None)
        found.add(registry.find_plugin(value))
    return tuple(sorted(filter(None, found)))
