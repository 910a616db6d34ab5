"""Runs of sentence encoders are as pure, shared and lasting as those of rankers."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from tests.trainables.deaths import kill_after_each_batch, same
from tests.trainables.encoders import BATCH_SIZE, BATCHES, FROZEN, GS, SIMCSE, T_GS, TOTAL, Encoders, job
from tests.trainables.small import finish
from trainables.metrics import get_measure
from trainables.models.precision import Precision
from trainables.models.pretrained import check_model_settings
from trainables.sentence_encoders import encoder_backend as encoding
from trainables.sentence_encoders.encoder_run import EncoderRun
from trainables.sentence_encoders.encoder_trainer import EncoderTrainer
from trainables.specs.checkpoint_chain import BestEvaluation, checkpoint_key
from trainables.specs.sentence_encoder import NoiseSmoothing
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import UserError

EARLY = T_GS.model_copy(update={"switch": 0.25})
LATE = T_GS.model_copy(update={"switch": 0.75})
CHOSEN = {"checkpoint": "STS", "evaluations": BATCHES, "learning_rate": 1e-2}


@pytest.mark.parametrize(
    ("forked", "model"), [(EARLY, {}), (T_GS, FROZEN), (LATE, {"pooling": "mean"})], ids=["cls", "frozen", "mean"]
)
def test_a_fork_from_any_stage_is_the_run_from_scratch(
    encoders: Encoders, forked: NoiseSmoothing, model: dict[str, Any]
) -> None:
    shared = encoders.fresh()
    constant = finish(job(encoders, shared, GS, model))
    fork = finish(job(encoders, shared, forked, model))
    scratch = finish(job(encoders, encoders.fresh(), forked, model))
    cut = int(forked.switch * TOTAL)
    assert (fork.instances_reused, fork.instances_trained) == (cut, TOTAL - cut)
    assert (scratch.instances_reused, scratch.instances_trained) == (0, TOTAL)
    assert len(fork.checkpoints_reused) == 1
    assert same(fork, scratch)
    assert fork.weights_hash != constant.weights_hash
    assert [row["train/weight"] for row in fork.history if "train/weight" in row] == [
        float(step * BATCH_SIZE < cut) for step in range(BATCHES)
    ]


@pytest.mark.parametrize("nothing", [{"weight": 0.0}, {"multiple": 0.0}, {"switch": 0.0}], ids=str)
def test_without_noise_it_is_the_baseline_and_its_stages(encoders: Encoders, nothing: dict[str, float]) -> None:
    cache, variant = encoders.fresh(), T_GS.model_copy(update=nothing)
    baseline, trial = finish(job(encoders, cache)), job(encoders, cache, variant)
    again = finish(trial)
    assert again.instances_trained == 0
    assert same(again, baseline)
    assert trial.specification.id == job(encoders, cache).specification.id
    assert checkpoint_key(trial.specification, TOTAL) == checkpoint_key(job(encoders, cache).specification, TOTAL)


def test_everything_that_varies_makes_other_weights(encoders: Encoders) -> None:
    cache = encoders.fresh()
    variants = [SIMCSE, GS, T_GS, *(GS.model_copy(update={name: 0.5}) for name in ("multiple", "weight"))]
    runs = [*((variant, 1) for variant in variants), (SIMCSE, 2), (GS, 2)]
    found = {finish(job(encoders, cache, variant, seed=seed)).weights_hash for variant, seed in runs}
    assert len(found) == len(runs)
    assert finish(job(encoders, cache, GS, temperature=0.1)).weights_hash not in found


@pytest.mark.parametrize("settings", [{}, CHOSEN], ids=["last", "best"])
def test_a_run_that_is_killed_after_any_batch_ends_the_same(encoders: Encoders, settings: dict[str, Any]) -> None:
    whole = finish(job(encoders, encoders.fresh(), T_GS, **settings))

    def make() -> TrialSpec:
        return job(encoders, encoders.fresh(), T_GS, fork_points=(), **settings, interval=0.0)

    assert kill_after_each_batch(make, whole, TOTAL) >= 2


@pytest.mark.parametrize("metric", ["STS", "Spearman"])
def test_a_run_ends_with_the_best_weights_of_the_development_set(encoders: Encoders, metric: str) -> None:
    trial = job(encoders, encoders.fresh(), GS, **{**CHOSEN, "checkpoint": metric})
    outcome = finish(trial)
    tested = finish(trial.model_copy(update={"action": "test"}))
    run, values = EncoderRun(job(encoders, encoders.fresh(), GS, **{**CHOSEN, "checkpoint": "last"})), {}
    states = {}
    while (last := run.advance()) is None:
        scores = run.trainer.score_pairs(*run.data.tokens.get_pairs("dev"))
        pairs = run.data.select_pairs("dev")
        value = get_measure(metric).compute_overall(
            scores, pairs["relevant"].to_numpy(), np.array([len(pairs)]), ["STS-B"]
        )
        values[run.instances_seen], states[run.instances_seen] = value, (run.trainer.hash_weights(), scores)
    best = max(values, key=lambda seen: (values[seen], -seen))
    assert outcome.best_evaluation == tested.best_evaluation == BestEvaluation(best, values[best])
    assert outcome.weights_hash == tested.weights_hash == states[best][0]
    np.testing.assert_array_equal(outcome.scores, states[best][1])
    assert len(set(values.values())) > 1
    assert last.weights_hash == states[TOTAL][0]


def test_a_test_is_of_all_sets_and_trains_nothing(encoders: Encoders) -> None:
    trial = job(encoders, encoders.fresh(), GS)
    trained = finish(trial)
    tested = finish(trial.model_copy(update={"action": "test"}))
    assert (trained.split, tested.split, tested.instances_trained) == ("dev", "test", 0)
    pairs = encoders.prepared.read_pairs("test")
    frame = encoding.load_scored_pairs(trial, "test")
    assert frame.columns.tolist() == ["query_id", "document_id", "relevant", "pair_id"]
    assert frame.equals(pairs[["query_id", "document_id", "relevant", "pair_id"]])
    assert len(tested.scores) == len(pairs)
    sets = pairs["query_id"].str.partition("/")[0].unique()
    assert len(sets) == 7
    gold, lengths = pairs["relevant"].to_numpy(), pairs.groupby("query_id", sort=False).size()
    named = lengths.to_numpy(), list(lengths.index)
    parts = [get_measure(f"STS/{name}").compute_overall(tested.scores, gold, *named) for name in sets]
    assert tested.metric == pytest.approx(np.mean(parts))
    assert encoding.compute_extra_metrics(trial, tested.scores, frame) == {}


def test_the_history_has_a_row_a_batch_and_an_evaluation(encoders: Encoders) -> None:
    history = finish(job(encoders, encoders.fresh(), T_GS)).history
    steps = [row for row in history if "train/loss" in row]
    assert [row["instances"] for row in steps] == [BATCH_SIZE * (step + 1) for step in range(BATCHES)]
    assert {*steps[0]} == {"instances", "train/loss", "train/learning_rate", "train/weight"}
    assert [row["instances"] for row in history if "dev/STS" in row] == [2 * BATCH_SIZE, 4 * BATCH_SIZE]
    assert all(before["instances"] <= after["instances"] for before, after in pairwise(history))


def test_scores_that_are_not_finite_fail_the_run(encoders: Encoders, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = job(encoders, encoders.fresh())
    finish(trial)
    trial = trial.model_copy(update={"action": "test"})
    whole = EncoderTrainer.embed_rows

    def broken(self: EncoderTrainer, numbers: np.ndarray, precision: Precision) -> torch.Tensor:
        made = whole(self, numbers, precision)
        made[0] = float("nan")
        return made

    monkeypatch.setattr(EncoderTrainer, "embed_rows", broken)
    with pytest.raises(FloatingPointError, match=r"\d+ of \d+ test scores are not finite after \d+ instances"):
        finish(trial)


def test_settings_that_the_model_cannot_have_are_an_error(encoders: Encoders) -> None:
    trial = job(encoders, encoders.fresh(), model={"max_length": 64})
    check_model_settings(encoders.roberta, trial.specification.model)
    with pytest.raises(UserError, match=r"model\.frozen_layers"):
        check_model_settings(encoders.bert, trial.specification.model.model_copy(update={"frozen_layers": 3}))
