"""Installed packages that add to the registries: what is wrong with them, and which of them a run uses."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from search_spaces.registry import TRAINABLES, find_study_type_errors
from trainables.specs.base import RunSpec
from trainables.utils.errors import UserError, raise_if_any
from trainables.utils.registry import Registry, find_providers, load_object

if TYPE_CHECKING:
    from trainables.specs.trial import TrialSpec

_REGISTRIES = {
    "tasks": "trainables.data.tasks:TASKS",
    "negative_samplers": "trainables.specs.samplers:SAMPLERS",
    "metrics": "trainables.metrics:METRICS",
    "schedules": "trainables.smoothing:SCHEDULES",
    "distributions": "trainables.smoothing:DISTRIBUTIONS",
    "variants": "trainables.smoothing.schedules:VARIANTS",
    "losses": "trainables.losses:LOSSES",
    "pacing": "trainables.curriculum:PACING",
    "difficulty_scores": "trainables.curriculum:DIFFICULTY_SCORES",
}
"""Group of entry points -> registry that they add to, imported only if there are any."""
_NAMES = {
    "tasks": ("task.name",),
    "negative_samplers": ("task.sampler.name", "task.evaluation_sampler.name"),
    "metrics": ("training.checkpoint",),
    "schedules": ("variant.schedule",),
    "distributions": ("variant.distribution",),
    "losses": ("variant.loss",),
    "pacing": ("curriculum.pacing",),
    "difficulty_scores": ("curriculum.score",),
}
"""Group of entry points -> settings of a specification that name an entry."""


def check_packages() -> None:
    """Check that everything that installed packages add can be used.

    A study that ignored a broken package could train something else than its user believes.

    Raises:
        UserError: if an entry point is of an unknown group, cannot be imported, is no entry, or has a name that is
            taken; one line for each.
    """
    raise_if_any(list(_iter_errors()))


def list_packages(specification: RunSpec, trainable: str) -> tuple[str, ...]:
    """Return the packages that provide what a run uses beyond this project, as "name version".

    Args:
        specification: the run.
        trainable: name of its trainable.
    """
    found = {TRAINABLES[trainable].package} if trainable in TRAINABLES else set[str]()
    for group, names in _NAMES.items():
        if group in find_providers():
            packages = (find_package(group, _get_setting(specification, name)) for name in names)
            found |= {package for package in packages if package}
    return tuple(sorted(found))


def list_trial_packages(trial: "TrialSpec") -> tuple[str, ...]:
    """Return the packages that provide what a run uses, or the metric of its trial, as "name version"."""
    provided = {*trial.specification.packages, find_package("metrics", trial.metric)}
    return tuple(sorted(package for package in provided if package))


def find_package(group: str, name: object) -> str | None:
    """Return name and version of the package that provides an entry; None if this project does.

    Args:
        group: group of the entry points, such as "metrics".
        name: name of the entry.
    """
    return _get_registry(group).find_package(name) if group in find_providers() else None


def _iter_errors() -> Iterator[UserError]:
    groups = (*_REGISTRIES, "trainables")
    for group, providers in find_providers().items():
        if group in _REGISTRIES:
            yield from _get_registry(group).errors
        elif group not in groups:
            expected = f"one of ranker_studies.{{{', '.join(groups)}}}"
            yield from (UserError(provider.place, "an unknown group", expected) for provider in providers)
    yield from find_study_type_errors()


def _get_registry(group: str) -> Registry[Any]:
    registry: Registry[Any] = load_object(_REGISTRIES[group])
    return registry


def _get_setting(specification: RunSpec, path: str) -> object:
    value: object = specification
    for name in path.split("."):
        value = getattr(value, name, None)
    return value
