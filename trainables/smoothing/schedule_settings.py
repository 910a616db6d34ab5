"""Settings of all schedules, and the fields that classes of settings have for them.

The fields are made from the signatures of the schedules, so a schedule with a setting of its own needs no change of
the classes that have one. The module loads the schedules of installed packages.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import create_model

from trainables.smoothing.schedules import SCHEDULES
from trainables.smoothing.signatures import ScheduleSetting, read_settings, takes_batch_size
from trainables.utils.base_settings import Settings

S = TypeVar("S", bound=Settings)

_SIGNATURES = {entry.name: read_settings(entry.load_target()) for entry in SCHEDULES.entries}
SCHEDULE_SETTINGS: dict[str, dict[str, float]] = {
    schedule: {name: setting.default for name, setting in settings.items()}
    for schedule, settings in _SIGNATURES.items()
}
"""Name of a schedule -> its settings, with the defaults of the function, which are the published values."""
SETTINGS: dict[str, ScheduleSetting] = {
    name: next(settings[name] for settings in _SIGNATURES.values() if name in settings)
    for own in _SIGNATURES.values()
    for name in own
}
"""Name of a setting -> the setting, as the first schedule that has it declares it."""
WITH_BATCH_SIZE = frozenset(entry.name for entry in SCHEDULES.entries if takes_batch_size(entry.load_target()))
"""Names of the schedules that need the number of instances per batch."""


def add_schedule_fields(make_field: Callable[[ScheduleSetting], tuple[Any, Any]]) -> Callable[[type[S]], type[S]]:
    """Return a class decorator that adds a field for each setting of the schedules.

    A name that the class already has is left out. `search_spaces.registry.StudyType` reports it.

    Args:
        make_field: returns the type and the field of a setting.
    """

    def add_fields(cls: type[S]) -> type[S]:
        free = [name for name in SETTINGS if name not in cls.model_fields and not hasattr(cls, name)]
        fields: dict[str, Any] = {name: make_field(SETTINGS[name]) for name in free}
        return create_model(cls.__name__, __base__=cls, __module__=cls.__module__, __doc__=cls.__doc__, **fields)

    return add_fields


def has_schedule_field(settings: type[Settings], name: str) -> bool:
    """Return whether the field of this name is the one that `add_schedule_fields` made."""
    field = settings.model_fields.get(name)
    return field is not None and SETTINGS[name] in field.metadata


def is_generated(settings: type) -> bool:
    """Return whether `add_schedule_fields` made a class, which then has no source of its own."""
    base = settings.__base__
    return base is not None and (base.__module__, base.__qualname__) == (settings.__module__, settings.__qualname__)
