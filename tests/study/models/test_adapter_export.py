"""A study of adapters gives merged models and adapters of peft with the scores that it recorded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder

from study import api
from study.plan.analysis_plan import register_plan
from study.workflows.keep_models import keep_models
from tests.study.models.test_export import CHANGES
from tests.study.small import conduct, scheduler, study
from tests.trainables.small import World


def test_a_ranker_with_adapters_leaves_the_study_merged_and_as_an_adapter(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(world.cache.parent / "site")
    model = {"name": str(world.bert), "max_length": 32, "lora": {"rank": 4, "dropout": 0.1}}
    made = study(world, tmp_path / "study", world.fresh_cache(tmp_path / "cache"), **CHANGES, model=model)
    begun = scheduler(world, made)
    register_plan(made, begun.resolved.model_digest, made.folder)
    conduct(begun)
    keep_models(begun, lambda line: None)
    kept = sum(file.stat().st_size for file in made.folder.glob("models/*/state.safetensors"))
    assert 0 < kept < 2 * 100_000
    folders = [api.export(made, "LS", tmp_path / str(form), form=form) for form in (None, "adapter")]
    card, found = (folders[1] / "README.md").read_text("utf-8"), dict[str, Any]()
    assert card.startswith("---\nlibrary_name: peft\n")
    assert "by at most" in card
    assert ", peft 0." in card
    assert not any(str(tmp_path) in file.read_text("utf-8") for file in folders[1].glob("*.[jm]*"))
    code = card.split("```python\n")[1].split("```")[0]
    with torch.inference_mode():
        exec(code.replace("FOLDER", str(folders[1])).replace("BASE", str(world.bert)), found)
    pairs = list(zip(found["queries"], found["documents"], strict=True))
    expected = CrossEncoder(str(folders[0]), device="cpu").predict(pairs)
    np.testing.assert_allclose(found["scores"], expected, rtol=0, atol=1e-5)
