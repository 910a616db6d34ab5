"""Runs that train adapters keep adapters and head alone, resume to the same bits and share the frozen layers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from tests.trainables import encoders as sentences
from tests.trainables.deaths import kill_after_each_batch, same
from tests.trainables.encoders import Encoders
from tests.trainables.small import BATCH_SIZE, BATCHES, FROZEN, LS, T_LS, Fresh, World, finish, job
from trainables.rankers.ranker_run import RankerRun
from trainables.sentence_encoders.encoder_export import export_model, score_with_export
from trainables.sentence_encoders.encoder_run import EncoderRun
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import UserError

LORA = {"lora": {"rank": 4, "dropout": 0.1}}


def read_names(stage: Path) -> set[str]:
    with safe_open(stage / "state.safetensors", framework="numpy") as file:
        return {*file.keys()}


@pytest.mark.parametrize("model", [LORA, LORA | FROZEN], ids=["cls", "cosine of upper layers"])
def test_states_have_adapters_and_head_alone(world: World, fresh: Fresh, model: dict[str, Any]) -> None:
    trial = job(world, fresh(), T_LS, model, interval=0.0, checkpoint="R5@1", evaluations=4)
    run, names, sizes = RankerRun(trial), set[str](), list[int]()
    while run.advance() is None:
        for file in (trial.cache / "stages").rglob("state.safetensors"):
            names |= read_names(file.parent)
            sizes.append(file.stat().st_size)
    trained = {*run.trainer.model.trainable_parameters()}
    assert {name.partition("/")[2] for name in names} == trained
    assert {name.partition("/")[0] for name in names} == {"weights", "best", "step", "exp_avg", "exp_avg_sq"}
    assert all(".lora_" in name or name.startswith(("head.", "pooler.")) for name in trained)
    n_values = sum(parameter.numel() for parameter in run.trainer.model.parameters())
    assert max(sizes) < n_values  # a byte for each weight


def test_a_run_with_adapters_that_is_killed_after_any_batch_ends_the_same(world: World, fresh: Fresh) -> None:
    settings = {"checkpoint": "R5@1", "evaluations": 4, "gradient_checkpointing": True}
    whole = finish(job(world, fresh(), LS, LORA, **settings))

    def make() -> TrialSpec:
        return job(world, fresh(), LS, LORA, fork_points=(), interval=0.0, **settings)

    assert kill_after_each_batch(make, whole, BATCHES * BATCH_SIZE) == BATCHES - 1


def test_a_sentence_encoder_trains_adapters_and_is_exported_with_its_scores(encoders: Encoders, tmp_path: Path) -> None:
    model = LORA | {"pooling": "mean"}
    plain, trial = (
        sentences.job(encoders, encoders.fresh(), sentences.T_GS, model, gradient_checkpointing=is_on)
        for is_on in (False, True)
    )
    run = EncoderRun(trial)
    assert same(finish(run), finish(plain))
    weights = run.trainer.model.trainable_parameters()
    assert all(".lora_" in name for name in weights)
    export_model(trial, weights, tmp_path)
    rows, found = score_with_export(trial, tmp_path, "test", 20)
    first, second = (rows_of_pairs[rows] for rows_of_pairs in run.data.tokens.get_pairs("test"))
    np.testing.assert_allclose(found, run.trainer.score_pairs(first, second), rtol=0, atol=1e-5)
    with pytest.raises(UserError, match="--form: adapter; expected modules, the only form of a sentence encoder"):
        export_model(trial, weights, tmp_path, "adapter")


def test_each_setting_of_adapters_makes_other_weights_and_full_training_has_its_id(world: World, fresh: Fresh) -> None:
    changes: list[dict[str, Any]] = [{}, {"rank": 2}, {"alpha": 8.0}, {"dropout": 0.2}, {"target_modules": ("query",)}]
    trials = [job(world, fresh(), LS, {"lora": LORA["lora"] | change}) for change in changes]
    assert len({trial.specification.id for trial in trials}) == len(changes)
    assert len({finish(trial).weights_hash for trial in trials}) == len(changes)
    dumped = job(world, fresh(), LS).specification.model_dump(mode="json")
    assert "lora" not in dumped["model"]
    assert "gradient_checkpointing" not in dumped["training"]
    assert TrialSpec.model_validate_json(trials[0].model_dump_json()) == trials[0]
