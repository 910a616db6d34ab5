"""Plug-ins: modules of a user that register what a study chooses by name.

A study file names them, as in `plugins = ["my_package.my_module"]`. To import them is all that it takes.
"""

import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path

from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

LOADED: dict[str, None] = {}
"""Names of the plug-ins that this process has loaded."""


def load_plugins(modules: Iterable[str], place: str = "plugins") -> None:
    """Import plug-ins.

    Raises:
        UserError: if a module cannot be imported or registers something that is wrong.
    """
    for module in modules:
        try:
            import_module(module)
        except Exception as error:  # the code of a user may raise anything
            found = error if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            expected = "a module that can be imported: in this folder, in PYTHONPATH or installed"
            raise UserError(place, f"{module} ({found})", expected) from error
        LOADED[module] = None


@cache
def get_plugin_label(module: str) -> str:
    """Return the name and the digest of the package of an imported module; of a module outside packages, its own.

    The digest is that of all Python files of the package.
    """
    spec = sys.modules[module].__spec__
    name = (spec and spec.parent) or module
    path = _locate(name)
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    contents = [(file.relative_to(path).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
    return f"{name} {hash_json(contents)}"


def find_changed_plugins(labels: Iterable[str]) -> list[str]:
    """Return the labels, as of `get_plugin_label`, of packages that this process lacks or has with other code."""
    return [own for own in labels if (name := own.split()[0]) not in sys.modules or get_plugin_label(name) != own]


def list_plugin_paths() -> list[str]:
    """Return the folder or file of each top-level package or module with a plug-in that this process has loaded."""
    return sorted({str(_locate(module.partition(".")[0])) for module in LOADED})


def _locate(module: str) -> Path:
    """Return the folder of an imported package, or the file of a module."""
    found = sys.modules[module]
    return Path(str(next(iter(getattr(found, "__path__", [found.__file__])))))
