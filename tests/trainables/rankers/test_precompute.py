"""Tokens and the frozen layers' outputs are computed once, by however many processes that need them."""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainables.processes import CONTEXT
from tests.trainables.small import BASELINE, FROZEN, Fresh, World, job
from trainables.rankers.ranker_backend import precompute
from trainables.rankers.ranker_run import RankerData
from trainables.specs.trial import TrialSpec
from trainables.training import frozen_features as features

SMALL = 7
"""Pairs of a part, so that there are many."""


def contents(cache: Path) -> dict[str, str]:
    """Reads the files of a folder; arrays with their order and bits."""
    files = (path for name in ("tokens", "features") for path in (cache / name).rglob("*") if path.is_file())
    return {str(path.relative_to(cache)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def elsewhere(made: TrialSpec, cache: Path) -> TrialSpec:
    """The same run where nothing is prepared but the data."""
    cache.mkdir()
    (cache / "prepared").symlink_to(made.cache / "prepared")
    return made.model_copy(update={"cache": cache})


def work(text: str, barrier: Any, told: Any) -> None:
    """A process that needs the precompute; tells which parts it computed, and whether it made the tokens."""
    from trainables.data import ranking_tokens as tokens

    made, write, compute, done = (
        TrialSpec.model_validate_json(text),
        tokens._write_tokens,
        features.FrozenFeatures.compute_part,
        [],
    )
    features.TEXTS_PER_PART = SMALL
    tokens._write_tokens = lambda *arguments: (done.append("tokens"), write(*arguments))
    features.FrozenFeatures.compute_part = lambda *arguments: (done.append(arguments[1]), compute(*arguments))
    barrier.wait()
    parts = list(precompute(made))
    told.put((done, parts, RankerData(made).features.list_missing_parts()))


@pytest.fixture
def alone(world: World, fresh: Fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[TrialSpec, int]:
    """A run with a precompute by one process alone, and how many parts there were."""
    made = elsewhere(job(world, fresh(), BASELINE, FROZEN), tmp_path / "alone")
    monkeypatch.setattr(features, "TEXTS_PER_PART", SMALL)
    parts = list(precompute(made))
    assert [part.done for part in parts] == list(range(1, parts[-1].total + 1))
    assert parts[-1].total > 5
    return made, parts[-1].total


def test_processes_share_it_and_nothing_is_computed_twice(alone: tuple[TrialSpec, int], tmp_path: Path) -> None:
    made, total = alone
    together, barrier, told = elsewhere(made, tmp_path / "together"), CONTEXT.Barrier(3), CONTEXT.Queue()
    arguments = together.model_dump_json(), barrier, told
    processes = [CONTEXT.Process(target=work, args=arguments, daemon=True) for _ in range(3)]
    for process in processes:
        process.start()
    found = [told.get(timeout=60) for _ in processes]
    assert Counter(name for done, *_ in found for name in done) == Counter(["tokens", *range(total)])
    assert all(missing == [] for *_, missing in found)
    assert contents(together.cache) == contents(made.cache)
    assert not list((together.cache / "claims").iterdir())


def test_it_goes_on_where_a_process_was_stopped(alone: tuple[TrialSpec, int], tmp_path: Path) -> None:
    made, total = alone
    again = elsewhere(made, tmp_path / "again")
    begun = precompute(again)
    for _ in range(3):
        next(begun)
    assert [part.done for part in precompute(again)] == list(range(4, total + 1))
    assert contents(again.cache) == contents(made.cache)
    assert list(begun) == list(precompute(again)) == []


def test_parts_do_not_show_in_what_is_read(alone: tuple[TrialSpec, int]) -> None:
    made, total = alone
    data = RankerData(made)
    whole = np.concatenate([np.load(data.features.get_part_path(part)) for part in range(total)])
    rows = np.arange(len(data.tokens))
    np.testing.assert_array_equal(data.read(rows).inputs.numpy(), whole)
    pairs = np.split(whole, data.tokens.offsets[1:-1])
    np.testing.assert_array_equal(data.read(rows[::-1]).inputs.numpy(), np.concatenate(pairs[::-1]))
