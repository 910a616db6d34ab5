"""Plug-ins in tests: the example, and modules that a test writes, loads and takes back."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from search_spaces.study_type import STUDY_TYPES
from study.config import study_class
from tests.study.command import environment
from trainables.curriculum import DIFFICULTY_SCORES, PACING
from trainables.data.tasks import TASKS
from trainables.losses import LOSSES
from trainables.metrics import METRICS, get_measure
from trainables.smoothing import DISTRIBUTIONS, SCHEDULES
from trainables.smoothing.schedules import SETTINGS, VARIANTS
from trainables.specs.samplers import SAMPLERS
from trainables.utils.plugins import LOADED, get_plugin_label
from trainables.utils.registry import Registry

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_package"
REGISTRIES: tuple[Registry[Any], ...] = (
    TASKS, SAMPLERS, METRICS, SCHEDULES, DISTRIBUTIONS, VARIANTS, LOSSES, PACING, DIFFICULTY_SCORES, STUDY_TYPES,
)  # fmt: skip
"""All registries that plug-ins add to."""


@contextmanager
def take_back_plugins(folder: Path) -> Iterator[None]:
    """Find modules in a folder; after the block, no registry and no cache knows them any more."""
    before, entries = set(sys.modules), [registry.entries for registry in REGISTRIES]
    with patch.dict(SETTINGS), patch.dict(LOADED), patch.object(sys, "path", [str(folder), *sys.path]):
        yield
    for registry, own in zip(REGISTRIES, entries, strict=True):
        registry.entries = own
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
    get_plugin_label.cache_clear()
    get_measure.cache_clear()
    study_class._make_study_class.cache_clear()


def run_with(folder: Path, place: Path, *arguments: str, timeout: int = 120) -> subprocess.CompletedProcess[str]:
    """Run Python in a place, with the modules of a folder next to the project."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=place,
        env=environment(PYTHONPATH=os.pathsep.join([str(folder), str(ROOT)])),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
