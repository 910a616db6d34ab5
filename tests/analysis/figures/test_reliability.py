"""Reliability diagrams show the curve and the error of the pooled scores of the chosen runs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.data.cautions import format_caption, list_cautions
from analysis.data.study_results import per_query
from analysis.figures import reliability
from analysis.readers.study_reader import read_records
from analysis.tables.main import build_report_data
from tests.analysis.builders import analyse, plan_of, study_runs, write_records
from trainables.metrics import expected_calibration_error, reliability_curve
from trainables.utils.errors import UserError


def test_a_system_is_its_chosen_configuration_with_all_seeds_on_test(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = study_runs()
    broken = next(run for run in made if (run.variant, run.seed) == ("WSLS", 2) and run.tested)
    broken.scores["test"].loc[3, "score"] = np.nan
    figure = reliability.plot_reliability(analyse(tmp_path, made))
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.get_title().split(",")[0] for axis in shown] == ["BERT", "LS", "T-LS", "T-WSLS"]
    for axis in shown:
        name = axis.get_title().split(",")[0]
        frames = [run.scores["test"] for run in made if run.variant == name and run.tested]
        scores, relevant = (np.concatenate([frame[key] for frame in frames]) for key in ("score", "relevant"))
        assert axis.get_title() == f"{name}, ECE {expected_calibration_error(scores, relevant):.3f}"
        own = reliability_curve(scores, relevant)
        line = axis.lines[1]
        assert line.get_xdata() == pytest.approx(own.probability[own.candidates > 0])
        assert line.get_ydata() == pytest.approx(own.relevant[own.candidates > 0])
        assert axis.patches[0].get_data().values == pytest.approx(own.candidates / own.candidates.max() / 4)


def test_without_test_scores_there_is_no_diagram(tmp_path: Path) -> None:
    made = study_runs(seeds=(1,), grid=False)
    for run in made:
        run.scores.pop("test", None)
    assert reliability.plot_reliability(analyse(tmp_path, made, seeds=[1])) is None


def test_a_single_logit_has_no_diagram_and_the_report_says_so(tmp_path: Path) -> None:
    made = study_runs(seeds=(1, 2), grid=False)
    write_records(tmp_path, plan_of(made, seeds=[1, 2]), made)
    plain = read_records(tmp_path)
    model = {"max_length": 40, "ranking_score": "relevant_logit"}
    runs = [
        run
        if run.seed is None
        else replace(run, config={**run.config, "specification": {**run.config["specification"], "model": model}})
        for run in plain.runs
    ]
    single = replace(plain, runs=runs)
    assert reliability.plot_reliability(build_report_data(plain)) is not None
    assert reliability.plot_reliability(build_report_data(single)) is None
    told = "Candidates are ranked by logit(relevant) alone (model.ranking_score)"
    assert [told in " ".join(list_cautions(results)) for results in (plain, single)] == [False, True]
    assert [told in format_caption(results) for results in (plain, single)] == [False, True]
    assert len(per_query(single, "test", "MAP")) == len(per_query(plain, "test", "Brier")) > 0
    with pytest.raises(
        UserError, match="Brier of scores from which no probability follows; expected a metric of rankings"
    ):
        per_query(single, "test", "Brier")
