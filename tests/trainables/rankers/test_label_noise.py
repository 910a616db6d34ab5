"""Label noise changes what training is told, and nothing else: no document, no other split, no prepared file."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

from tests.trainables.data.library import tiny_settings, write_library
from tests.trainables.small import (
    BASELINE,
    BATCH_SIZE,
    BATCHES,
    FROZEN,
    LS,
    T_LS,
    T_WSLS,
    TRAINING,
    WSLS,
    Fresh,
    World,
    batch,
    finish,
    job,
    specification,
)
from trainables.data.negatives.selection import MAX_LABEL, MIN_LABEL, scale_global_max, scale_min_max
from trainables.data.ranking_preparation import find_prepared_data, prepare_data
from trainables.rankers.label_noise import compute_hidden_weak_labels, draw_noisy_labels
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.rankers.ranker_trainer import Pairs
from trainables.specs.checkpoint_chain import checkpoint_key
from trainables.specs.ranker import LabelSmoothing
from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings
from trainables.specs.trial import TrialSpec

Kind = Literal["hidden", "flipped"]
KINDS: tuple[Kind, ...] = ("hidden", "flipped")
SHARES = st.floats(0, 1, exclude_max=True)


def truth(queries: int, candidates: int, n_relevant: int = 1) -> np.ndarray:
    return np.tile(np.arange(candidates) < n_relevant, queries).astype(np.int8)


def noisy(trial: TrialSpec, share: float, kind: Kind = "hidden", seed: int = 1) -> TrialSpec:
    """The same run with label noise."""
    task = trial.specification.task.model_copy(update={"label_noise": share, "label_noise_kind": kind})
    specification = trial.specification.model_copy(update={"task": task, "seed": seed})
    return trial.model_copy(update={"specification": specification})


def select(trial: TrialSpec, split: str = "train") -> Pairs:
    return RankerData(trial).select_pairs(split)


# The draws


@given(SHARES, SHARES, st.integers(0, 10**6), st.integers(1, 4))
def test_noise_is_nested_in_share_and_kind(first: float, second: float, seed: int, n_relevant: int) -> None:
    relevant, (low, high) = truth(50, 5, n_relevant), sorted((first, second))
    wrong = {
        (share, kind): draw_noisy_labels(relevant, share, kind, seed) != relevant
        for share in (low, high)
        for kind in KINDS
    }
    for kind in KINDS:
        assert (wrong[low, kind] <= wrong[high, kind]).all()
    for share in (low, high):
        np.testing.assert_array_equal(wrong[share, "hidden"], wrong[share, "flipped"] & (relevant == 1))


@given(SHARES, st.sampled_from(KINDS), st.integers(0, 10**6))
def test_more_queries_or_candidates_change_no_label_of_the_others(share: float, kind: Kind, seed: int) -> None:
    whole = draw_noisy_labels(truth(40, 10), share, kind, seed)
    np.testing.assert_array_equal(
        draw_noisy_labels(truth(25, 4), share, kind, seed), whole.reshape(40, 10)[:25, :4].ravel()
    )


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_labels_are_wrong_as_often_as_independent_draws_are(share: float) -> None:
    """Labels are independent between two candidates and between two seeds."""
    n, relevant = 20_000, truth(20_000, 8)
    wrong, other = (draw_noisy_labels(relevant, share, "flipped", seed) != relevant for seed in (1, 2))
    first, second, of_other_seed = wrong[::8], wrong[7::8], other[::8]
    for counted, chance in (
        (first, share),
        (second, share),
        (of_other_seed, share),
        (first & second, share**2),
        (first & of_other_seed, share**2),
    ):
        low, high = binom.interval(1 - 1e-6, n, chance)
        assert low <= counted.sum() <= high


# Weak labels of hidden documents


def table(scores: np.ndarray, weak_labels: np.ndarray, relevant: np.ndarray, column: str = "score") -> pd.DataFrame:
    other = {"score": "bm25", "bm25": "score"}[column]
    weak_labels = np.where(relevant.reshape(scores.shape) == 1, np.nan, weak_labels)
    values = {column: scores, other: np.nan, "weak_label": weak_labels}
    return pd.DataFrame({"relevant": relevant.reshape(-1)} | {
        name: np.broadcast_to(value, scores.shape).reshape(-1) for name, value in values.items()
    })  # fmt: skip


PRESETS: dict[str, Any] = {"min-max": None, "global-max": "wsls-slides"}
scores_of_queries = arrays(np.float64, (3, 6), elements=st.floats(-5, 40, width=16))


@given(
    scores_of_queries, st.integers(0, 5), st.sampled_from(["min-max", "global-max"]), st.sampled_from(["score", "bm25"])
)
def test_a_hidden_document_has_the_weak_label_of_a_negative_with_its_score(
    scores: np.ndarray, place: int, normalisation: Any, source: Any
) -> None:
    """The oracle is the sampler: one of its negatives, not the only one at an end of the range, is made relevant."""
    weak_labels = np.stack([*map(scale_min_max, scores)]) if normalisation == "min-max" else scale_global_max(scores)
    scores, weak_labels = (
        np.roll(values, -place, axis=1) for values in (scores, weak_labels)
    )  # the relevant one first
    relevant, others = truth(3, 6), scores[:, 1:]
    own = scores[:, 0]
    assume(((others.min(axis=1) <= own) & (own <= others.max(axis=1))).all())
    settings = SamplerSettings(preset=PRESETS[normalisation], weak_label=source)
    found = compute_hidden_weak_labels(table(scores, weak_labels, relevant, source), settings)
    np.testing.assert_array_equal(found[::6], weak_labels[:, 0])
    assert np.isnan(found[relevant == 0]).all()


@pytest.mark.parametrize(
    ("normalisation", "own", "expected"),
    [
        ("min-max", 9.0, MAX_LABEL),
        ("min-max", 3.0, (MIN_LABEL + MAX_LABEL) / 2),
        ("min-max", 0.0, MIN_LABEL),
        ("global-max", 9.0, 4 / 5),
        ("global-max", 3.0, 3 / 5),
        ("global-max", -1.0, 0.0),
    ],
)
def test_scores_outside_the_range_of_the_negatives_count_as_its_ends(
    normalisation: Any, own: float, expected: float
) -> None:
    """The third negative was drawn at random: its weak label is 0, and its score is no end of the range."""
    negatives = np.array([4.0, 2.0, -3.0])
    labels = scale_min_max(negatives[:2]) if normalisation == "min-max" else scale_global_max(negatives[:2])
    settings = SamplerSettings(preset=PRESETS[normalisation])
    frame = table(np.array([[own, *negatives]]), np.array([[0, *labels, 0.0]]), np.array([[1, 0, 0, 0]]))
    assert compute_hidden_weak_labels(frame, settings)[0] == pytest.approx(expected)


@pytest.mark.parametrize("weak_labels", [[MIN_LABEL, MIN_LABEL], [MIN_LABEL, 0.0], [0.0, 0.0]])
def test_negatives_without_a_range_give_the_smallest_weak_label(weak_labels: list[float]) -> None:
    frame = table(np.array([[9.0, 4.0, 4.0]]), np.array([[0, *weak_labels]]), np.array([[1, 0, 0]]))
    assert compute_hidden_weak_labels(frame, SamplerSettings())[0] == MIN_LABEL


@pytest.mark.parametrize("normalisation", ["min-max", "global-max"])
def test_a_document_without_a_score_has_no_weak_label_unless_it_is_drawn(normalisation: Any) -> None:
    frame = table(np.array([[np.nan, 4.0, 2.0]] * 200), np.array([[0, 0.99, 0.01]] * 200), truth(200, 3))
    settings = SamplerSettings(preset=PRESETS[normalisation])
    assert np.isnan(compute_hidden_weak_labels(frame, settings)).all()
    drawn = compute_hidden_weak_labels(frame, settings.model_copy(update={"weak_label": "uniform"}))
    drawn = drawn.reshape(200, 3)
    assert ((drawn[:, 0] >= 0) & (drawn[:, 0] <= MAX_LABEL)).all()
    assert np.isnan(drawn[:, 1:]).all()
    assert drawn[:, 0].mean() == pytest.approx(MAX_LABEL / 2, abs=0.1)  # five standard errors


# Settings and prepared data


def test_a_share_of_zero_is_no_setting_and_any_other_makes_other_runs() -> None:
    plain = specification()
    ids = {}
    for share in (0.0, 0.1, 0.2):
        for kind in KINDS:
            task = tiny_settings(label_noise=share, label_noise_kind=kind)
            run = plain.model_copy(update={"task": task})
            ids[share, kind] = run.id, run.configuration_id, checkpoint_key(run, BATCH_SIZE)
    untouched = plain.id, plain.configuration_id, checkpoint_key(plain, BATCH_SIZE)
    assert ids[0.0, "hidden"] == ids[0.0, "flipped"] == untouched
    assert len({*ids.values()}) == len({parts[-1] for parts in ids.values()}) == 5


def test_prepared_data_is_the_same_with_any_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_library(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    settings = [tiny_settings(), tiny_settings(label_noise=0.3, label_noise_kind="flipped")]
    first, second = (prepare_data(own, tmp_path / str(number)) for number, own in enumerate(settings))
    assert first.fingerprint == second.fingerprint
    for path in first.folder.iterdir():
        assert path.read_bytes() == (second.folder / path.name).read_bytes(), path.name
    shared = find_prepared_data(settings[1], tmp_path / "0")  # prepared by the study without noise
    assert (shared.settings.label_noise, shared.settings.label_noise_kind) == (0.3, "flipped")
    assert first.settings.label_noise == 0


# Pairs of a run


@pytest.mark.parametrize("kind", KINDS)
def test_only_labels_and_weak_labels_of_training_change(world: World, fresh: Fresh, kind: Kind) -> None:
    trial = job(world, fresh())
    for split in ("train", "dev", "test"):
        plain, found = select(trial, split), select(noisy(trial, 0.4, kind), split)
        assert found.first_row == plain.first_row
        np.testing.assert_array_equal(found.relevant, plain.relevant)
        assert plain.labels is plain.relevant
        assert (found.labels != plain.labels).any() == (split == "train")
        changed = found.labels != found.relevant
        hidden = changed & (found.relevant == 1)
        np.testing.assert_array_equal(found.weak_labels[~hidden], plain.weak_labels[~hidden])
        assert ((found.weak_labels[hidden] >= MIN_LABEL) & (found.weak_labels[hidden] <= MAX_LABEL)).all()
        assert np.isnan(plain.weak_labels[plain.relevant == 1]).all()


def test_variants_of_a_seed_see_the_same_noise_and_seeds_do_not(world: World, fresh: Fresh) -> None:
    cache = fresh()
    first, second = (select(noisy(job(world, cache, variant), 0.3)).labels for variant in (BASELINE, T_WSLS))
    np.testing.assert_array_equal(first, second)
    assert (select(noisy(job(world, cache), 0.3, seed=2)).labels != first).any()


# Training


@pytest.mark.parametrize(
    ("variant", "kind"), [(BASELINE, "hidden"), (LS, "flipped"), (WSLS, "hidden"), (WSLS, "flipped")], ids=str
)
def test_the_loss_is_that_of_the_same_rows_with_noisy_labels(
    world: World, fresh: Fresh, variant: LabelSmoothing, kind: Kind
) -> None:
    """An untrained model without dropout; its loss is computed here from its log-odds."""
    still = {"learning_rate": 1e-12, "dropout": 0.0, "warmup": 0.0}
    trial = noisy(job(world, fresh(), variant, **still), 0.4, kind)
    run = RankerRun(trial)
    frame = world.prepared.read_candidates("train")
    relevant = frame["relevant"].to_numpy()
    labels = draw_noisy_labels(relevant, 0.4, kind, seed=1)
    hidden_labels = compute_hidden_weak_labels(frame, world.prepared.settings.sampler)
    weak_labels = frame["weak_label"].fillna(pd.Series(hidden_labels)).to_numpy(dtype=float)
    expected, n_wrong = [], 0
    for step in range(BATCHES):
        rows = batch(1, step, np.ones(len(relevant) // 5), 5, BATCH_SIZE, 3)
        mixed = np.where((labels[rows] == 1) | (variant.distribution == "uniform"), 0.5, weak_labels[rows])
        target = (1 - variant.epsilon) * labels[rows] + variant.epsilon * mixed
        log_odds = run.trainer.compute_log_odds(rows)
        losses = target * np.log1p(np.exp(-log_odds)) + (1 - target) * np.log1p(np.exp(log_odds))
        expected.append(losses.mean())
        n_wrong += (labels[rows] != frame["relevant"].to_numpy()[rows]).sum()
    assert n_wrong > 0
    found = [row["train/loss"] for row in finish(run).history if "train/loss" in row]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("unit", ["query", "pair"])
def test_a_stopped_or_forked_run_with_noise_has_the_bits_of_the_whole(world: World, fresh: Fresh, unit: str) -> None:
    def make(variant: LabelSmoothing, cache: Path) -> TrialSpec:
        return noisy(job(world, cache, variant, FROZEN, unit=unit), 0.4, "flipped")

    whole, clean = finish(make(T_LS, fresh())), finish(job(world, fresh(), T_LS, FROZEN, unit=unit))
    assert whole.weights_hash != clean.weights_hash
    shared, stopped = fresh(), make(T_LS, fresh())
    finish(make(LS, shared))
    forked = finish(make(T_LS, shared))
    RankerRun(stopped).advance()
    resumed = finish(stopped)
    for again in (forked, resumed):
        assert (again.weights_hash, again.history, again.metric) == (whole.weights_hash, whole.history, whole.metric)
        assert again.instances_trained < TRAINING["instances"]


@pytest.mark.parametrize("changes", [{}, {"label_noise": 0.07}, {"label_noise": 0.5, "label_noise_kind": "flipped"}])
def test_noise_is_described_where_there_is_some(changes: dict[str, Any]) -> None:
    described = RankerTaskSettings.model_validate(changes).describe_label_noise()
    kind = changes.get("label_noise_kind", "hidden")
    words = {"hidden": "7 % of the relevant training documents", "flipped": "50 % of the labels of the training"}[kind]
    assert (described or "").startswith(words if changes else "")
    assert (described is None) == (not changes)
