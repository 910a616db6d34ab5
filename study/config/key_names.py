"""Keys of study files whose names differ from those of the fields of `Study`.

Ids of runs and hashes of plans contain the names of the fields, so a field keeps its name. Documentation and messages
name the key of the study file. In a study file and in KEY=VALUE a user may write either.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from trainables.utils.errors import UserError

_KEYS = {
    "search.trials": "search.n_configurations",
    "search.parallel": "search.round_size",
    "output.records": "output.remote",
    "cache.stages": "cache.checkpoints",
    "cache.interval": "cache.checkpoint_interval",
    "cache.budget": "cache.max_size",
    "model.layers": "model.num_layers",
    "model.fresh_layers": "model.reinit_layers",
    "task.sampler.authors": "task.sampler.paper_code",
    "task.evaluation_sampler.authors": "task.evaluation_sampler.paper_code",
}
"""Dotted name of a field -> its key in study files."""
_FIELDS = {key: field for field, key in _KEYS.items()}


class Source(NamedTuple):
    """Settings that one place gives: a study file or an override.

    Attributes:
        place: the file, or the command line.
        data: the settings as nested tables, by the names of the fields.
        written_keys: dotted name of a field -> the key as the user wrote it, for the settings and their tables.
        errors: an error for every setting that the place gives by both names.
    """

    place: str
    data: dict[str, Any]
    written_keys: dict[str, str]
    errors: list[UserError]


def get_study_file_key(field: str) -> str:
    """Return the key of a study file by the dotted name of its field.

    Example:
        >>> get_study_file_key("search.trials.X"), get_study_file_key("search.sampler")
        ('search.n_configurations.X', 'search.sampler')
    """
    for name, key in _KEYS.items():
        if field == name or field.startswith(f"{name}."):
            return key + field.removeprefix(name)
    return field


def make_key_conflict(place: str, key: str, other: str) -> UserError:
    """Return the error for two keys that give the same setting."""
    return UserError(f"{place}: {key}", f"given twice, also as {other}", "only one of them")


def rename_to_fields(place: str, data: Mapping[str, Any], known: Collection[str]) -> Source:
    """Rename the keys of a place to the names of the fields.

    Args:
        place: the place that gives the settings.
        data: the settings as nested tables, as the user wrote them.
        known: dotted names of the fields that a study has; other keys are not renamed.

    Example:
        >>> source = rename_to_fields("mine.toml", {"search": {"round_size": 4}}, ["search", "search.parallel"])
        >>> source.data, source.written_keys["search.parallel"]
        ({'search': {'parallel': 4}}, 'search.round_size')
    """
    source = Source(place, {}, {}, [])
    _rename_table(source, data, source.data, known, "", "")
    return source


def _rename_table(
    source: Source, data: Mapping[str, Any], renamed: dict[str, Any], known: Collection[str], prefix: str, written: str
) -> None:
    has_free_keys = bool(prefix) and not any(field.startswith(prefix) for field in known)
    for name, value in data.items():
        field, own_name, key = prefix + name, name, written + name
        if "." in name and not has_free_keys:
            found = f"{name!r} in quotes"
            source.errors.append(UserError(f"{source.place}: {key}", found, "a key without a dot in it"))
            continue
        if (renamed_field := _FIELDS.get(field, "")) in known:
            field, own_name = renamed_field, renamed_field.rpartition(".")[2]
        if field in source.written_keys:
            source.errors.append(make_key_conflict(source.place, key, source.written_keys[field]))
        source.written_keys[field] = key
        if isinstance(value, dict):
            renamed[own_name] = {}
            _rename_table(source, value, renamed[own_name], known, f"{field}.", f"{key}.")
        else:
            renamed[own_name] = value
