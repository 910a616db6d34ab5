"""The metric by turns, domain and difficulty: plain loops give the same, and what is shown is what was promised."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.data.study_results import per_query
from analysis.figures import strata_panels
from analysis.readers.study_reader import read_records
from analysis.rendering.document import build_document, render_html, render_markdown
from analysis.report import write_report
from analysis.stats.paired_tests import estimate_all
from analysis.tables.main import ReportData
from analysis.tables.strata import COLUMNS, compute_interval
from tests.analysis import builders
from tests.analysis.builders import analyse, plan_of, queries_of, scores, study_runs, write_records, write_texts
from trainables.utils.errors import UserError

QUERIES = queries_of()


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return analyse(tmp_path_factory.mktemp("strata"), study_runs(), QUERIES)


def test_every_number_by_a_plain_loop(analysis: ReportData) -> None:
    values = per_query(analysis.results, "test", "R10@1")
    table = analysis.strata.to_frame()
    assert list(table) == COLUMNS
    known = QUERIES[QUERIES["split"] == "test"].set_index("query_id")
    for row in table[table["attribute"] == "domain"].itertuples():
        names = [name for name in known.index if known.loc[name, "domain"] == row.stratum]
        assert len(names) == row.queries
        cubes = {}
        for system in (row.system, "BERT"):
            own = values[(values["system"] == system) & values["query_id"].isin(names)]
            cubes[system] = (
                own.pivot_table(index="seed", columns="query_id", values="value", dropna=False).to_numpy()
                if (own["seed"].notna().all())
                else own.sort_values("query_id")["value"].to_numpy()[None]
            )
        mean = sum(float(value) for value in cubes[row.system].ravel()) / cubes[row.system].size
        assert row.mean == pytest.approx(mean)
        if len(cubes[row.system]) > 1:
            expected = estimate_all(cubes[row.system])["both"]
            assert (row.low, row.high) == pytest.approx(expected.confidence_interval())
        if row.system == "BERT":
            assert np.isnan([row.difference, row.difference_low, row.difference_high]).all()
        else:
            gap = estimate_all(cubes[row.system] - cubes["BERT"])["both"]
            assert gap is not None
            found = row.difference, row.difference_low, row.difference_high
            assert found == pytest.approx((gap.mean, *gap.confidence_interval()))


def test_strata_add_up_to_the_whole(analysis: ReportData) -> None:
    whole = per_query(analysis.results, "test", "R10@1").groupby("system")["value"].mean()
    table = analysis.strata.to_frame()
    assert set(table["system"]) == {"BERT", "LS", "T-LS", "WSLS", "T-WSLS", "BM25", "untrained"}
    for (_, system), own in table.groupby(["attribute", "system"]):
        assert own["queries"].sum() == 60
        assert (own["mean"] * own["queries"]).sum() / 60 == pytest.approx(whole[system])
    assert list(dict.fromkeys(table["attribute"])) == ["turns", "domain", "difficulty/turns", "difficulty/BERT_loss"]


def test_terciles_of_what_a_run_found_have_no_interval_of_differences(analysis: ReportData) -> None:
    """Its scores of these queries are partly chance, which favours others among those that it found difficult."""
    table = analysis.strata.to_frame()
    table = table[table["system"] == "T-WSLS"]
    for name, own in table.groupby("attribute"):
        assert own["difference"].notna().all()
        assert own["low"].notna().all()
        assert (
            own["difference_low"].isna().all()
            == own["difference_high"].isna().all()
            == (name == "difficulty/BERT_loss")
        )
    assert "these differences have no interval" in render_markdown(build_document(analysis))


def test_one_seed_is_scipys_interval_over_queries(tmp_path: Path) -> None:
    found = analyse(tmp_path, study_runs(seeds=(1,), grid=False), QUERIES, seeds=[1])
    values = per_query(found.results, "test", "R10@1").set_index(["system", "query_id"])["value"]
    known = QUERIES[(QUERIES["split"] == "test") & (QUERIES["domain"] == "travel")]["query_id"].tolist()
    (row,) = [row for row in found.strata.select("domain", "T-WSLS") if row.stratum == "travel"]
    gap = values["T-WSLS"][known].to_numpy() - values["BERT"][known].to_numpy()
    oracle = stats.ttest_1samp(gap, 0).confidence_interval(0.95)
    assert row.difference == pytest.approx((gap.mean(), oracle.low, oracle.high))
    assert "for new queries (one seed)" in found.strata.to_sections(found.results.plan)[-1].legend


def test_a_stratum_of_one_query_has_no_interval() -> None:
    assert compute_interval(np.array([[1.0], [0.0]])) == (0.5, None, None)
    assert compute_interval(np.array([[1.0]])).to_text("+") == "+1.0000"


def test_the_choice_of_what_is_shown_sees_no_test_score(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    for run in runs:
        number = int(run.id[:8], 16)
        if run.variant == "LS":  # best on dev, worst on test
            run.scores = {"dev": scores("dev", 40, 4.0, number), "test": scores("test", 60, -2.0, number)}
    found = analyse(tmp_path, runs, QUERIES)
    assert found.strata.shown == ("BERT", "LS")
    _, header, rows, *_ = found.strata.to_sections(found.results.plan)[0]
    assert header == ["turns", "queries", "BERT", "LS", "difference"]
    assert all(row[-1].startswith("-") for row in rows)


def test_without_queries_or_baseline_nothing_is_shown(tmp_path: Path) -> None:
    runs = study_runs(seeds=(1, 2), grid=False)
    assert analyse(tmp_path / "none", runs, seeds=[1, 2]).strata is None
    assert analyse(tmp_path / "bare", runs, QUERIES[["split", "query_id"]], seeds=[1, 2]).strata is None
    untested = [replace(run, scores={"dev": run.scores["dev"]}) for run in runs]
    assert analyse(tmp_path / "untested", untested, QUERIES, seeds=[1, 2]).strata is None
    runs = [run for run in runs if (run.variant, run.seed) != ("BERT", 2)]
    broken = analyse(tmp_path / "broken", runs, QUERIES, seeds=[1, 2])
    assert broken.strata is None
    assert strata_panels.plot_strata(broken) is None
    write_texts(read_records(tmp_path / "none"), tmp_path / "report")
    assert "exploratory. " not in (tmp_path / "report" / "report.html").read_text()


def test_an_earlier_reports_strata_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builders.leave_figures_empty(monkeypatch, "strata")
    runs = study_runs(seeds=(1,), grid=False)
    write_records(tmp_path, plan_of(runs, seeds=[1]), runs, queries=QUERIES)
    assert {"strata.csv", "strata.png", "strata.svg"} < set(write_report(read_records(tmp_path), tmp_path / "r").files)
    table = pd.read_csv(tmp_path / "r" / "strata.csv")
    assert list(table) == COLUMNS
    (tmp_path / "queries.parquet").unlink()
    write_texts(read_records(tmp_path), tmp_path / "r")
    assert not list((tmp_path / "r").glob("strata*"))


@pytest.mark.parametrize("change", ["lacking", "further", "of another split"])
def test_queries_that_are_not_those_of_the_runs_are_an_error(tmp_path: Path, change: str) -> None:
    own = QUERIES["query_id"] == "test-3"
    changed = {
        "lacking": QUERIES[~own],
        "further": pd.concat([QUERIES, QUERIES[own].assign(query_id="test-x")]),
        "of another split": QUERIES.assign(split=QUERIES["split"].where(~own, "dev")),
    }[change]
    with pytest.raises(
        UserError, match=r"queries.parquet, test: lacks [01] queries of the runs, has [01] others"
    ) as error:
        analyse(tmp_path, study_runs(seeds=(1,), grid=False), changed, seeds=[1])
    assert "\n" not in str(error.value)


def test_every_form_of_the_report_has_every_attribute(analysis: ReportData) -> None:
    told, source = render_markdown(build_document(analysis)), render_html(build_document(analysis), {})
    for attribute in analysis.strata.attributes:
        assert f"### By {attribute.title}, on test" in told
        assert f"<h3>By {attribute.title}, on test</h3>" in source
        for row in analysis.strata.select(attribute.name, "T-WSLS"):
            assert row.value.to_text() in told
            assert row.difference.to_text("+") in source
    for text in (told, source):
        assert "Exploratory: not declared, and not corrected for the number of strata. T-WSLS is the best" in text


def test_the_figure_shows_both_systems_and_their_intervals(analysis: ReportData) -> None:
    figure = strata_panels.plot_strata(analysis)
    shown = [axis for axis in figure.axes if axis.get_visible()]
    for axis, attribute in zip(shown, analysis.strata.attributes, strict=True):
        assert [label.get_text() for label in axis.get_xticklabels()] == attribute.strata
        for container, system in zip(axis.containers, ("BERT", "T-WSLS"), strict=True):
            rows = analysis.strata.select(attribute.name, system)
            line, _, (bars,) = container.lines
            assert line.get_ydata().tolist() == [row.value.mean for row in rows]
            ends = [end for segment in bars.get_segments() for end in segment[:, 1]]
            assert ends == pytest.approx([end for row in rows for end in row.value[1:]])
