"""Untuned defaults on the development set: scores by hand, marks by another way, which seeds."""

from pathlib import Path

import numpy as np
import pytest

from analysis.data.configurations import Score
from analysis.readers.results import read_records
from analysis.rendering.pages import render_markdown
from analysis.stats.comparison import ComparisonFamily, ComparisonSettings, compare_family
from analysis.tables.main import ReportData, build_report_data
from tests.analysis.builders import plan_of, study_runs, write_records
from tests.analysis.searching import Searched, metric, searched


def _study(folder: Path, made: Searched) -> ReportData:
    write_records(folder, made.plan, made.runs, made.search)
    return build_report_data(read_records(folder))


def _score(made: Searched, configuration: str, seeds: tuple[int, ...]) -> Score:
    values = [metric(r.scores["dev"]) for r in made.runs if r.configuration == configuration and r.seed in seeds]
    assert len(values) == len(seeds)
    return float(np.mean(values)), float(np.std(values, ddof=1))


def test_scores_are_of_the_defaults_over_the_seeds_of_the_search(tmp_path: Path) -> None:
    made = searched(proposals=6)
    found = _study(tmp_path, made).defaults
    assert found is not None
    assert [row.system for row in found.rows] == ["BERT", "LS", "T-LS", "BM25", "untrained"]
    rows = {row.system: row for row in found.rows}
    for name in ("LS", "T-LS"):
        assert rows[name].score == pytest.approx(_score(made, made.systems[name]["untuned"], (1, 2, 3)))
    assert rows["LS"].settings == "ε 0.2"
    bert = next(run.configuration for run in made.runs if run.variant == "BERT")
    assert rows["BERT"].score == pytest.approx(_score(made, bert, (1, 2, 3)))


def test_defaults_outside_the_grid_are_shown_over_fresh_seeds(tmp_path: Path) -> None:
    made = searched(proposals=4, queries=(10, 20))
    system = made.systems["T-LS"]
    system["proposals"] = [p for p in system["proposals"] if p["configuration_id"] != system["untuned"]]
    kept = [run for run in made.runs if run.configuration != system["untuned"] or run.role == "confirm"]
    analysis = _study(tmp_path, made._replace(runs=kept))
    assert analysis.defaults is not None
    assert analysis.defaults.phase == "confirmed"
    row = next(row for row in analysis.defaults.rows if row.system == "T-LS")
    assert row.score == pytest.approx(_score(made, system["untuned"], (11, 12)))
    assert "over 2 fresh seeds" in analysis.defaults.format_legend(analysis.results.plan)


def test_marks_are_the_verdicts_on_the_development_set(tmp_path: Path) -> None:
    made = searched(proposals=6, queries=(60, 20))
    for run in made.runs:
        if run.variant == "T-LS":
            frame = run.scores["dev"]
            frame["score"] += 3.0 * frame["relevant"]
    analysis = _study(tmp_path, made)
    assert analysis.defaults is not None
    values = {}
    for name in ("BERT", "LS", "T-LS"):
        key = made.systems[name]["untuned"] if name in made.systems else None
        own = next(c for c in analysis.configurations if c.id == key or (key is None and c.system == name))
        found = own.evaluate_queries(analysis.results.plan, "search")
        assert found is not None
        values[name] = found
    pairs = [(name, "BERT", values[name] - values["BERT"]) for name in ("LS", "T-LS")]
    verdicts = {
        c.system: c.verdict for c in compare_family(ComparisonFamily("variants", "", "", pairs), ComparisonSettings())
    }
    assert verdicts["T-LS"] == "better"
    marks = {row.system: row.marks for row in analysis.defaults.rows}
    assert marks == {
        name: {"better": "▲", "worse": "▼"}.get(verdicts.get(name, ""), "") for name in marks
    }  # fmt: skip
    assert "## Defaults, on dev" in render_markdown(analysis)
    assert "exploratory" in render_markdown(analysis)


def test_without_a_search_or_with_a_default_that_never_ran_there_is_no_table(tmp_path: Path) -> None:
    runs = study_runs(seeds=(1,), grid=False)
    write_records(tmp_path / "none", plan_of(runs, seeds=[1]), runs)
    assert build_report_data(read_records(tmp_path / "none")).defaults is None
    made = searched(proposals=4, queries=(10, 20))
    made.systems["LS"]["untuned"] = "0123456789abcdef"
    assert _study(tmp_path / "lost", made).defaults is None
