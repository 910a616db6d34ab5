"""JSON files in the folder of a model: nothing in them makes a library execute code that is not its own."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from trainables.utils.errors import UserError

_OWN_ATTENTION = (None, "eager", "sdpa")
"""Attention functions that a config.json may name: those that transformers has itself, without a kernel of the hub."""


def refuse_foreign_code(path: Path, key: str) -> None:
    """Raise an error for a model that asks for code in its folder or on the hub, or for quantised weights.

    Every model passes here before a library reads it. So nothing depends on what the libraries do by default, and no
    copy of such a configuration gets into an exported folder, since users may trust the code of that.

    Raises:
        UserError: if a JSON file asks for it, or is damaged.
    """
    for name in ("config.json", "tokenizer_config.json"):
        read_json_object(path / name, key, missing={})
    for file in sorted({*path.glob("*config.json"), *path.glob("*/*config.json")}):
        if file.is_file():
            _refuse_foreign_settings(_read_json(file), f"{file.relative_to(path)} of {path.name!r}", key)


def _refuse_foreign_settings(settings: object, place: str, key: str) -> None:
    """Raise an error for such settings of a file, or of a table in it, such as `model_args` of a sentence encoder."""
    if not isinstance(settings, dict):
        return
    if settings.get("auto_map"):
        found = f"auto_map in {place}: the type {settings.get('model_type')!r} has code of its own"
        raise UserError(key, found, "a model without code, since nothing of a model's folder is executed")
    for name in ("attn_implementation", "_attn_implementation"):
        if settings.get(name) not in _OWN_ATTENTION:
            expected = "eager, sdpa or no such key, since no kernel is downloaded"
            raise UserError(key, f"{name} = {settings[name]!r} in {place}", expected)
    if settings.get("quantization_config"):
        raise UserError(key, f"quantization_config in {place}", "weights that are not quantised")
    for value in settings.values():
        _refuse_foreign_settings(value, place, key)


class ModelModule(NamedTuple):
    """Entry of the modules.json of sentence-transformers: last part of the class's name, and the subfolder."""

    kind: str
    folder: str


def read_modules(path: Path, key: str, own: tuple[str, ...] = ()) -> list[ModelModule]:
    """Return the modules of a model of sentence-transformers; none if the folder has another model.

    Args:
        path: folder of the model.
        key: name of the setting, for error messages.
        own: types of modules that this project computes itself.

    Raises:
        UserError: if modules.json is damaged, or a module is another one or not in a folder of its own.
    """
    file = path / "modules.json"
    rows = _read_json(file, missing=[])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(key, f"modules.json in {path.name!r} is damaged", "the model's own file")
    for row in rows:
        if not str(row.get("type")).startswith("sentence_transformers.") and row.get("type") not in own:
            found = f"the module {row.get('type')!r} in modules.json of {path.name!r}"
            raise UserError(key, found, "modules of sentence-transformers, since no other code is executed")
        check_subfolder(file, row.get("path"), key)
        if len(Path(row["path"]).parts) > 1:  # `refuse_foreign_code` does not look there
            raise UserError(key, f"{row['path']!r} in modules.json of {path.name!r}", "the name of a folder inside it")
    return [ModelModule(row["type"].rpartition(".")[2], row["path"]) for row in rows]


def list_module_folders(path: Path) -> list[str]:
    """Return the folders of the modules of sentence-transformers, whether known or not; none if there are none."""
    rows = _read_json(path / "modules.json", missing=[])
    named = [row.get("path") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [name for name in named if isinstance(name, str)]


def check_subfolder(file: Path, name: object, key: str = "MODEL") -> None:
    """Raise an error for the name of a subfolder, in a file of a model, that is a place outside the model's folder.

    Raises:
        UserError: if it is.

    Example:
        >>> check_subfolder(Path("ranker/modules.json"), "2_Dense")
    """
    if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
        raise UserError(key, f"{name!r} in {file.name} of {file.parent.name!r}", "the name of a folder inside it")


def _read_json(file: Path, missing: Any = None) -> Any:
    """Return the content of a JSON file, None if it is damaged, or `missing` if there is no such file."""
    try:
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else missing
    except (ValueError, RecursionError):
        return None


def read_json_object(file: Path, key: str = "model.name", missing: Any = None) -> dict[str, Any]:
    """Return the content of a JSON file of a model, or `missing` if there is no such file.

    Raises:
        UserError: if it is not a JSON object.
    """
    content = _read_json(file, missing)
    if not isinstance(content, dict):
        raise UserError(key, f"{file.name} in {file.parent.name!r} is not a JSON object", "the model's own file")
    return content
