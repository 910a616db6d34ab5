"""Changes a module once it is imported, for the sitecustomize modules of processes that tests start."""

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Finder(MetaPathFinder):
    """Finds one module as everybody else does, and changes it once it is loaded.

    It stays, because who looks for a module need not import it.
    """

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self._name, self._change, self._is_searching = name, change, False

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self._name or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_change(module: ModuleType) -> None:
                load(module)
                self._change(module)

            spec.loader.exec_module = load_and_change
        return spec


def after_import(name: str, change: Callable[[ModuleType], None]) -> None:
    """Call `change` with the module of this name as soon as this process has imported it."""
    sys.meta_path.insert(0, _Finder(name, change))
