"""On an object store the number of requests does not depend on what else is stored."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from study.folder.run_store import RunStore
from study.scheduling.study_scheduler import StudyScheduler
from tests.study.driving import RESOLVED
from tests.study.requests_of_studies import fill, make_study, run_trial
from tests.trainables.storage.counting import PROTOCOL, clear, count_requests
from tests.trainables.storages import place
from trainables.storage import open_storage
from trainables.storage.base import MANIFEST, Storage
from trainables.storage.eviction import group_entries
from trainables.storage.leases import Leases

PLACE = f"{PROTOCOL}://bucket/checkpoints"
STORED = (0, 300)


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    clear()
    yield
    clear()


def requests_of(work: Callable[[], object]) -> dict[str, int]:
    with count_requests() as requests:
        work()
    return dict(requests)


def put(kept: Storage, name: str) -> None:
    with kept.write_folder(name) as folder:
        (folder / "state").write_text("bits")
        (folder / MANIFEST).write_text("sealed")


@pytest.mark.parametrize("stored", STORED)
def test_a_folder_takes_the_same_requests_however_many_there_are(stored: int) -> None:
    fill(PLACE, stored)
    kept = open_storage(PLACE)
    assert requests_of(lambda: put(kept, "key")) == {"put": 2}
    assert requests_of(lambda: kept.exists("key")) == {"exists": 1}
    kept.mark_used("key")

    def read() -> None:
        with kept.read_folder("key") as folder:
            assert {path.name for path in folder.iterdir()} == {"state", MANIFEST}

    assert requests_of(read) == {"list": 1, "get": 2}
    assert requests_of(lambda: list(kept.list_files("key"))) == {"list": 1}
    assert requests_of(lambda: kept.remove("key")) == {"list": 2, "delete": 2}
    assert requests_of(lambda: kept.remove("key")) == {"list": 1}
    assert len(kept.list_folders()) == stored


@pytest.mark.parametrize("stored", [0, 300, 1500])
def test_a_listing_is_one_request_for_every_thousand_files(stored: int) -> None:
    """And none for each folder or file of it."""
    fill(PLACE, stored)
    kept, pages = open_storage(PLACE), max(1, -(-2 * stored // 1000))
    assert requests_of(lambda: list(kept.list_files())) == {"list": pages}
    assert requests_of(kept.list_folders) == {"list": pages + -(-stored // 1000)}
    assert len(kept.list_folders()) == len(group_entries(kept.list_files())) == stored


def test_a_look_at_a_lease_and_a_sign_of_life_are_two_requests_each() -> None:
    kept = open_storage(PLACE)
    with Leases(kept).try_acquire("key") as held:
        assert held
        found = kept.read_marker("key.claim")
        assert requests_of(lambda: kept.refresh_marker("key.claim", found.text)) == {"get": 1, "put": 1}
    kept.create_marker("key.claim", "0123abcd 1 0123456789abcdef")

    def look() -> None:
        with Leases(kept).try_acquire("key") as acquired:
            assert not acquired

    assert requests_of(look) == {"put": 1, "get": 1}


def test_the_signs_of_life_of_a_minute_are_few_and_enough() -> None:
    kept = open_storage(PLACE)
    assert 60 / kept.heartbeat_s <= 3
    assert kept.heartbeat_s * 2 < 60  # one of them may be lost


def test_a_trial_takes_the_same_requests_however_many_checkpoints_there_are(tmp_path: Path) -> None:
    found = []
    for stored in STORED:
        clear()
        study = make_study(tmp_path / str(stored), 1)
        fill(study.checkpoints_url, stored)
        scheduler, counts = (
            StudyScheduler(study, RESOLVED, RunStore(study.folder), "plan-hash"),
            list[tuple[int, int, int]](),
        )
        while (request := scheduler.pop_request()) is not None:
            n_keys = len(scheduler.list_checkpoint_keys(request.trial.specification))
            for _ in range(2):  # the second one loads what the first one saved
                with count_requests() as requests:
                    saved = run_trial(request)
                counts.append((n_keys, saved, requests.total()))
        found.append(counts)
    assert found[0] == found[1]
    assert {total for n_keys, saved, total in found[0] if n_keys == saved == 1} == {11}
    assert {total for n_keys, saved, total in found[0] if n_keys and not saved} == {8}


@pytest.mark.parametrize("key", ["LastModified", "last_modified", "mtime", "updated", "other"])
@pytest.mark.parametrize("as_number", [False, True])
def test_the_age_of_a_file_is_that_of_the_listing_where_it_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, as_number: bool
) -> None:
    kept, find, modified = open_storage(place("memory", tmp_path)), MemoryFileSystem.find, MemoryFileSystem.modified
    asked, age = list[str](), datetime.now(UTC) - timedelta(hours=1)

    def listed(system: MemoryFileSystem, *arguments: Any, **named: Any) -> Any:
        found = find(system, *arguments, **named)
        return {name: info | {key: age.timestamp() if as_number else age} for name, info in found.items()}

    def noted(system: MemoryFileSystem, path: str) -> Any:
        asked.append(path)
        return modified(system, path)

    put(kept, "key")
    monkeypatch.setattr(MemoryFileSystem, "find", listed)
    monkeypatch.setattr(MemoryFileSystem, "modified", noted)
    ages = {file.modified_at for file in kept.list_files()}
    assert (ages == {age.timestamp()}) == (key != "other")
    assert len(asked) == (2 if key == "other" else 0)


def test_a_file_system_with_folders_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that refuses a file without its folder."""
    kept, opened = open_storage(place("memory", tmp_path)), MemoryFileSystem._open

    def strict(system: MemoryFileSystem, path: str, mode: str = "rb", **named: Any) -> Any:
        if "r" not in mode and not system.isdir(system._parent(path)):
            raise OSError("no such folder")
        return opened(system, path, mode, **named)

    monkeypatch.setattr(MemoryFileSystem, "_open", strict)
    assert kept.create_marker("key.claim", "mine")
    assert not kept.create_marker("key.claim", "theirs")
    put(kept, "key")
    assert kept.list_folders() == ["key"]
