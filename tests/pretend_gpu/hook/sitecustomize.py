"""Adds the pretend GPU to every Python process that has this folder on its path, PRETEND_GPU set, and imports torch."""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Finder:
    """Finds torch and no other module; its loader installs the device when torch has been loaded."""

    is_searching = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != "torch" or self.is_searching:
            return None
        self.is_searching = True
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self.is_searching = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_install(module: ModuleType) -> None:
                load(module)
                from tests.pretend_gpu.cuda import install

                install()

            spec.loader.exec_module = load_and_install
        return spec


if os.environ.get("PRETEND_GPU"):
    sys.meta_path.insert(0, _Finder())
