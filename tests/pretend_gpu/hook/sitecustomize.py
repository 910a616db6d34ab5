"""Adds the pretend GPU to every Python process that has this folder on its path, PRETEND_GPU set, and imports torch."""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Finder:
    """Finds torch and no other module; it installs the device when torch has been loaded."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
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
