"""The configurations that sweeps have brought to a study: one small file each, in the folder `swept`.

A file is written before its configuration runs. So a sweep that was killed leaves what the study can complete, and what
the study chooses from does not depend on when that happened. Who writes the same file at the same time writes the same.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from search_spaces.space import Params
from study.config import trial_params as hyperparameters
from study.config.schema import Study
from study.scheduling.trials import Configuration
from trainables.utils.errors import UserError
from trainables.utils.files import read_json, write_json

SWEPT_FOLDER = "swept"
_FROZEN_FILE = "closed.json"


def register_sweep_trial(folder: Path, item: Configuration) -> None:
    """Remembers a configuration in a study's folder."""
    found = {"configuration_id": item.id, "variant": item.name, "values": item.params.values}
    path = folder / SWEPT_FOLDER / f"{item.id}.json"
    if not path.is_file():
        write_json(path, found, with_checksum=True)


def read_sweep_trials(study: Study, log: Callable[[str], None]) -> list[tuple[str, Params]]:
    """Variant and point of every configuration that was swept, in the order of their ids.

    Args:
        study: whose folder.
        say: told of those that the study cannot run as it is now; they are left out.

    Raises:
        UserError: a file is damaged.
    """
    found = []
    for path in sorted((study.folder / SWEPT_FOLDER).glob("*.json")):
        if path.name == _FROZEN_FILE:
            continue
        variant, values = _read_sweep_trial(path)
        try:
            named = hyperparameters.parse_trial_params(study, {"variant": variant, **values})
        except UserError as error:
            log(f"left out, a swept configuration that does not fit the study any more: {error}")
        else:
            found.append((named.variant, named.params))
    return found


def freeze_sweep_trials(folder: Path, ids: Iterable[str]) -> None:
    """Notes from which of them the study has chosen: what is swept after test scores exist cannot change that."""
    write_json(folder / SWEPT_FOLDER / _FROZEN_FILE, {"chosen_from": sorted(ids)}, with_checksum=True)


def read_frozen_ids(folder: Path) -> set[str]:
    """Ids of those that the study has chosen from; none where it has not chosen yet."""
    path = folder / SWEPT_FOLDER / _FROZEN_FILE
    if not path.is_file():
        return set()
    try:
        return set(read_json(path)["chosen_from"])
    except (ValueError, KeyError, TypeError) as error:
        raise _make_damage_error(path) from error


def _read_sweep_trial(path: Path) -> tuple[str, dict[str, str]]:
    try:
        content = read_json(path)
        return content["variant"], {name: str(value) for name, value in content["values"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _make_damage_error(path) from error


def _make_damage_error(path: Path) -> UserError:
    return UserError(str(path), "damaged", "the file as a sweep wrote it; without it, the configuration is forgotten")
