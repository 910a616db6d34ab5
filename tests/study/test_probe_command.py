"""The probe of a study's batches, from the command line to its files."""

from pathlib import Path

import pandas as pd
import pytest

from study.probe import main
from tests.trainables.encoders import Encoders

pytestmark = pytest.mark.slow


def arguments(encoders: Encoders, place: Path) -> list[str]:
    data = encoders.prepared.folder.parents[2]
    study = {
        "task.path": data / "sentences.txt",
        "task.evaluation_path": data,
        "model.name": encoders.bert,
        "model.pooling": "mean",
        "training.instances": 128,
        "training.evaluations": 2,
        "training.epochs": "none",
        "cache.folder": encoders.fresh(),
    }
    return ["gs-infonce", *(f"{key}={value}" for key, value in study.items()), "--output", str(place / "probe")]


def test_it_writes_table_and_figure(encoders: Encoders, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments(encoders, tmp_path), "--sizes", "8", "32", "128"]) == 0
    table = pd.read_csv(tmp_path / "probe" / "probe.csv")
    assert table["batch_size"].tolist() == [8, 32, 128]
    assert table["nearest_1"].is_monotonic_increasing
    assert (table["nearest_1"] >= table["nearest_4"]).all()
    assert table["noise_share"].between(0, 1).all()
    assert f"{table['nearest_1'][0]:.4g}" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "probe").iterdir()} == {"probe.csv", "probe.png", "probe.svg"}
    before = (tmp_path / "probe" / "probe.svg").read_bytes()
    assert main([*arguments(encoders, tmp_path), "--sizes", "8", "32", "128"]) == 0
    assert (tmp_path / "probe" / "probe.svg").read_bytes() == before


def test_a_mistake_is_told_in_a_line(encoders: Encoders, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments(encoders, tmp_path), "--sizes", "8", "3000"]) == 2
    assert "--sizes: 3000; expected sizes from 5 to 200" in capsys.readouterr().err
    (tmp_path / "taken").write_text("no folder")
    assert main([*arguments(encoders, tmp_path)[:-1], str(tmp_path / "taken")]) == 2
    assert capsys.readouterr().err.startswith("study.probe: --output: ")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "probe.png").write_text("mine")
    assert main([*arguments(encoders, tmp_path)[:-1], str(tmp_path / "mine")]) == 2
    assert "probe.png exists and this command did not write it" in capsys.readouterr().err
    assert main(["quick"]) == 2
    assert capsys.readouterr().err == ("study.probe: trainable: cross-encoder; expected one that embeds sentences\n")
