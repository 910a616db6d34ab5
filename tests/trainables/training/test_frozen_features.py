"""Outputs beyond the budget of stored ones are computed as they are read, in the order that was asked for."""

import hashlib
from collections.abc import Callable
from pathlib import Path

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
from trainables.specs.trial import TrialSpec
from trainables.training import frozen_features
from trainables.training.frozen_features import EncoderInputs, count_texts_within, make_token_batch

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
