"""The benchmark of a GPU: arguments, packages, results so far, and all of its parts on a pretend GPU."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from transformers import BertModel

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import correctness, models, packages, throughput
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.packages import CARRIED, describe_missing, list_requirements
from benchmarks.gpu.parts import PARTS, Place
from benchmarks.gpu.report import Row, checked, confirmed, list_failed

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU here: make gpu")
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """The command changes settings of its process; other tests have theirs."""
    threads, is_deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with patch.dict(os.environ):
        yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(is_deterministic)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts run in this process, without a GPU."""
    monkeypatch.setattr(command, "find_gpu", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "none")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--parts", "memory,speed"], "no part 'speed'; expected some of correctness,throughput,profile"),
        (["--parts", ""], "no part ''"),
        (["--rounds", "0"], "--rounds: invalid choice: 0"),
        (["--seconds", "long"], "--seconds: invalid float value: 'long'"),
        (["--out", "nowhere/result.json"], "--out: no folder nowhere"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_a_wrong_argument_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert problem in lines[0]


def test_missing_packages_are_one_line_with_the_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PARTS, "study", PARTS["study"]._replace(packages=("numpy", "no_such", "nor_this")))
    assert main(["--parts", "study"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "missing: no_such, nor_this;" in line
    assert "make gpu-packages" in line
    assert describe_missing(PARTS["memory"].packages) is None


@pytest.mark.parametrize(("found", "is_old"), [("2.10.1+cu126", True), ("2.11.0+cu130", False), ("3.0.0", False)])
def test_an_old_torch_is_named(monkeypatch: pytest.MonkeyPatch, found: str, is_old: bool) -> None:
    monkeypatch.setattr(packages, "version", lambda name: found if name == "torch" else "5.15.0")
    line = describe_missing(["torch"])
    assert line is not None if is_old else line is None
    assert not is_old or f"too old: torch {found} (needed: 2.11)" in str(line)


def list_needed(names: tuple[str, ...]) -> set[str]:
    """The distributions and everything that they need, as far as they are installed here."""
    found, left = set[str](), [canonicalize_name(name) for name in names]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        needed = map(Requirement, requires(name) or ()) if is_installed(name) else ()
        left += [
            canonicalize_name(own.name) for own in needed if own.marker is None or own.marker.evaluate({"extra": ""})
        ]
    return found


def is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def test_nothing_needed_is_missing_from_what_is_carried_and_nothing_is_needless() -> None:
    """Some versions of transformers bring pydantic, others do not; some packages may be missing here."""
    asked = ("pydantic", "pandas", "pyarrow", "scipy", "sentence-transformers", "accelerate", "datasets")
    there, carried = list_needed(("torch", "transformers")), {canonicalize_name(name) for name in CARRIED}
    assert list_needed(asked) - there <= carried
    if all(map(is_installed, asked)):
        assert carried <= list_needed(asked)
    assert all(line.partition("==")[2] for line in list_requirements())


def test_results_are_written_after_every_part_and_a_failed_one_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_gpu: None
) -> None:
    out = tmp_path / "out.json"

    def read_so_far(place: Place) -> Iterator[Row]:
        assert list(json.loads(out.read_text("utf-8"))["parts"]) == ["correctness"]
        yield confirmed("results so far", True)
        raise ZeroDivisionError("no")

    monkeypatch.setattr(correctness, "run", lambda place: iter([checked("a", 0.5, 1.0), confirmed("b", True)]))
    monkeypatch.setattr(throughput, "run", read_so_far)
    assert main(["--parts", "throughput,correctness", "--out", str(out)]) == 1
    printed = capsys.readouterr().out.splitlines()
    result = json.loads(printed[-1])
    assert json.loads(out.read_text("utf-8")) == result
    assert (result["is_pretend"], result["failed"]) == (True, ["throughput"])
    assert [line for line in printed if line.startswith("failed: ")] == ["failed: throughput"]
    assert any("correctness" in line and "2 checks" in line for line in printed if line.startswith("| "))
    error = {"name": "the rest of the part", "state": "failed", "note": "ZeroDivisionError: no"}
    assert result["parts"]["throughput"]["rows"] == [{"name": "results so far", "state": "passed"}, error]


def test_a_part_ends_with_its_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_gpu: None
) -> None:
    monkeypatch.setattr(correctness, "run", lambda place: (confirmed(str(number), True) for number in range(10**9)))
    assert main(["--parts", "correctness", "--seconds", "0.5"]) == 0
    rows = json.loads(capsys.readouterr().out.splitlines()[-1])["parts"]["correctness"]["rows"]
    assert rows[-1] == {"name": "the rest of the part", "state": "not measured", "note": "its time is over"}


def test_what_is_no_number_fails() -> None:
    rows = {
        "one": [checked("a", float("nan"), 1.0)],
        "two": [checked("b", 0.5, 1.0)],
        "three": [Row("c", "measured", (1.0,))],
    }
    assert list_failed(rows) == ["one"]
    assert rows["one"][0].as_dict()["values"] == [None]


def test_pairs_have_the_drawn_lengths_and_their_work_is_that_of_their_layers(tmp_path: Path) -> None:
    path = models.write_model(tmp_path, "tiny")
    lengths = models.draw_lengths("long-tailed", 40)
    pairs = models.make_pairs(path, lengths)
    assert pairs.lengths.tolist() == lengths.tolist()
    assert pairs.starts.tolist() == ((lengths - 3) // 2 + 2).tolist()
    layers = BertModel.from_pretrained(path).encoder.modules()
    weights = sum(own.weight.numel() for own in layers if isinstance(own, torch.nn.Linear))
    tokens = lengths.astype(float)
    per_pair = 2 * tokens * weights + 3 * 4 * tokens**2 * 32
    assert models.compute_teraflops(path, lengths) == pytest.approx(3 * per_pair.sum() / 1e12)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(torch.version.cuda is not None, reason="needs a CPU build of torch")
def test_all_parts_pass_on_a_pretend_gpu(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu", "--out", str(tmp_path / "out.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert list(result["parts"]) == list(PARTS)
    assert result["is_pretend"]
    assert not any(row["state"] == "not measured" for part in result["parts"].values() for row in part["rows"])
