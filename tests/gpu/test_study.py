"""A whole study on a node of Ray with two GPUs: trials get shares of them, and each sees the one that it has."""

import json
import subprocess
from pathlib import Path

import pytest
import torch

from tests.pretend_gpu import USERS, VARIABLE, make_environment
from tests.study.command import command, environment
from tests.trainables.small import write_bert

SETTINGS = (
    'variants=["BERT", "LS"]',
    "training.instances=64",
    "training.evaluations=1",
    "model.num_layers=3",
    "model.frozen_layers=1",
    "resources.gpu=0.5",
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(torch.version.cuda is not None, reason="needs a CPU build of torch")
def test_a_study_shares_two_gpus(tmp_path: Path) -> None:
    variables = make_environment() | {"CUDA_VISIBLE_DEVICES": "0,1"}
    variables |= {USERS: str(tmp_path / "users")}
    (tmp_path / "users").mkdir()
    done = subprocess.run(
        command(tmp_path, *SETTINGS, f"model.name={write_bert(tmp_path / 'bert')}"),
        capture_output=True, text=True, env=environment(**variables), timeout=580, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    users = [path.read_text() for path in (tmp_path / "users").iterdir()]
    assert len(users) >= 2
    assert {*users} == {"0", "1"}  # one of them each, and not both
    records = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "study").glob("runs/*/record.json")]
    trained = [record["config"]["specification"] for record in records if record["config"]["seed"] is not None]
    assert {own["environment"]["device"] for own in trained} == {f"cuda:{variables[VARIABLE]}"}
