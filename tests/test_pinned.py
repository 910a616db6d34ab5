"""Ids, keys and draws that results on disk depend on: pinned, so that no change of names or places moves one.

`pinned.json` was written once. A value in it changes only where old results are meant to lose their meaning, and then
a version number of the product says so.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from search_spaces.space import Params
from study.config.loader import load_study
from study.config.schema import Study
from study.config.spaces import make_system_space
from study.config.systems import get_systems
from study.plan.analysis_plan import build_plan
from study.scheduling.trials import ConfigurationFactory, PlannedConfiguration, ResolvedInputs
from trainables.contrastive.loss import draw_noise
from trainables.curriculum.curriculum_settings import CurriculumSettings
from trainables.curriculum.sampler import Curriculum
from trainables.data.query_groups import QueryGroups
from trainables.models.dropout import Dropout
from trainables.sentence_encoders import encoder_trainer as encoder_training
from trainables.specs.checkpoint_chain import checkpoint_key
from trainables.specs.environment import resolve_precision
from trainables.specs.ranker import RankerTrainingSettings
from trainables.specs.run_spec import Environment
from trainables.training.batching import BatchSampler
from trainables.utils.hashing import hash_json

PINNED = json.loads((Path(__file__).parent / "pinned.json").read_text())
STUDIES = {
    "quick": [  # with the settings that it had when the values were written
        "seeds=[1, 2, 3]",
        'variants=["BERT", "LS", "T-LS", "WSLS", "T-WSLS"]',
        "analysis.margin=none",
        "analysis.seeds=own",
        "task.train_queries=512",
        "model.num_layers=none",
        "model.frozen_layers=5",
        "model.pooling=cosine",
        "training.instances=1024",
        "training.batch_size=16",
        "training.head_learning_rate=1e-2",
    ],
    "wsls-docstrings": [],
    "curriculum-pacing": ["task.path=data"],
    "curriculum-scoring": ["task.path=data"],
    "gs-infonce": [],
    "gs-infonce-noise": [],
}
ENVIRONMENT = Environment(
    device="cpu", instruction_set="pinned", arithmetic=4, torch="2.13.0", transformers="5.0.0", numpy="2.1.0"
)
DATA = {"splits": {"dev": {"queries": 200}, "test": {"queries": 1000}}}


def shipped(name: str) -> Study:
    """A shipped study with a known length of training; the tokens of a micro-batch are those of a processor."""
    study = load_study(name, STUDIES[name])
    training = study.training.model_copy(update={"epochs": None, "instances": 100 * study.training.batch_size})
    resolved = resolve_precision(training).model_copy(update={"precision": training.precision})
    return study.model_copy(update={"training": resolved})


def configurations(study: Study) -> Iterator[PlannedConfiguration]:
    """Every configuration that the study may have."""
    resolved = ResolvedInputs("0123456789abcdef", "sha256:0", Path("model"), ENVIRONMENT, None, "sha256:1")
    made = ConfigurationFactory(study, resolved, "plan-hash")
    yield from made.make_reference_systems()
    for name in get_systems(study):
        if name == study.study_type.baseline:
            yield made.make_configuration(name, Params(), study.seeds, "baseline")
        else:
            yield from (
                made.make_configuration(name, point, study.seeds, "search")
                for point in make_system_space(study, name).list_configurations()
            )


def sha256(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def ids(name: str) -> dict[str, Any]:
    """Lists by system the ids of its first configuration, and the digest of those of all."""
    found: dict[str, list[PlannedConfiguration]] = {}
    for item in configurations(shipped(name)):
        found.setdefault(item.name, []).append(item)
    return {
        system: {
            "configuration": items[0].id,
            "run": items[0].runs[0].id,
            "all": hash_json([[item.id, [run.id for run in item.runs]] for item in items]),
        }
        for system, items in found.items()
    }


def keys(name: str) -> dict[str, str]:
    """Lists by system the keys of the states of its first run, in the middle and at the end."""
    found: dict[str, str] = {}
    for item in configurations(shipped(name)):
        run = item.runs[0]
        if run.training and (total := run.training.instances) and item.name not in found:
            found[item.name] = f"{checkpoint_key(run, total // 2)} {checkpoint_key(run, total)}"
    return found


def draws() -> dict[str, str]:
    """The SHA-256 of what training draws."""
    found = {
        f"dropout {rate} {dtype}": sha256(
            Dropout(rate, 12345).apply_mask(torch.ones(7, 33, dtype=dtype)).float().numpy()
        )
        for rate, dtype in ((0.1, torch.float32), (0.5, torch.bfloat16))
    }
    generator = np.random.default_rng(0)
    relevant = generator.integers(1, 3, 40)
    generator.integers(8, 64, 400)
    curriculum = Curriculum(CurriculumSettings(), generator.random(40))
    for sampling, paced in (("epochs", None), ("uniform", None), ("epochs", curriculum)):
        settings = RankerTrainingSettings(
            instances=1024,
            batch_size=16,
            negatives=3,
            sampling=sampling,
        )
        rows = BatchSampler(7, settings, QueryGroups(10 * np.arange(41), relevant), paced)
        name = f"batch {sampling}{' paced' if paced else ''}"
        found[name] = sha256(np.stack([rows.sample_rows(step) for step in (0, 17, 63)]))
    found["sentences"] = sha256(np.stack([encoder_training.sample_batch(7, step, 100, 16) for step in (0, 5, 6)]))
    found["noise"] = sha256(draw_noise(7, 3, 5, 24).numpy())
    return found


@pytest.mark.parametrize("name", STUDIES)
def test_ids_of_runs_and_configurations(name):
    assert ids(name) == PINNED["ids"][name]


@pytest.mark.parametrize("name", STUDIES)
def test_hashes_of_plans(name):
    assert hash_json(build_plan(shipped(name), "sha256:0", DATA)) == PINNED["plans"][name]


@pytest.mark.parametrize("name", STUDIES)
def test_keys_of_stages(name):
    assert keys(name) == PINNED["stages"][name]


def test_draws_of_training():
    assert draws() == PINNED["draws"]


def test_labels_of_a_run():
    """W&B and records label a run alike."""
    study = shipped("quick")
    resolved = ResolvedInputs("0123456789abcdef", "sha256:0", Path("model"), ENVIRONMENT)
    made = ConfigurationFactory(study, resolved, "plan-hash")
    item = made.make_configuration(
        "T-WSLS", make_system_space(study, "T-WSLS").list_configurations()[3], study.seeds, "search"
    )
    assert hash_json(made.make_labels(item, item.runs[1])) == PINNED["labels"]
