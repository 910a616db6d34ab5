"""The budget of the states holds at every moment, and the storage is rarely listed for it."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from study.config.study_class import get_study_class
from study.execution.checkpoint_evictor import CheckpointEvictor
from study.scheduling.study_scheduler import StudyScheduler
from tests.study.driving import STUDY, quality, record_end, scheduler
from tests.trainables.storages import place
from trainables.storage import open_storage
from trainables.storage.base import MANIFEST, RESUME_FOLDER, Storage
from trainables.storage.eviction import group_entries

BYTES = 100
"""Size of a state."""


class Counted:
    """Counts the listings of a whole storage; the clock stands still unless it is set."""

    def __init__(self, patch: pytest.MonkeyPatch, root: str) -> None:
        self.listings, self.requests, self.now = 0, 0, 1000.0
        find = MemoryFileSystem.find

        def counted(system: MemoryFileSystem, path: str, *arguments: object, **named: object) -> object:
            self.requests += 1
            self.listings += path.rstrip("/").endswith(root.partition("://")[2])
            return find(system, path, *arguments, **named)

        patch.setattr(MemoryFileSystem, "find", counted)
        patch.setattr("study.workflows.cleanup.time.monotonic", lambda: self.now)


def begun(folder: Path, stages: str, budget: str | None) -> StudyScheduler:
    parts = {
        "name": "small",
        "seeds": tuple(range(1, 4)),
        "training": STUDY.training.model_dump(exclude_none=True),
        "search": {"n_configurations": {"LS": 4, "WSLS": 4, "T-LS": 12, "T-WSLS": 12}, "round_size": 4},
        "cache": {"checkpoints": stages, **({"max_size": budget} if budget else {})},
    }
    made = get_study_class().model_validate(parts)
    caching = made.cache if budget else made.cache.model_copy(update={"max_size": None})
    return scheduler(folder, made.model_copy(update={"cache": caching}))


def put(kept: Storage, name: str) -> None:
    if not kept.exists(name):
        with kept.write_folder(name) as folder:
            (folder / MANIFEST).write_text("x" * BYTES)


def names(place: str) -> set[str]:
    """Names of the shared states of a storage in memory, without a request."""
    start = place.removeprefix("memory:/") + "/"
    paths = [path.removeprefix(start) for path in MemoryFileSystem.store if path.startswith(start)]
    return {path.partition("/")[0] for path in paths} - {RESUME_FOLDER}


def total(kept: Storage) -> int:
    return sum(file.size for file in kept.list_files())


def drive(
    work: StudyScheduler, kept: Storage, budget: CheckpointEvictor, look: Callable[[Storage], int] = lambda _: 0
) -> list[int]:
    """Runs a scheduler with trials that write states and now and then leave a slot; returns how it looks after each."""
    taken: list[int] = []
    while not work.is_finished:
        request = work.pop_request()
        run = request.trial.specification
        if request.trial.action == "train":
            for key in work.list_checkpoint_keys(run):
                put(kept, key)
        if len(taken) % 10 == 0:  # it failed half way
            put(kept.subfolder(RESUME_FOLDER).subfolder(run.id), "008")
        record_end(work.folder, request, quality)
        work.mark_ended(request)
        budget.on_trial_end(request)
        taken.append(look(kept))
    return taken


@pytest.mark.parametrize("budget", [2_000, 7_000])
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_the_budget_holds_after_every_trial_except_what_is_needed(tmp_path, kind, budget):
    def look(kept: Storage) -> int:
        there = group_entries(kept.list_files())
        taken, needed = sum(unit.size for unit in there), work.list_needed_checkpoints()
        idle = sum(unit.size for unit in there if unit.name not in needed)
        assert taken <= budget or idle <= 0.05 * taken
        return taken

    work = begun(tmp_path, place(kind, tmp_path), f"{budget}B")
    taken = drive(work, open_storage(work.study.checkpoints_url), CheckpointEvictor([work], lambda _: None), look)
    assert len(taken) > 100
    assert any(after < before for before, after in pairwise(taken))
    assert taken[-1] <= budget


def test_the_storage_is_listed_rarely(tmp_path, monkeypatch):
    work = begun(tmp_path, place("memory", tmp_path), "7KB")
    counted, kept = Counted(monkeypatch, work.study.checkpoints_url), open_storage(work.study.checkpoints_url)
    trials = len(drive(work, kept, CheckpointEvictor([work], print)))
    assert 1 < counted.listings < trials / 8
    assert counted.requests < 3 * trials


def test_what_is_needed_stays_and_is_not_listed_for_every_trial(tmp_path, monkeypatch):
    """More than the budget is needed all the time."""
    work = begun(tmp_path, place("memory", tmp_path), "1KB")
    place_of_states = work.study.checkpoints_url
    monkeypatch.setattr(work, "list_needed_checkpoints", lambda: names(place_of_states))
    counted, kept, said = Counted(monkeypatch, place_of_states), open_storage(place_of_states), list[str]()
    trials = len(drive(work, kept, CheckpointEvictor([work], said.append)))
    assert 1 < counted.listings < trials / 3
    assert len(said) == 1
    assert total(kept) > 5_000


def test_what_other_studies_write_is_found_after_ten_minutes(tmp_path, monkeypatch):
    work = begun(tmp_path, place("memory", tmp_path), "20KB")
    counted, kept = Counted(monkeypatch, work.study.checkpoints_url), open_storage(work.study.checkpoints_url)
    budget = CheckpointEvictor([work], print)
    request = work.pop_request()
    assert request is not None
    budget.on_trial_end(request)
    for number in range(300):
        put(kept, f"{number:016}")
    counted.now += 590
    budget.on_trial_end(request)
    assert total(kept) == 30_000
    counted.now += 20
    budget.on_trial_end(request)
    assert 18_000 <= total(kept) <= 20_000


def test_without_a_budget_nothing_is_listed(tmp_path, monkeypatch):
    work = begun(tmp_path, place("memory", tmp_path), None)
    counted = Counted(monkeypatch, work.study.checkpoints_url)
    budget, request = CheckpointEvictor([work], print), work.pop_request()
    assert request is not None
    budget.on_trial_end(request)
    budget.evict_unneeded()
    assert counted.requests == 0
