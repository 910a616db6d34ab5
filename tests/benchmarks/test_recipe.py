"""The pilots that find a recipe: they train without the queries that they rank, and take a study of a suite."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from study.config.loader import load_study

if TYPE_CHECKING:
    from tests.trainables.small import World

HELD_OUT = 3


@pytest.mark.slow
def test_a_pilot_trains_without_the_queries_that_it_ranks(
    world: "World", fresh: Callable[[], Path], tmp_path: Path
) -> None:
    from benchmarks.recipe import PilotRun, run_pilot
    from study.config.spaces import make_system_space
    from study.scheduling.trials import ConfigurationFactory
    from tests.study import small

    made = small.study(world, tmp_path / "study", fresh())
    factory = ConfigurationFactory(made, small.scheduler(world, made).resolved, "")
    params = make_system_space(made, "BERT").list_default_configurations()[0]
    runs = factory.make_configuration("BERT", params, [11], "baseline")
    trial = factory.make_request(runs, runs.runs[0], "train").trial
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
    assert first._replace(seconds=0) == second._replace(seconds=0)
    assert first.recall * HELD_OUT == pytest.approx(round(first.recall * HELD_OUT))
    assert (first.seed, first.instances) == (11, made.training.instances)
    assert np.isfinite(first.loss)
    assert run_pilot(trial, 2 * HELD_OUT).loss != first.loss


@pytest.mark.slow
def test_a_suite_needs_the_key_of_a_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import recipe

    monkeypatch.setenv("QQP", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["recipe", "evidence-losses", "--rates", "1e-4", "--instances", "40"])
    assert recipe.main() == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1
    assert "expected one study of the suite: qqp, docstrings" in told


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
