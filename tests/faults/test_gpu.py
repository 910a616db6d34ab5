"""Studies on two pretend GPUs of one Ray node, which Ray places trials on as on real ones; one or both are broken."""

import json
import os
import platform
import re
import shutil
from pathlib import Path

import pytest

from tests.pretend_gpu import USERS, make_environment
from tests.study.command import copy_cache, finish, report, results, run, weights
from tests.trainables.small import write_bert

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
STUDY = (
    'variants=["BERT", "LS"]',
    "model.num_layers=3",
    "model.frozen_layers=1",
    "model.max_length=32",
    "training.instances=64",
    "resources.gpu=0.5",
)
TWO_GPUS = make_environment("Pretend H100,Pretend H100") | {"CUDA_VISIBLE_DEVICES": "0,1"}
BROKEN = {
    "BROKEN_GPU": "0",
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "broken_gpu"), TWO_GPUS["PYTHONPATH"]]),
}
AVOIDED = re.compile(
    r"GPU 0 of node [0-9a-f]{8}: AcceleratorError: CUDA error: uncorrectable ECC error encountered; "
    "trials avoid this GPU from now on"
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    return (*STUDY, f"model.name={write_bert(tmp_path_factory.mktemp('bert'))}")


@pytest.fixture(scope="module")
def undisturbed(study: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "users").mkdir()
    finish(place, *study, **TWO_GPUS, **{USERS: str(place / "users")})
    return place


def test_two_trials_that_could_share_a_gpu_spread_over_both(undisturbed: Path) -> None:
    """There are four places and two cores; Ray by itself fills one GPU first."""
    assert {path.read_text() for path in (undisturbed / "users").iterdir()} == {"0", "1"}


def test_a_study_with_a_broken_gpu_gives_the_same_bytes_as_one_without(
    study: tuple[str, ...], undisturbed: Path, tmp_path: Path
) -> None:
    """Ray would take the broken one for every second trial, and a failed trial makes room just there."""
    shutil.copytree(undisturbed / "cache" / "prepared", tmp_path / "cache" / "prepared")
    said = finish(tmp_path, *study, **TWO_GPUS | BROKEN).splitlines()
    assert [line for line in said if "GPU" in line and AVOIDED.search(line)] == [line for line in said if "ECC" in line]
    assert len([line for line in said if AVOIDED.search(line)]) == 1
    assert not any("FAILED" in line for line in said)
    assert results(tmp_path) == results(undisturbed)
    assert report(tmp_path)["results.csv"] == report(undisturbed)["results.csv"]
    assert weights(tmp_path) == weights(undisturbed)
    entries = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "study").glob("runs/*/record.json")]
    assert {entry["state"] for entry in entries} == {"finished"}
    assert {entry["hardware"].get("gpu") for entry in entries} <= {"Pretend H100", None}


def test_a_study_on_broken_gpus_alone_stops_in_one_line_that_names_one_and_no_host(
    study: tuple[str, ...], undisturbed: Path, tmp_path: Path
) -> None:
    copy_cache(undisturbed, tmp_path)
    done = run(tmp_path, *study, **TWO_GPUS | BROKEN | {"CUDA_VISIBLE_DEVICES": "0"})
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    cause = "AcceleratorError: CUDA error: uncorrectable ECC error encountered"
    assert re.match(rf"study\.run: .* seed \d, 3 attempts: GPU 0 of node [0-9a-f]{{8}}: {cause}", line)
    assert "; repair the GPU, or hide it with CUDA_VISIBLE_DEVICES, and rerun the same command to resume; " in line
    assert platform.node() not in line.partition("full traceback")[0]
    assert "FAILED" not in done.stdout
