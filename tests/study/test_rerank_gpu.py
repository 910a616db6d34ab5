"""Re-ranking on pretend GPUs: the scores of the processor, one process for each GPU, and its fault in one line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from study.rerank import main
from tests.pretend_gpu import make_environment
from tests.study.test_rerank import Data, write_data

pytestmark = pytest.mark.slow
COMMAND = """
import os, sys
from pathlib import Path
import torch
from trainables.exchange.classifier import Classifier

compute = Classifier.forward

def forward(self, batch):
    scores, seen = compute(self, batch), os.environ.get("CUDA_VISIBLE_DEVICES", "")
    (Path(__file__).parent / f"{scores.device.type} {seen} {os.getpid()}").touch()
    if seen == os.environ.get("BROKEN"):
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered\\nCUDA kernel errors")
    return scores

Classifier.forward = forward
if __name__ == "__main__":
    from study.rerank import main
    sys.exit(main())
"""
"""The command, with a file for each process that scores: device, CUDA_VISIBLE_DEVICES and process id."""


class Result(NamedTuple):
    """The command that ended, and device with CUDA_VISIBLE_DEVICES of each process that scored."""

    done: "subprocess.CompletedProcess[str]"
    places: list[str]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return write_data(tmp_path_factory.mktemp("data"), 5000)


@pytest.fixture(scope="module")
def expected(data: Data) -> dict[tuple[str, str], float]:
    """The scores of the processor in fp32."""
    out = data.run.with_name("cpu.run")
    assert main([*data.inputs, "--threads=1", "--precision=fp32", f"--out={out}"]) == 0
    return data.read(out)


def rerank(data: Data, place: Path, *options: str, gpus: str = "Pretend H100", **variables: str) -> Result:
    (place / "command.py").write_text(COMMAND)
    environment = os.environ | make_environment(gpus) | variables
    words = [sys.executable, str(place / "command.py"), *data.inputs, f"--out={place}/new.run", *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, env=environment, check=False)
    return Result(done, sorted(path.name.rsplit(" ", 1)[0] for path in place.glob("c* * *")))


@pytest.fixture(scope="module")
def one(data: Data, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """Return what one GPU gives in fp32."""
    place = tmp_path_factory.mktemp("one")
    return rerank(data, place, "--precision=fp32"), place / "new.run"


def test_one_gpu_gives_the_scores_of_the_processor(data: Data, expected, one) -> None:
    (done, places), out = one
    assert (done.returncode, places) == (0, ["cuda "]), done.stderr
    assert done.stdout.splitlines()[0] == "scoring on 1 GPU (Pretend H100) in fp32"
    found = data.read(out)
    scores = [found[pair] for pair in expected]
    np.testing.assert_allclose(scores, list(expected.values()), rtol=0, atol=1e-4 * np.std(scores))


def test_several_gpus_have_a_process_each_and_give_the_same_bytes(data: Data, one, tmp_path: Path) -> None:
    gpus = {"gpus": "Pretend H100,Pretend H100,Pretend H100", "CUDA_VISIBLE_DEVICES": "2,1"}
    done, places = rerank(data, tmp_path, "--precision=fp32", **gpus)
    assert (done.returncode, places) == (0, ["cuda 1", "cuda 2"]), done.stderr
    assert done.stdout.splitlines()[0] == "scoring on 2 GPUs (Pretend H100) in fp32"
    assert (tmp_path / "new.run").read_bytes() == one[1].read_bytes()


def test_a_gpu_that_has_bf16_computes_in_it(data: Data, expected, one, tmp_path: Path) -> None:
    done, _ = rerank(data, tmp_path)
    assert done.stdout.splitlines()[0] == "scoring on 1 GPU (Pretend H100) in bf16"
    found = data.read(tmp_path / "new.run")
    assert np.corrcoef([found[pair] for pair in expected], list(expected.values()))[0, 1] > 0.999
    assert (tmp_path / "new.run").read_bytes() != one[1].read_bytes()


def test_a_fault_of_a_gpu_in_a_worker_is_one_line(data: Data, tmp_path: Path) -> None:
    variables = {"CUDA_VISIBLE_DEVICES": "0,1", "BROKEN": "1"}
    done, _ = rerank(data, tmp_path, gpus="Pretend H100,Pretend H100", **variables)
    assert (done.returncode, done.stderr) == (
        1,
        "study.rerank: a GPU failed while it scored pairs (CUDA error: an illegal memory access was encountered); "
        "rerun the same command to resume\n",
    )
