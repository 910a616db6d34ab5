"""The pilots that find a recipe: they train without the queries that they rank, and take a study of a suite."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from study.config.loader import load_study

if TYPE_CHECKING:
    from study.config.schema import Study
    from tests.trainables.small import World
    from trainables.specs.trial import TrialSpec

HELD_OUT = 3


def make_trial(world: "World", cache: Path, folder: Path) -> "tuple[Study, TrialSpec]":
    from study.config.spaces import make_system_space
    from study.scheduling.trials import ConfigurationFactory
    from tests.study import small

    made = small.study(world, folder, cache)
    factory = ConfigurationFactory(made, small.scheduler(world, made).resolved, "")
    params = make_system_space(made, "BERT").list_default_configurations()[0]
    runs = factory.make_configuration("BERT", params, [11], "baseline")
    return made, factory.make_request(runs, runs.runs[0], "train").trial


@pytest.mark.slow
def test_a_pilot_trains_without_the_queries_that_it_ranks(
    world: "World", fresh: Callable[[], Path], tmp_path: Path
) -> None:
    from benchmarks.recipe import PilotRun, run_pilot

    made, trial = make_trial(world, fresh(), tmp_path / "study")
    first, second = run_pilot(trial, HELD_OUT), run_pilot(trial, HELD_OUT)
    pilot = PilotRun(trial, HELD_OUT)
    pairs, trained = pilot.data.select_pairs("train"), pilot._train_pairs
    ranked = pairs.select_queries(len(pairs.rows) - HELD_OUT, len(pairs.rows))
    assert len(ranked.rows) == HELD_OUT
    assert trained.first_row == pairs.first_row
    assert trained.first_row + len(trained.relevant) == ranked.first_row
    for kept, left_out, whole in zip(
        (trained.relevant, trained.labels, trained.scores),
        (ranked.relevant, ranked.labels, ranked.scores),
        (pairs.relevant, pairs.labels, pairs.scores),
        strict=True,
    ):
        np.testing.assert_array_equal(np.concatenate([kept, left_out]), whole)
    np.testing.assert_array_equal(first.recalls, second.recalls)
    assert len(first.recalls) == HELD_OUT
    assert first.loss == second.loss
    assert (first.seed, first.instances) == (11, made.training.instances)
    assert np.isfinite(first.loss)
    assert run_pilot(trial, 2 * HELD_OUT).loss != first.loss


@pytest.mark.slow
@pytest.mark.parametrize("held_out", [HELD_OUT, 0])
def test_the_starting_weights_rank_the_same_queries(
    world: "World", fresh: Callable[[], Path], tmp_path: Path, held_out: int
) -> None:
    from benchmarks.recipe import rank_without_training, run_pilot, select_held_out
    from trainables.rankers.ranker_run import RankerData

    _, trial = make_trial(world, fresh(), tmp_path / "study")
    ranked, trained = rank_without_training(trial, held_out), run_pilot(trial, held_out)
    assert [*ranked] == ["sampler" if held_out else "BM25", "cosine"]
    data = RankerData(trial)
    pairs = select_held_out(data, held_out)
    for recalls in (*ranked.values(), trained.recalls):
        assert len(recalls) == len(pairs.rows)
        assert {*recalls} <= {0.0, 1.0}
    if not held_out:
        bm25 = data.prepared.read_candidates("dev", ["bm25"])["bm25"].to_numpy(float)
        assert data.get_evaluated("dev").compute_metric("P@1", bm25) == ranked["BM25"].mean()


@pytest.mark.slow
def test_a_suite_needs_the_key_of_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import recipe

    monkeypatch.setenv("UBUNTU", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["recipe", "evidence-smoothing", "--rates", "1e-4", "--instances", "40"])
    assert recipe.main() == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "expected one study of the suite: docstrings-recall, docstrings-position, conversations-recall" in told


@pytest.mark.parametrize(("strengths", "strength"), [("[0.1, 0.2, 0.4]", 0.2), ("[0.4]", 0.4)])
def test_a_system_has_its_published_configuration_or_the_first_that_the_study_searches(
    strengths: str, strength: float
) -> None:
    from benchmarks.recipe import choose_configuration

    study = load_study(
        "quick", [f"search.epsilon={strengths}", "search.n_configurations.LS=1", "search.n_configurations.WSLS=1"]
    )
    assert choose_configuration(study, "WSLS").values == {"epsilon": strength}
    assert choose_configuration(study, "BERT").values == {}
