"""Outputs beyond the budget of stored ones are computed as they are read, in the order that was asked for."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables import encoders as sentences
from tests.trainables import small
from tests.trainables.encoders import Encoders
from tests.trainables.small import World, finish
from trainables.rankers.ranker_run import RankerData
from trainables.sentence_encoders.encoder_run import EncoderData
from trainables.specs.plugin import PrecomputeProgress
from trainables.specs.trial import TrialSpec
from trainables.storage import open_storage
from trainables.storage.base import Storage
from trainables.storage.leases import LONGEST_WAIT_S, Leases
from trainables.training import frozen_features
from trainables.training.frozen_features import EncoderInputs, FrozenFeatures, count_texts_within, make_token_batch
from trainables.utils.checksums import write_with_checksum

PART, HIDDEN_BYTES = 7, 4 * small.SIZES["hidden_size"]
"""Texts of a part, so that there are many; bytes of a token."""
MakeTrial = Callable[[Path], TrialSpec]


@pytest.fixture(params=["ranker", "sentence encoder"])
def make_trial(
    request: pytest.FixtureRequest, world: World, encoders: Encoders, monkeypatch: pytest.MonkeyPatch
) -> MakeTrial:
    """Makes a run with frozen layers and prepared inputs, in a new cache."""
    monkeypatch.setattr(frozen_features, "TEXTS_PER_PART", PART)
    prepared = world.prepared if request.param == "ranker" else encoders.prepared

    def make(cache: Path) -> TrialSpec:
        (cache / "prepared").mkdir(parents=True)
        (cache / "prepared" / prepared.fingerprint).symlink_to(prepared.folder)
        if request.param == "ranker":
            return small.job(world, cache, small.T_LS, small.FROZEN)
        return sentences.job(encoders, cache, sentences.T_GS, sentences.FROZEN)

    return make


def open_inputs(trial: TrialSpec) -> EncoderInputs:
    return RankerData(trial) if hasattr(trial.specification.task, "sampler") else EncoderData(trial)


def hash_parts(trial: TrialSpec) -> dict[str, str]:
    paths = (trial.cache / "features").glob("*/part-*.npy")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def limit_to_half(trial: TrialSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    n_tokens = int(open_inputs(trial).tokens.offsets[-1])
    monkeypatch.setattr(frozen_features, "MAX_STORED_BYTES", n_tokens * HIDDEN_BYTES // 2)


def test_stored_and_computed_texts_mix_in_any_order(
    make_trial: MakeTrial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = open_inputs(trial := make_trial(tmp_path / "whole"))
    limit_to_half(trial, monkeypatch)
    limited = open_inputs(make_trial(tmp_path / "limited"))
    n_texts, n_stored = len(limited.tokens), limited.features.n_stored
    assert 0 < n_stored < n_texts
    model = limited.load_model(seed=0)

    @given(st.lists(st.integers(0, n_texts - 1), min_size=1, max_size=40).map(np.array))
    def check(rows: np.ndarray) -> None:
        batch, expected = limited.read(rows), whole.read(rows)
        np.testing.assert_array_equal(batch.lengths, expected.lengths)
        np.testing.assert_array_equal(batch.starts, expected.starts)
        np.testing.assert_allclose(batch.inputs, expected.inputs, rtol=0, atol=1e-5)
        is_stored = np.repeat(rows < n_stored, batch.lengths)
        np.testing.assert_array_equal(batch.inputs[is_stored], expected.inputs[is_stored])
        if not is_stored.all():
            computed = model.run_frozen_layers(make_token_batch(limited.tokens, rows[rows >= n_stored]))
            np.testing.assert_array_equal(batch.inputs[~is_stored], computed.cpu())

    check()


def test_a_run_beyond_the_budget_repeats_and_differs_by_rounding_from_one_within(
    make_trial: MakeTrial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = make_trial(tmp_path / "whole")
    limit_to_half(whole, monkeypatch)
    limited, again = make_trial(tmp_path / "limited"), make_trial(tmp_path / "again")
    assert limited.specification.id == whole.specification.id
    parts, all_parts = hash_parts(limited), hash_parts(whole)
    assert 0 < len(parts) < len(all_parts)
    assert parts.items() < all_parts.items()
    expected, outcome, repeated = finish(whole), finish(limited), finish(again)
    assert outcome.weights_hash == repeated.weights_hash
    np.testing.assert_array_equal(outcome.scores, repeated.scores)
    np.testing.assert_allclose(outcome.scores, expected.scores, rtol=0, atol=1e-4)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(0, 500), st.integers(1, 3))
def test_the_most_whole_parts_within_the_budget_are_stored(lengths: list[int], max_bytes: int, hidden: int) -> None:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frozen_features, "TEXTS_PER_PART", PART)
        n_stored = count_texts_within(max_bytes, offsets, hidden)
    assert offsets[n_stored] * 4 * hidden <= max_bytes
    assert n_stored == len(lengths) or n_stored % PART == 0
    after = min(n_stored + PART, len(lengths))
    assert n_stored == len(lengths) or offsets[after] * 4 * hidden > max_bytes


class CheapFeatures(FrozenFeatures):
    """Parts without content, which note their order."""

    def __init__(self, folder: Path, n_parts: int) -> None:
        super().__init__(folder, SimpleNamespace(), n_parts * frozen_features.TEXTS_PER_PART)
        self.order = list[int]()

    def compute_part(self, part: int, model: object) -> None:
        with write_with_checksum(self.get_part_path(part)) as temporary:
            temporary.touch()
        self.order.append(part)

    def start(
        self, storage: Storage, on_wait: Callable[[], None] = lambda: None, on_gpu: bool = False
    ) -> Iterator[PrecomputeProgress]:
        return self.compute_missing(lambda: None, storage, on_wait, on_gpu)


class WaitedError(Exception):
    """Ends a test in which a process waits."""


def test_processes_begin_at_parts_of_their_own(tmp_path: Path) -> None:
    storage, firsts = open_storage(str(tmp_path / "claims")), set[int]()
    for number in range(20):
        features = CheapFeatures(tmp_path / str(number), 100)
        assert next(features.start(storage)) == (1, 100)
        firsts.add(features.order[0])
    assert len(firsts) > 10
    assert [each.done for each in features.start(storage)] == list(range(2, 101))
    assert sorted(features.order) == list(range(100))


def test_one_of_a_thousand_that_wait_for_the_others_looks_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All parts are computed elsewhere: it tries ten of them, waits, and waits longer each time."""
    storage, features, tries, waits = (
        open_storage(str(tmp_path / "claims")),
        CheapFeatures(tmp_path / "f", 500),
        [0],
        [],
    )

    @contextmanager
    def refuse(leases: Leases, name: str) -> Iterator[bool]:
        tries[-1] += 1
        yield False

    def wait(seconds: float) -> None:
        waits.append(seconds)
        tries.append(0)
        if sum(waits) > 600:
            raise WaitedError

    monkeypatch.setattr(Leases, "try_acquire", refuse)
    monkeypatch.setattr(frozen_features.time, "sleep", wait)
    with pytest.raises(WaitedError):
        list(features.start(storage))
    assert set(tries[:-1]) == {10}
    assert len(waits) < 110  # ten minutes in steps of 0.1 s are 6,000
    assert max(waits[:5]) < 0.2
    assert 5 < max(waits) <= 1.25 * LONGEST_WAIT_S


def test_of_the_processes_of_a_gpu_one_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setattr("trainables.storage.leases._is_owner_dead", lambda text: False)  # all are in this process
    storage = open_storage(str(tmp_path / "claims"))
    first, second, other = (CheapFeatures(tmp_path / "features", 9) for _ in range(3))

    def stop() -> None:
        raise WaitedError

    begun = first.start(storage, on_gpu=True)
    next(begun)
    with pytest.raises(WaitedError):
        next(second.start(storage, stop, on_gpu=True))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    elsewhere = other.start(storage, on_gpu=True)
    next(elsewhere)
    list(begun)
    assert list(elsewhere) == []
    assert sorted(first.order + other.order) == list(range(9))
    assert list(second.start(storage, on_gpu=True)) == second.order == []
