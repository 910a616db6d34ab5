"""Adds the pretend GPU to every Python process that has this folder on its path, PRETEND_GPU set, and imports torch."""

import os
from types import ModuleType

from tests.after_import import after_import


def add_gpu(torch: ModuleType) -> None:
    from tests.pretend_gpu.cuda import install

    install()


if os.environ.get("PRETEND_GPU"):
    after_import("torch", add_gpu)
