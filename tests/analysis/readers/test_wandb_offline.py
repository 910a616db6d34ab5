"""Files that the real W&B client writes offline is read back, whole or cut short; damage is an error."""

import json
from pathlib import Path

import pytest

from analysis.readers.wandb_offline import read_offline_runs
from tests.analysis.logged import environment, log
from trainables.utils.errors import UserError

CONFIG = {"nothing": None, "nested": {"R10@1": [1, 2.5, None], "dot.ted": "ä"}, "long": "x" * 100_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("wandb")
    place = tmp_path_factory.mktemp("client")
    history = [{"instances": n, "train/loss": 1 / (n + 1)} for n in range(700)]
    with environment(place):
        log("offline", place, "first", "search", CONFIG, "group", history, {"state": "failed", "kept": 1e-9})
        more = [{"instances": 700, "dev/R10@1": 1.0}]
        log("offline", place, "first", "search", CONFIG, "group", more, {"state": "finished"})
    return place / "wandb"


def _copy(folder: Path, target: Path, data: bytes, part: int = 0) -> Path:
    source = sorted(folder.glob("offline-run-*/*.wandb"))[part]
    place = target / source.parent.name
    place.mkdir()
    (place / source.name).write_bytes(data)
    return target


def test_a_resumed_run_is_one_run(folder: Path) -> None:
    (run,) = read_offline_runs(folder)
    assert (run.id, run.group, run.job_type) == ("first", "group", "search")
    assert run.config == CONFIG
    assert run.history[:700] == [{"instances": n, "train/loss": 1 / (n + 1)} for n in range(700)]
    assert run.history[700:] == [{"instances": 700, "dev/R10@1": 1.0}]
    assert run.summary["state"] == "finished"
    assert run.summary["kept"] == 1e-9


def test_killed_run_is_read_as_far_as_it_goes(folder: Path, tmp_path: Path) -> None:
    data = sorted(folder.glob("offline-run-*/*.wandb"))[0].read_bytes()
    whole = read_offline_runs(folder)[0].history
    lengths = []
    for number, cut in enumerate([0, 3, 7, 20, 40_000, len(data) // 2, len(data) - 1]):
        place = tmp_path / str(number)
        place.mkdir()
        found = read_offline_runs(_copy(folder, place, data[:cut]))
        rows = found[0].history if found else []
        assert rows == whole[: len(rows)]
        lengths.append(len(rows))
    assert lengths == sorted(lengths)
    assert 0 < lengths[-2] < 700 <= lengths[-1]


@pytest.mark.parametrize("at", [0, 12, 40_000, 100_000])
def test_damage_is_an_error(folder: Path, tmp_path: Path, at: int) -> None:
    data = bytearray(sorted(folder.glob("offline-run-*/*.wandb"))[0].read_bytes())
    data[at] ^= 0xFF
    with pytest.raises(UserError, match="W&B file") as error:
        read_offline_runs(_copy(folder, tmp_path, bytes(data)))
    assert "\n" not in str(error.value)


def test_parts_of_the_same_second_stay_in_order(folder: Path, tmp_path: Path) -> None:
    first, second = (path.read_bytes() for path in sorted(folder.glob("offline-run-*/*.wandb")))
    for suffix, data in (("", first), *((f"-{n}", first) for n in range(1, 10)), ("-10", second)):
        place = tmp_path / f"offline-run-20260101_000000-first{suffix}"
        place.mkdir()
        (place / "run-first.wandb").write_bytes(data)
    states = [json.dumps(run.summary["state"]) for run in read_offline_runs(tmp_path)]
    assert states == ['"finished"']
