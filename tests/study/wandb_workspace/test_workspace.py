"""A study's dashboard names nothing that no run logs, shows this study's runs alone, and is the same JSON again."""

from pathlib import Path
from typing import Any

import pytest
import wandb_workspaces.workspaces as ws
from wandb_workspaces.expr import FE_METRIC_NAME_MAP
from wandb_workspaces.workspaces.internal import View

from analysis.export import wandb_summary as findings
from analysis.readers.study_reader import read_records
from analysis.tables.main import build_report_data
from records import run_record as record
from study.config.loader import load_study
from study.config.schema import Study
from study.folder.trial_record import make_failed_record
from study.plan import analysis_plan as plan
from study.wandb_workspace.panels import find_varied_hyperparameters
from study.wandb_workspace.workspace import as_json, build_workspace
from tests.study.dashboards import missing, named, panels, selects
from tests.study.small import conduct, scheduler, study
from trainables.rankers.ranker_data import describe_data

TRIALS = {"LS": 1, "WSLS": 1, "T-LS": 2, "T-WSLS": 1}


@pytest.fixture(scope="module")
def tiny(world, tmp_path_factory):
    """A study that ran to its end, one run next to it failed; and all keys that its runs logged."""
    place = tmp_path_factory.mktemp("dashboard")
    search = {"n_configurations": TRIALS, "hours": 5.0}
    made = study(world, place / "study", world.fresh_cache(place / "cache"), search=search)
    plan.register_plan(made, "sha256:0", made.folder, describe_data(world.prepared))
    begun = scheduler(world, made)
    conduct(begun)
    _fail(begun)
    found = findings.build_wandb_summary(build_report_data(read_records(made.folder)))
    entries = [record.read_run_record(made.folder, path.name, split) for path in _runs(made) for split in record.SPLITS]
    kept = [entry for entry in entries if entry is not None]
    return made, {
        "history": {key for path in _runs(made) for row in record.read_history(made.folder, path.name) for key in row},
        "summary": {key for entry in kept for key in entry["summary"]} | found.keys(),
        "config": {key for entry in kept for key in entry["config"]},
    }


def _runs(made: Study) -> list[Path]:
    return list((made.folder / "runs").iterdir())


def _fail(begun: Any) -> None:
    """Records that a further seed of the baseline failed, as a trial does."""
    item = next(item for item in begun.configurations if item.name == "BERT")
    run = item.runs[0].model_copy(update={"seed": 9})
    request = begun._factory.make_request(item, run, "train")
    entry = make_failed_record(request.trial, request.labels, "ValueError: no room", {})
    record.write_run_record(begun.folder, "dev", entry, None)


def test_every_key_that_a_panel_names_is_logged_by_a_run(tiny):
    made, logged = tiny
    view = as_json(build_workspace(made))
    assert not missing(view, logged)
    assert named(view)["run"] <= {*FE_METRIC_NAME_MAP.values()}


def test_what_is_asked_for_is_named():
    keys = named(as_json(build_workspace(load_study("quick", ["search.gpu_hours=2", "resources.gpu=1.0"]))))
    curves = {"train/loss", "train/learning_rate", "train/epsilon", "train/instances_per_second", "dev/R10@1"}
    assert curves | {"instances"} <= keys["history"]
    assert {"comparison/LS vs BERT/p_corrected", "comparison/BERT vs BM25/p_corrected", "failed_runs"} <= keys[
        "summary"
    ]
    assert {"cost/gpu_hours", "budget/gpu_hours", "cost/hours", "seconds", "instances_trained"} <= keys["summary"]
    assert "budget/hours" not in keys["summary"]
    assert {"study", "variant", "epsilon", "switch"} <= keys["config"]


def test_the_runs_shown_are_the_studys_trained_ones_and_its_report():
    view = as_json(build_workspace(load_study("quick", ['variants=["BERT", "T-LS"]'])))
    filters = view["spec"]["section"]["runSets"][0]["filters"]
    trained = {"study": "quick", "role": "search", "variant": "T-LS", "specification_id": "0"}

    def shown(job: str, **changes: Any) -> bool:
        config = {key: value for key, value in (trained | changes).items() if value is not None}
        return selects(filters, {"run": {"jobType": job}, "config": config})

    assert shown("search")
    assert shown("baseline", role="baseline", variant="BERT")
    assert shown("confirm", role="confirm")
    assert shown("report", role=None, variant=None)
    assert not shown("search", study="other")
    assert not shown("report", study="other", role=None, variant=None)
    assert not shown("search", role=None, variant=None)  # what the searches did
    assert not shown("plan", role=None, variant=None)
    assert not shown("sweep", role=None)  # an agent's own run has the sweep's parameters
    assert not shown("baseline", role="baseline", variant="BM25")  # epsilon 0, as the baseline has


def test_curves_are_grouped_by_variant_with_bands():
    view = as_json(build_workspace(load_study("quick")))
    curves = next(s for s in view["spec"]["section"]["panelBankConfig"]["sections"] if s["name"] == "Learning curves")
    for panel in curves["panels"][:-1]:
        assert (
            panel["config"].items() >= {"groupBy": "variant.value", "groupAgg": "mean", "groupArea": "stddev"}.items()
        )
        assert panel["config"]["xAxis"] == "instances"
    assert curves["panels"][-1]["config"]["groupBy"] == "group"


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ([], ["epsilon", "switch"]),
        (["search.schedule_settings.switch=[0.5]"], ["epsilon", "switch"]),
        (['variants=["BERT", "LS"]'], ["epsilon"]),
        (['variants=["BERT"]'], []),
        (['search.schedule=["two_stage", "linear"]'], ["epsilon", "schedule", "switch"]),
        (["search.learning_rate=[1e-4, 5e-4]"], ["epsilon", "switch", "learning_rate"]),
    ],
)
def test_axes_are_the_hyperparameters_that_the_search_varies(overrides, expected):
    made = load_study("quick", overrides)
    assert sorted(find_varied_hyperparameters(made)) == sorted(expected)
    shown = [
        panel for panel in panels(as_json(build_workspace(made))) if panel["viewType"] == "Parallel Coordinates Plot"
    ]
    axes = [[column["accessor"] for column in panel["config"]["columns"]] for panel in shown]
    named_so = [f"config:{name}.value" for name in find_varied_hyperparameters(made)]
    assert axes == ([["config:variant.value", *named_so, "summary:dev/R10@1"]] if expected else [])


def test_the_same_study_is_the_same_json_and_another_has_another_name():
    first, again, other = (as_json(build_workspace(load_study("quick", o))) for o in ([], [], ["name=other"]))
    assert first == again
    assert first["name"] != other["name"]
    ids = [panel["__id__"] for panel in panels(first)]
    assert len(set(ids)) == len(ids)


def test_the_library_reads_what_is_written():
    view = as_json(build_workspace(load_study("quick"), "team"))
    assert as_json(ws.Workspace._from_model(View.model_validate(view))) == view
    assert (view["entity"], view["project"]) == ("team", "quick")
