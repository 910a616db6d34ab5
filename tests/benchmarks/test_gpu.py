"""The benchmark of a GPU without one: it checks what a processor can, measures nothing, and names what failed."""

import json
import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks import contenders
from benchmarks.gpu import equality, kernels, models, packages, study, trials
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.packages import CARRIED, describe_missing, list_requirements
from benchmarks.gpu.parts import PARTS, Place
from benchmarks.gpu.report import Row, checked, list_failed
from benchmarks.gpu.throughput import make_plain_loop

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU here: make gpu")


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """The command changes settings of its process; other tests have theirs."""
    threads, is_deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with patch.dict(os.environ):
        yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(is_deterministic)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place("cpu", tmp_path, rounds=1, seconds=60.0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--parts", "kernels,speed"], "no part 'speed'; expected some of equality,throughput,kernels"),
        (["--parts", ""], "no part ''"),
        (["--rounds", "0"], "--rounds: invalid choice: 0"),
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
    assert describe_missing(PARTS["kernels"].packages) is None


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


def test_quick_parts_print_a_table_and_the_same_json_as_they_write(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--parts", "kernels", "--out", str(tmp_path / "out.json")]) == 0
    printed = capsys.readouterr().out.splitlines()
    result = json.loads(printed[-1])
    assert json.loads((tmp_path / "out.json").read_text("utf-8")) == result
    assert (result["device"], result["gpu"], result["failed"]) == ("cpu", None, [])
    assert list(result["parts"]) == ["kernels"]
    rows = [row for part in result["parts"].values() for row in part["rows"]]
    assert {row["state"] for row in rows} == {"passed", "not measured"}
    assert not any("values" in row for row in rows if row["state"] == "not measured")
    table = [line for line in printed if line.startswith("| ")]
    assert len(table) == 2 + len(rows)
    for name in result["parts"]:
        assert f"; here: {PARTS[name].on_cpu}" in next(line for line in printed if line.startswith(f"{name}: "))


def test_a_part_that_fails_is_named_and_the_others_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_TOLERANCE", -1.0)
    monkeypatch.setattr(models, "write_model", lambda *ignored: 1 / 0)
    monkeypatch.setitem(PARTS, "equality", PARTS["equality"]._replace(on_cpu="nothing"))
    assert main(["--parts", "equality,kernels"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.startswith("failed: ")] == ["failed: equality", "failed: kernels"]
    rows = json.loads(printed[-1])["parts"]["equality"]["rows"]
    assert rows == [{"name": "the whole part", "state": "failed", "note": "ZeroDivisionError: division by zero"}]


def test_what_is_no_number_fails() -> None:
    rows = {
        "one": [checked("a", float("nan"), 1.0)],
        "two": [checked("b", 0.5, 1.0)],
        "three": [Row("c", "measured", (1.0,))],
    }
    assert list_failed(rows) == ["one"]
    assert rows["one"][0].as_dict()["values"] == [None]


def test_a_wrong_computation_is_seen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    path = models.write_model(place.folder, "bert", "tiny")
    pairs = models.make_pairs(path, models.draw_lengths("question pairs", contenders.BATCH_SIZE))
    assert all(row.state == "passed" for row in equality.compare_computations("tiny", pairs, "cpu"))
    right = equality.compute_packed
    monkeypatch.setattr(
        equality, "compute_packed", lambda *given: [[own + 0.01 for own in part] for part in right(*given)]
    )
    assert all(row.state == "failed" for row in equality.compare_computations("tiny", pairs, "cpu"))
    first, again = (equality.hash_training(pairs, "bf16", "cpu") for _ in range(2))
    assert first == again


def test_pairs_have_the_drawn_lengths_and_their_work_is_that_of_their_layers(place: Place) -> None:
    path = models.write_model(place.folder, "bert", "tiny")
    lengths = models.draw_lengths("long-tailed", 40)
    pairs = models.make_pairs(path, lengths)
    assert pairs.lengths.tolist() == lengths.tolist()
    assert pairs.starts.tolist() == ((lengths - 3) // 2 + 2).tolist()
    hidden, layers, tokens = 32, 3, lengths.astype(float)
    per_pair = layers * (2 * tokens * (4 * hidden**2 + 2 * hidden * 64) + 4 * tokens**2 * hidden)
    assert models.compute_teraflops(path, lengths) == pytest.approx(3 * per_pair.sum() / 1e12)
    assert make_plain_loop(pairs, "cpu")() > 0


def test_local_attention_is_less_work(place: Place) -> None:
    """One of three layers is not local; parts of 128 are within the reach of the others."""
    path = models.write_model(place.folder, "modernbert", "tiny")
    whole, parts = (models.compute_teraflops(path, np.full(count, 512 // count)) for count in (1, 4))
    assert (whole - parts) * 1e12 == pytest.approx(3 * 4 * 32 * 512 * (512 - 128))


@pytest.mark.long
def test_a_study_of_other_scores_is_seen(place: Place) -> None:
    model, data = models.write_model(place.folder, "bert", "tiny"), study.write_collection(place.folder / "data")
    first, second = (study.run_trials(place, model, data, number) for number in (1, 2))
    assert study.is_equal(first, second)
    changed = {**second, "BERT seed 1 test": second["BERT seed 1 test"] + 1e-12}
    assert not study.is_equal(first, changed)
    assert not study.is_equal({}, {})


@pytest.mark.long
def test_the_error_of_a_trial_reaches_the_others(place: Place) -> None:
    with pytest.raises(Exception, match="nowhere"):
        trials.train_together(place.folder / "nowhere", "cpu", batches=1, count=2)
