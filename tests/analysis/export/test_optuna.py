"""The searches as Optuna's own file: what Optuna reads in it."""

import warnings
from datetime import datetime
from pathlib import Path

import pytest

from analysis.data.study_results import Results
from analysis.export import optuna as optuna_file
from records.plan import Plan
from records.search_log import SearchLog
from tests.analysis.builders import PLAN, study_runs
from tests.analysis.searching import GRID, told

optuna = pytest.importorskip("optuna")


@pytest.fixture(scope="module")
def results() -> Results:
    plan = Plan.model_validate(PLAN)
    search = SearchLog.model_validate(told(study_runs(seeds=(1,), grid=False)))
    return Results(plan, "0", [], search)


@pytest.fixture(scope="module")
def path(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("optuna") / "optuna.db"
    optuna_file.write_optuna_file(results, place)
    return place


def test_optuna_loads_what_was_proposed(results: Results, path: Path) -> None:
    study = optuna.load_study(study_name="T-LS", storage=f"sqlite:///{path}")
    search = results.search.systems["T-LS"]
    assert study.direction.name == "MAXIMIZE"
    assert study.metric_names == ["dev R10@1"]
    states = {"complete": "COMPLETE", "dropped": "PRUNED", "incomplete": "FAIL", "unknown": "WAITING"}
    for proposal, trial in zip(search.proposals, study.trials, strict=True):
        assert trial.params == proposal.values
        assert trial.state.name == states[proposal.state]
        assert trial.user_attrs["configuration_id"] == proposal.configuration_id
        assert trial.user_attrs["seeds"] == list(proposal.seeds)
        assert trial.value == (proposal.mean if proposal.state == "complete" else None)
        assert trial.datetime_start in (None, datetime(2000, 1, 1))
        assert ("switch" in trial.params) == (proposal.values["schedule"] == "two_stage")
    domains = study.trials[0].distributions
    assert domains["learning_rate"] == optuna.distributions.FloatDistribution(5e-6, 4.5e-5)
    assert domains["epsilon"] == optuna.distributions.FloatDistribution(0.1, 0.4)
    assert set(domains["schedule"].choices) == set(GRID["schedule"])
    assert study.user_attrs["sampler"] == "tpe"


def test_a_dropped_one_shows_how_far_it_came(results: Results, tmp_path: Path) -> None:
    optuna_file.write_optuna_file(results, tmp_path / "optuna.db")
    study = optuna.load_study(study_name="T-LS", storage=f"sqlite:///{tmp_path / 'optuna.db'}")
    (pruned,) = [trial for trial in study.trials if trial.state.name == "PRUNED"]
    assert pruned.intermediate_values == {1: pruned.user_attrs["mean R10@1"]}
    assert study.best_value == max(trial.value for trial in study.trials if trial.state.name == "COMPLETE")


def test_the_same_searches_give_the_same_bytes_and_no_warning(results: Results, path: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optuna_file.write_optuna_file(results, tmp_path / "again.db")
    assert (tmp_path / "again.db").read_bytes() == path.read_bytes()
