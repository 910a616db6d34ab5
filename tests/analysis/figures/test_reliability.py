"""Reliability diagrams show the curve and the error of the pooled scores of the chosen runs."""

from pathlib import Path

import numpy as np
import pytest

from analysis.figures import reliability
from analysis.readers.results import read_records
from analysis.tables.main import build_report_data
from tests.analysis.builders import plan_of, study_runs, write_records
from trainables.metrics import expected_calibration_error, reliability_curve


def test_a_system_is_its_chosen_configuration_with_all_seeds_on_test(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = study_runs()
    broken = next(run for run in made if (run.variant, run.seed) == ("WSLS", 2) and run.tested)
    broken.scores["test"].loc[3, "score"] = np.nan
    write_records(tmp_path, plan_of(made), made)
    figure = reliability.plot_reliability(build_report_data(read_records(tmp_path)))
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
    write_records(tmp_path, plan_of(made, seeds=[1]), made)
    assert reliability.plot_reliability(build_report_data(read_records(tmp_path))) is None
