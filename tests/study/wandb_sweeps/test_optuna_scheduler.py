"""Optuna as the engine of a sweep: asked and told as W&B's client does it."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from wandb.sdk.sweeps.scheduler.optuna import build_optuna_optimizer
from wandb.sdk.sweeps.sweep_info import SweepInfo

from study.config.loader import load_study
from study.config.spaces import make_system_space
from study.wandb_sweeps.optuna_scheduler import make_scheduler_functions, make_sweep_scheduler
from study.wandb_sweeps.sweep_export import StudyReference, export_sweeps
from tests.study.command import merged
from trainables.utils.errors import UserError

optuna = pytest.importorskip("optuna")
STUDY = ('search.schedule=["two_stage", "linear"]', "search.n_configurations.T-LS=10")
SAMPLERS = ("tpe", "gp", "qmc")


def key(config: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(config.items()))


def value(config: dict[str, Any]) -> float:
    return -abs(config["epsilon"] - 0.3) - (config["schedule"] == "linear")


class Client:
    """Asks for a run, and tells what became of it, as `wandb sweep-scheduler` does; `runs` is what the server knows."""

    def __init__(self, *overrides: str, runs: tuple[dict[str, Any], ...] = ()) -> None:
        self.space, optimizer = make_scheduler_functions("T-LS", "quick", *merged(*STUDY, *overrides))
        self.study = optimizer(None)
        self.adopted = []
        for config in runs:
            self.study.enqueue_trial(config)
            trial = self.study.ask()
            self.adopted.append(self.space(trial))
            self.study.tell(trial, value(config), state=optuna.trial.TrialState.COMPLETE)

    @property
    def exhausted(self) -> bool:
        return bool(self.study.sampler.is_exhausted(self.study))

    def ask(self) -> tuple[Any, dict[str, Any]]:
        trial = self.study.ask()
        return trial, self.space(trial)

    def all(self, at_once: int = 1) -> list[dict[str, Any]]:
        """Runs until nothing is proposed, so many at once; returns the configurations in the order of proposal."""
        found: list[dict[str, Any]] = []
        running: list[tuple[Any, dict[str, Any]]] = []
        while running or not self.exhausted:
            while len(running) < at_once and not self.exhausted:
                running.append(self.ask())
                found.append(running[-1][1])
            trial, config = running.pop(0)
            self.study.tell(trial, value(config))
        return found


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("at_once", [1, 3])
def test_it_proposes_as_many_configurations_as_the_study_each_once_the_untuned_ones_first(
    sampler: str, at_once: int
) -> None:
    overrides = (*STUDY, f"search.sampler={sampler}")
    found = Client(overrides[-1]).all(at_once)
    assert len(found) == 10 == len(set(map(key, found)))
    points = {
        key({"variant": "T-LS", **point.values})
        for point in make_system_space(load_study("quick", overrides), "T-LS").list_configurations()
    }
    assert set(map(key, found)) <= points
    untuned = [{"schedule": "two_stage", "switch": 0.5}, {"schedule": "linear", "end": 0.8}]
    assert found[:2] == [{"variant": "T-LS", "epsilon": 0.2, **own} for own in untuned]


def test_a_whole_space_is_proposed_and_then_nothing() -> None:
    client = Client("search.n_configurations.T-LS=16", "search.sampler=tpe")
    assert len(set(map(key, client.all()))) == 16
    assert client.exhausted


def test_a_scheduler_that_is_started_again_takes_up_the_runs_that_there_are() -> None:
    """With what the server holds of them: values, and what else the configuration's run says of itself."""
    first = Client().all()[:4]
    runs = tuple({**config, "study": "quick", "configuration_id": "c", "specification_ids": ["a"]} for config in first)
    again = Client(runs=runs)
    assert again.adopted == first
    assert [trial.value for trial in again.study.trials] == [value(config) for config in first]
    found = again.all()
    assert len(found) == 6
    assert not set(map(key, found)) & set(map(key, first))


def test_a_run_that_the_grid_does_not_have_is_refused_and_nothing_is_mistaken_for_it() -> None:
    client = Client()
    for config in ({"variant": "T-LS", "epsilon": 0.25, "schedule": "linear"}, {"variant": "T-LS", "epsilon": 2}):
        with pytest.raises((UserError, ValueError)):
            client.study.enqueue_trial(config)
    assert len(client.all()) == 10


def test_several_objectives_have_their_own_directions() -> None:
    client = Client('search.objectives=["R10@1", "ECE"]')
    assert [direction.name for direction in client.study.directions] == ["MAXIMIZE", "MINIMIZE"]


def test_the_sweep_names_a_file_whose_functions_are_the_studys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    overrides = (*STUDY, 'search.objectives=["R10@1", "ECE"]')
    export_sweeps(
        load_study("quick", overrides), StudyReference("quick", overrides), Path("sweeps"), make_sweep_scheduler
    )
    sweep = yaml.safe_load(Path("sweeps/t-ls.yaml").read_text("utf-8"))
    assert sweep["method"] == "custom"
    assert sweep["metrics"] == [
        {"name": "objective/R10@1", "goal": "maximize"},
        {"name": "objective/ECE", "goal": "minimize"},
    ]
    named = sweep["scheduler"]
    assert named["engine"] == "optuna"
    made = runpy.run_path(named["source"])
    study = made[named["optimizer"]](None)
    assert isinstance(study, optuna.Study)
    assert made[named["search_space"]](study.ask()) == {
        "variant": "T-LS", "epsilon": 0.2, "schedule": "two_stage", "switch": 0.5,
    }  # fmt: skip


def test_wandbs_own_client_proposes_them_all_and_ends_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    export_sweeps(load_study("quick", STUDY), StudyReference("quick", STUDY), Path("sweeps"), make_sweep_scheduler)
    config = yaml.safe_load(Path("sweeps/t-ls.yaml").read_text("utf-8"))
    named = {"id": "id", "name": "T-LS", "entity": "team", "project": "quick", "controller_run_name": ""}
    client = build_optuna_optimizer(SweepInfo(config=config, **named))
    found = [suggestion.config.flat_dict() for _ in range(4) for suggestion in client.ask_n_runs(3)]
    assert len(found) == 10 == len(set(map(key, found)))
    assert client.ask_n_runs(3) == []


def test_a_grid_needs_no_engine(tmp_path: Path) -> None:
    overrides = ("search.sampler=grid", *(f"search.n_configurations.{name}=4" for name in ("LS", "WSLS")))
    overrides += tuple(f"search.n_configurations.{name}=12" for name in ("T-LS", "T-WSLS"))
    with pytest.raises(UserError, match=r"--engine: optuna.*expected another search\.sampler"):
        export_sweeps(
            load_study("quick", overrides), StudyReference("quick", overrides), tmp_path, make_sweep_scheduler
        )
