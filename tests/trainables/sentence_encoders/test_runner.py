"""Runs of sentence encoders are as pure, shared and lasting as those of rankers."""

import hashlib
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.trainables.encoders import BATCH_SIZE, BATCHES, FORK_POINTS, FROZEN, GS, SIMCSE, T_GS, TOTAL, Encoders, job
from tests.trainables.processes import CONTEXT, begin
from tests.trainables.small import finish
from trainables.metrics import get_measure
from trainables.models.pretrained import check_model_settings
from trainables.models.scoring import Precision
from trainables.sentence_encoders import encoder_backend as encoding
from trainables.sentence_encoders.encoder_run import EncoderRun
from trainables.sentence_encoders.encoder_trainer import EncoderTrainer
from trainables.specs.checkpoint_chain import BestEvaluation, checkpoint_key
from trainables.specs.sentence_encoder import NoiseSmoothing
from trainables.specs.trial import TrialResult, TrialSpec
from trainables.training.resume import ResumableTraining
from trainables.utils.errors import UserError
from trainables.worker.actor import RunTrainable

EARLY = T_GS.model_copy(update={"switch": 0.25})
LATE = T_GS.model_copy(update={"switch": 0.75})
CHOSEN = {"checkpoint": "STS", "evaluations": BATCHES, "learning_rate": 1e-2}


def same(one: TrialResult, other: TrialResult) -> bool:
    names = ("weights_hash", "history", "metric", "best_evaluation")
    return np.array_equal(one.scores, other.scores) and all(getattr(one, it) == getattr(other, it) for it in names)


@pytest.mark.long
def test_another_process_trains_the_same_weights(encoders: Encoders) -> None:
    here = finish(job(encoders, encoders.fresh(), T_GS))
    elsewhere = job(encoders, encoders.fresh(), T_GS).model_dump_json()
    code = (
        "import sys; from trainables.specs.trial import TrialSpec\n"
        "from trainables.sentence_encoders.encoder_backend import start_run\n"
        "run = start_run(TrialSpec.model_validate_json(sys.argv[1]), lambda: None)\n"
        "while (outcome := run.advance()) is None: pass\n"
        "print(outcome.weights_hash, outcome.metric)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code, elsewhere]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert result.stdout.split() == [here.weights_hash, repr(here.metric)]


@pytest.mark.parametrize("model", [{}, FROZEN, {"pooling": "mean"}], ids=["cls", "frozen", "mean"])
@pytest.mark.parametrize("forked", [EARLY, T_GS, LATE], ids=["at 0.25", "at 0.5", "at 0.75"])
def test_a_fork_from_any_stage_is_the_run_from_scratch(
    encoders: Encoders, forked: NoiseSmoothing, model: dict[str, Any]
) -> None:
    shared = encoders.fresh()
    constant = finish(job(encoders, shared, GS, model))
    fork = finish(job(encoders, shared, forked, model))
    scratch = finish(job(encoders, encoders.fresh(), forked, model))
    assert forked.switch is not None
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
    found = {finish(job(encoders, cache, variant, seed=seed)).weights_hash for variant in variants for seed in (1, 2)}
    assert len(found) == 2 * len(variants)
    assert finish(job(encoders, cache, GS, temperature=0.1)).weights_hash not in found


@pytest.mark.parametrize("settings", [{}, CHOSEN], ids=["last", "best"])
@pytest.mark.parametrize("variant", [SIMCSE, GS, T_GS], ids=["SimCSE", "GS", "T-GS"])
def test_a_run_that_is_killed_after_any_batch_ends_the_same(
    encoders: Encoders, monkeypatch: pytest.MonkeyPatch, variant: NoiseSmoothing, settings: dict[str, Any]
) -> None:
    whole = finish(job(encoders, encoders.fresh(), variant, **settings))
    stepped, left, deaths = ResumableTraining.on_step_end, 0, 0

    def dying(chain: ResumableTraining) -> None:
        nonlocal left
        stepped(chain)
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(ResumableTraining, "on_step_end", dying)
    while True:
        trial = job(encoders, encoders.fresh(), variant, fork_points=(), **settings, interval=0.0)
        left = deaths + 1
        try:
            found = finish(trial)
        except KeyboardInterrupt:
            deaths += 1
            again = finish(trial)
            assert same(again, whole)
            assert again.instances_resumed > 0
            assert again.instances_trained + again.instances_resumed == TOTAL
        else:
            assert same(found, whole)
            break
    assert deaths >= 2


def test_a_run_whose_process_is_killed_ends_the_same(encoders: Encoders) -> None:
    settings: dict[str, Any] = {"instances": 60 * BATCH_SIZE, "evaluations": 20, "checkpoint": "STS"}
    whole = finish(job(encoders, encoders.fresh(), T_GS, **settings))
    trial = job(encoders, encoders.fresh(), T_GS, **settings, interval=0.0)
    (process,) = begin(trial)
    process.wait(lambda: process.seen.value > 30 * BATCH_SIZE)
    process.kill()
    again = finish(trial)
    assert same(again, whole)
    assert again.instances_resumed >= 30 * BATCH_SIZE


def test_runs_side_by_side_train_what_they_share_once(encoders: Encoders) -> None:
    cache = encoders.fresh()
    runs = [(variant, seed) for variant in (GS, T_GS, LATE) for seed in (1, 2)]
    results = [work.result() for work in begin(*(job(encoders, cache, variant, seed=seed) for variant, seed in runs))]
    alone = [finish(job(encoders, encoders.fresh(), variant, seed=seed)) for variant, seed in runs]
    assert [result["weights_hash"] for result in results] == [outcome.weights_hash for outcome in alone]
    trained = sum(result["instances_trained"] for result in results)
    assert trained == 2 * (TOTAL + TOTAL // 2 + TOTAL // 4)


@pytest.mark.parametrize("metric", ["STS", "STS/STS-B", "Spearman"])
def test_a_run_ends_with_the_best_weights_of_the_development_set(encoders: Encoders, metric: str) -> None:
    trial = job(encoders, encoders.fresh(), GS, **{**CHOSEN, "checkpoint": metric})
    outcome = finish(trial)
    tested = finish(trial.model_copy(update={"action": "test"}))
    run, values = EncoderRun(job(encoders, encoders.fresh(), GS, **{**CHOSEN, "checkpoint": "last"})), {}
    states = {}
    while (last := run.advance()) is None:
        scores = run.trainer.score_pairs(run.data.tokens.get_first_rows("dev"), run.data.tokens.get_second_rows("dev"))
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


def test_no_instances_are_the_encoder_as_it_was(encoders: Encoders) -> None:
    untrained = finish(job(encoders, encoders.fresh(), instances=0))
    run = EncoderRun(job(encoders, encoders.fresh()))
    assert untrained.weights_hash == run.trainer.hash_weights()
    assert (untrained.instances_trained, untrained.history) == (0, [])
    assert untrained.scores.tolist() == finish(job(encoders, encoders.fresh(), instances=0, seed=2)).scores.tolist()


def test_the_history_has_a_row_a_batch_and_an_evaluation(encoders: Encoders) -> None:
    history = finish(job(encoders, encoders.fresh(), T_GS)).history
    steps = [row for row in history if "train/loss" in row]
    assert [row["instances"] for row in steps] == [BATCH_SIZE * (step + 1) for step in range(BATCHES)]
    assert {*steps[0]} == {"instances", "train/loss", "train/learning_rate", "train/weight"}
    assert [row["instances"] for row in history if "dev/STS" in row] == [2 * BATCH_SIZE, 4 * BATCH_SIZE]
    assert all(before["instances"] <= after["instances"] for before, after in pairwise(history))


def test_a_state_has_weights_and_moments_of_what_is_trained_alone(encoders: Encoders) -> None:
    trial = job(encoders, encoders.fresh(), GS, FROZEN)
    finish(trial)
    folders = [trial.cache / "stages" / checkpoint_key(trial.specification, stop) for stop in (*FORK_POINTS, TOTAL)]
    names = [set(load_file(folder / "state.safetensors")) for folder in folders]
    kinds = [{name.partition("/")[0] for name in own} for own in names]
    assert kinds == [{"weights", "step", "exp_avg", "exp_avg_sq"}] * len(FORK_POINTS) + [{"weights"}]
    assert not any("lower" in name for own in names for name in own)
    assert "weights/head.weight" in names[-1]


@pytest.mark.parametrize("split", ["dev", "test"])
def test_scores_that_are_not_finite_fail_the_run(
    encoders: Encoders, monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    trial = job(encoders, encoders.fresh())
    if split == "test":
        finish(trial)
        trial = trial.model_copy(update={"action": "test"})
    whole = EncoderTrainer.embed_rows

    def broken(self: EncoderTrainer, numbers: np.ndarray, precision: Precision) -> torch.Tensor:
        made = whole(self, numbers, precision)
        made[0] = float("nan")
        return made

    monkeypatch.setattr(EncoderTrainer, "embed_rows", broken)
    with pytest.raises(FloatingPointError, match=rf"\d+ of \d+ {split} scores are not finite after \d+ instances"):
        finish(trial)


def test_a_worker_conducts_it_like_any_other_run(encoders: Encoders) -> None:
    trial = job(encoders, encoders.fresh(), T_GS)
    worker, seen = RunTrainable(config={"trial": trial.model_dump_json()}), []
    while not (result := worker.step())["done"]:
        seen.append(result["instances"])
    assert result["metric"] == finish(job(encoders, encoders.fresh(), T_GS)).metric
    assert seen == [BATCH_SIZE, 2 * BATCH_SIZE, TOTAL]  # others fork within the noise alone
    assert worker.reset_config({"trial": trial.model_copy(update={"action": "test"}).model_dump_json()})
    assert worker.step()["done"]
    worker.cleanup()


def elsewhere(trial: TrialSpec, cache: Path) -> TrialSpec:
    """The same run where nothing is prepared but the data."""
    cache.mkdir()
    (cache / "prepared").symlink_to(trial.cache / "prepared")
    return trial.model_copy(update={"cache": cache})


def lay(text: str, barrier: Any, told: Any) -> None:
    """A process that needs the precompute; tells how often it made the tokens."""
    from trainables.data import sentence_tokens

    write, made = sentence_tokens._write_tokens, []
    sentence_tokens._write_tokens = lambda *arguments: (made.append(1), write(*arguments))  # type: ignore[assignment]
    barrier.wait()
    assert list(encoding.precompute(TrialSpec.model_validate_json(text), lambda: None)) == []
    told.put(len(made))


def test_processes_tokenise_once(encoders: Encoders, tmp_path: Path) -> None:
    trial = job(encoders, encoders.fresh())
    together, barrier, told = elsewhere(trial, tmp_path / "together"), CONTEXT.Barrier(3), CONTEXT.Queue()
    arguments = together.model_dump_json(), barrier, told
    processes = [CONTEXT.Process(target=lay, args=arguments, daemon=True) for _ in range(3)]
    for process in processes:
        process.start()
    assert sum(told.get(timeout=60) for _ in processes) == 1
    assert not list((together.cache / "claims").iterdir())
    (folder,) = (together.cache / "tokens").iterdir()
    for path in folder.iterdir():
        assert (
            hashlib.sha256(path.read_bytes()).digest()
            == hashlib.sha256((trial.cache / "tokens" / folder.name / path.name).read_bytes()).digest()
        )


def test_settings_that_the_model_cannot_have_are_refused(encoders: Encoders) -> None:
    trial = job(encoders, encoders.fresh(), model={"max_length": 64})
    assert trial.specification.model is not None
    check_model_settings(encoders.roberta, trial.specification.model)
    with pytest.raises(UserError, match=r"model\.frozen_layers"):
        check_model_settings(encoders.bert, trial.specification.model.model_copy(update={"frozen_layers": 3}))
