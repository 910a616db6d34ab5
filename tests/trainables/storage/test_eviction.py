"""Needed files stay, the rest goes in the order in which it was last used, and no more of it than must."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.storages import KINDS, place
from trainables.storage import open_storage
from trainables.storage.base import MANIFEST, RESUME_FOLDER, STATE_FILE, Storage, StoredFile
from trainables.storage.eviction import CacheEntry, evict, group_entries, select_evicted

A, B, C, D = (letter * 16 for letter in "abcd")
files = st.builds(
    StoredFile,
    st.sampled_from([A, B, C, D, f"{RESUME_FOLDER}/{A}/8", f"{RESUME_FOLDER}/{B}/8"]),
    st.integers(0, 9),
    st.floats(0, 9),
)
lists = st.lists(files.map(lambda file: file._replace(path=f"{file.path}/{MANIFEST}")))
names = st.sets(st.sampled_from([A, B, C, D, f"{RESUME_FOLDER}/{A}", f"{RESUME_FOLDER}/{B}"]))


@given(lists, names, st.integers(0, 60))
def test_no_more_goes_than_must_the_longest_unused_first_and_nothing_needed(
    files: list[StoredFile], needed: set[str], budget: int
) -> None:
    found = group_entries(files)
    going = select_evicted(found, needed, budget)
    staying = [unit for unit in found if unit not in going]
    assert not needed & {unit.name for unit in going}
    left = sum(unit.size for unit in staying)
    assert left <= budget or {unit.name for unit in staying} <= needed
    if going:
        assert left + going[-1].size > budget
        free = [unit for unit in staying if unit.name not in needed]
        assert all(going[-1].last_used <= unit.last_used for unit in free)


@given(lists)
def test_units_hold_every_file_once(files: list[StoredFile]) -> None:
    found = group_entries(files)
    assert sum(unit.size for unit in found) == sum(file.size for file in files)
    assert len({unit.name for unit in found}) == len(found)
    assert all(
        unit.last_used == max(file.modified_at for file in files if file.path.startswith(f"{unit.name}/"))
        for unit in found
    )
    assert [unit.last_used for unit in found] == sorted(unit.last_used for unit in found)


def put(kept: Storage, name: str) -> None:
    with kept.write_folder(name) as folder:
        (folder / MANIFEST).write_text("x" * 10)


@pytest.mark.parametrize("kind", KINDS)
def test_states_and_slots_are_evicted_whole(tmp_path: Path, kind: str) -> None:
    kept = open_storage(place(kind, tmp_path))
    old, needed, new, run = A, B, C, f"{RESUME_FOLDER}/{D}"
    for name in (old, needed, new):
        put(kept, name)
    for name in ("008", "016"):
        put(kept.subfolder(run), name)
    kept.create_marker(f"{old}.claim", "somebody")
    while max(unit.name for unit in group_entries(kept.list_files())[-1:]) != new:
        kept.mark_used(new)
    assert evict(kept, lambda: pytest.fail("asked though all is within the budget"), 50).remaining_bytes == 50
    found = evict(kept, lambda: {needed}, 25)
    assert (set(found.removed), found.remaining_bytes) == ({old, run}, 20)
    assert set(kept.list_folders()) - {RESUME_FOLDER} == {needed, new}
    assert [unit.name for unit in group_entries(kept.list_files())] == [needed, new]
    assert kept.read_marker(f"{old}.claim") is not None
    last = evict(kept, lambda: {needed}, 0)
    assert (last.removed, last.remaining_bytes) == ([new], 10)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_checkpoint_is_never_evicted(tmp_path: Path, kind: str) -> None:
    kept = open_storage(place(kind, tmp_path))
    mine = ["thesis/chapter.tex", f"{B}/notes.txt", f"{C}/more/{MANIFEST}", f"model/{MANIFEST}"]
    mine += [f"{RESUME_FOLDER}/{path}" for path in (f"{B}/notes.txt", f"{B}/8/{MANIFEST}", f"cv/8/{MANIFEST}")]
    (tmp_path / "file").write_text("x" * 100)
    for path in [*mine, f"{B}/{MANIFEST}", f"{A}/{STATE_FILE}"]:
        kept.put_file(path, tmp_path / "file")
    found = evict(kept, set, 10)
    assert (found.removed, found.remaining_bytes) == ([A], 0)
    assert {file.path for file in kept.list_files()} == {*mine, f"{B}/{MANIFEST}"}


@given(st.integers(0, 6), st.integers(0, 70), st.integers(0, 30))
def test_room_is_made_only_when_the_budget_is_exceeded(count: int, budget: int, room: int) -> None:
    kept = open_storage(place("memory", Path()))
    for number in range(count):
        put(kept, f"{number:016}")
    found = evict(kept, lambda: {f"{0:016}"}, budget, room)
    assert found.remaining_bytes == sum(file.size for file in kept.list_files())
    assert (found.remaining_bytes > budget - room) <= (10 * count <= budget or found.remaining_bytes == 10)
    assert (not found.removed) == (10 * count <= budget or count < 2)


def test_a_unit_is_a_state_or_a_slot() -> None:
    paths = {
        f"{A}/{STATE_FILE}": (1, 2.0),
        f"{A}/{MANIFEST}": (2, 1.0),
        f"{RESUME_FOLDER}/{A}/8/{STATE_FILE}": (4, 0.0),
        **{f"{name}/.DS_Store": (8, 3.0) for name in (A, B, "mine", f"{RESUME_FOLDER}/{A}", f"{RESUME_FOLDER}/{A}/8")},
    }
    found = group_entries(StoredFile(path, *of_file) for path, of_file in paths.items())
    assert found == [CacheEntry(f"{RESUME_FOLDER}/{A}", 4, 0.0), CacheEntry(A, 3, 2.0)]
