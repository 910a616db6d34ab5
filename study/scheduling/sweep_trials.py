"""Reads and writes the configurations of W&B sweeps: one file for each in the folder `swept`.

A file is written before its configuration runs. The study can thus complete the configurations of a sweep that was
killed, and the set of configurations from which it chooses does not depend on the time of the kill. Concurrent writers
of the same file write the same content.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from search_spaces.space import Params
from study.config.schema import Study
from study.config.trial_params import parse_trial_params
from study.scheduling.trials import PlannedConfiguration
from trainables.utils.errors import UserError
from trainables.utils.files import read_json, write_json

SWEPT_FOLDER = "swept"
_FROZEN_FILE = "closed.json"


def register_sweep_trial(folder: Path, item: PlannedConfiguration) -> None:
    """Save a configuration of a sweep in the folder of the study."""
    content = {"configuration_id": item.id, "variant": item.name, "values": item.params.values}
    path = folder / SWEPT_FOLDER / f"{item.id}.json"
    if not path.is_file():
        write_json(path, content, with_checksum=True)


def read_sweep_trials(study: Study, log: Callable[[str], None]) -> list[tuple[str, Params]]:
    """Read the configurations of all sweeps of a study.

    Args:
        study: the study.
        log: function that prints a line; called for each configuration that the study cannot run with its current
            settings. These configurations are skipped.

    Returns:
        System and hyperparameters of each configuration, in the order of the configuration ids.

    Raises:
        UserError: if a file is damaged.
    """
    configurations = []
    for path in sorted((study.folder / SWEPT_FOLDER).glob("*.json")):
        if path.name == _FROZEN_FILE:
            continue
        variant, values = _read_sweep_trial(path)
        try:
            parsed = parse_trial_params(study, {"variant": variant, **values})
        except UserError as error:
            log(f"Ignoring a configuration from an earlier sweep: {error}")
        else:
            configurations.append((parsed.variant, parsed.params))
    return configurations


def freeze_sweep_trials(folder: Path, ids: Iterable[str]) -> None:
    """Save the ids of the sweep configurations that the study has chosen from.

    Configurations that are swept after test scores exist cannot change the choice.
    """
    write_json(folder / SWEPT_FOLDER / _FROZEN_FILE, {"chosen_from": sorted(ids)}, with_checksum=True)


def read_frozen_ids(folder: Path) -> set[str]:
    """Return the ids of the sweep configurations that the study has chosen from.

    They are empty before it has chosen.

    Raises:
        UserError: if the file is damaged.
    """
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
    return UserError(
        str(path), "damaged", "the file as a sweep wrote it; if you delete it, the study ignores the configuration"
    )
