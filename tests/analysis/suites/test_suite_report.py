"""The joint report of a suite, from its folder and from a W&B server."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import report
from analysis.results import read_records
from analysis.suites.comparisons import SuiteData, build_suite_data
from analysis.suites.suite_report import build_suite_runs_frame
from analysis.suites.suite_results import read_suite_folder
from analysis.suites.tables import answer_suite, build_published_section, build_score_section
from records.suite_plan import PublishedResults
from tests.analysis.suites.builders import write_suite

PUBLISHED = {
    "source": "a paper, Table 1",
    "metric": "R10@1",
    "split": "test",
    "note": "",
    "scores": {"BM25/QQP": {"BERT": {"mean": 0.5, "sd": 0.01}, "T-WSLS": {"mean": 0.53, "sd": None}}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("suite") / "synthetic"
    write_suite(place, published=PUBLISHED)
    return place


@pytest.fixture(scope="module")
def data(folder: Path) -> SuiteData:
    return build_suite_data(read_suite_folder(folder))


def test_the_command_writes_the_joint_report(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(folder), "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Better than BERT, with 95 % intervals: T-WSLS (BM25) by ")
    assert printed.splitlines()[-1] == f"All else: {tmp_path / 'out' / 'report.html'}"
    assert report.main([str(folder)]) == 0  # in the suite's folder the page has links to the reports of the studies
    page = (folder / "report" / "report.html").read_text()
    keys = ("bm25-qqp", "bm25-mantis", "random-qqp", "random-mantis")
    assert {*re.findall('href="([^"]+)"', page)} == {f"../{key}/report/report.html" for key in keys}
    assert (folder / "report" / "table.md").read_bytes() == (tmp_path / "out" / "table.md").read_bytes()
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"comparisons.json", "report.html", "results.csv", "table.md", "table.tex"}
    assert "href=" not in (tmp_path / "out" / "report.html").read_text()
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").open()))
    alone = read_records(folder / "bm25-qqp")
    own = [row for row in rows if (row["sampler"], row["task"]) == ("BM25", "QQP")]
    assert len(own) == sum(len(run.files) for run in alone.runs)
    entries = json.loads((tmp_path / "out" / "comparisons.json").read_text())
    assert {entry["kind"] for entry in entries} == {"study", "average"}


def test_the_table_has_the_means_of_the_studies_own_tables(data: SuiteData) -> None:
    for group in data.plan.list_rows():
        section = build_score_section(data, group, "test")
        assert section.header == ["system", "QQP", "MANtIS", "average", "gain"]
        for row in section.rows:
            means = []
            for cell, study in zip(row[1:3], group, strict=True):
                own = next(own for own in data.reports[study.key].table.rows if own.system == row[0])
                assert cell.startswith(f"{own.test[0]:.4f}")
                means.append(own.test[0])
            assert row[3] == f"{sum(means) / 2:.4f}"


def test_studies_that_cannot_be_averaged_are_answered_by_their_own_comparisons(tmp_path: Path) -> None:
    write_suite(tmp_path / "suite", same_queries=True)
    data = build_suite_data(read_suite_folder(tmp_path / "suite"))
    answer = answer_suite(data)
    assert answer.sentence.startswith("T-WSLS (BM25, MANtIS) is better than T-LS by ")
    assert answer.table.header == ["sampler", "task", "system", "baseline", "difference", "interval", "verdict"]
    assert [row[-1] for row in answer.table.rows] == [each.verdict for each in data.comparisons]
    assert f"all {len(data.comparisons)} comparisons" in answer.line
    write_suite(tmp_path / "unfinished", left_out=("bm25-qqp", "random-qqp"))
    unfinished = answer_suite(build_suite_data(read_suite_folder(tmp_path / "unfinished")))
    assert unfinished.table.title == "Average over the tasks, R10@1"
    assert unfinished.sentence.startswith("No conclusion: ")


def test_gains_are_over_the_first_baseline_where_systems_have_several(tmp_path: Path) -> None:
    """A suite of several losses compares each smoothed loss with itself."""
    pairs = [["LS", "BERT"], ["T-LS", "BERT"], ["T-WSLS", "WSLS"]]
    write_suite(tmp_path / "suite", pairs=pairs, published=PUBLISHED)
    data = build_suite_data(read_suite_folder(tmp_path / "suite"))
    group = data.plan.list_rows()[0]
    section = build_score_section(data, group, "test")
    assert "Gain: of the average, relative to BERT;" in section.legend
    average = {row[0]: float(row[3]) for row in section.rows}
    for row in section.rows:
        assert float(row[4].split()[0]) == pytest.approx(100 * (average[row[0]] / average["BERT"] - 1), abs=0.03)
    (published,) = build_published_section(data, group)
    assert "Gains: over BERT;" in published.legend
    assert next(row for row in published.rows if row[:2] == ["QQP", "T-WSLS"])[4] == "+0.0300"


def test_published_scores_stand_next_to_the_measured_ones(data: SuiteData) -> None:
    bm25, random = data.plan.list_rows()
    assert build_published_section(data, random) == []
    (section,) = build_published_section(data, bm25)
    rows = {(row[0], row[1]): row for row in section.rows}
    assert rows["QQP", "BERT"][2:] == ["0.5 ± 0.01", *rows["QQP", "BERT"][3:]]
    assert rows["QQP", "T-WSLS"][4] == "+0.0300"
    own = {row.system: row.test for row in data.reports["bm25-qqp"].table.rows}
    assert rows["QQP", "T-WSLS"][5] == f"{own['T-WSLS'][0] - own['BERT'][0]:+.4f}"
    assert rows["MANtIS", "BERT"][2] == "-"


def test_published_rows_are_in_the_order_of_the_plan_and_gains_are_over_a_published_baseline(folder: Path) -> None:
    """The plan's first baseline is BERT, its second one T-LS; only the second is published."""
    scores = {"BM25/QQP": {"T-WSLS": {"mean": 0.53}, "T-LS": {"mean": 0.5}, "of another year": {"mean": 0.4}}}
    published = PublishedResults.model_validate(PUBLISHED | {"scores": scores})
    results = read_suite_folder(folder)
    data = build_suite_data(replace(results, plan=results.plan.model_copy(update={"published": published})))
    (section,) = build_published_section(data, data.plan.list_rows()[0])
    rows = [row for row in section.rows if row[0] == "QQP"]
    systems = data.reports["bm25-qqp"].results.plan.systems
    assert [row[1] for row in rows if row[1] in systems] == list(systems)
    assert rows[-1][1:3] == ["of another year", "0.4"]
    gains = {row[1]: row[4] for row in rows}
    assert (gains["T-WSLS"], gains["T-LS"], gains["BERT"]) == ("+0.0300", "-", "-")
    assert "Gains: over T-LS;" in section.legend


def test_a_suite_without_results_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_suite(tmp_path / "suite", left_out=("bm25-qqp", "bm25-mantis", "random-qqp", "random-mantis"))
    assert report.main([str(tmp_path / "suite")]) == 2
    assert "no study of the suite has results" in capsys.readouterr().err


def test_options_that_have_no_meaning_are_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(folder), "--study", "bm25-qqp"]) == 2
    assert report.main([str(folder), "--suite", "synthetic"]) == 2
    assert "wandb:ENTITY/PROJECT" in capsys.readouterr().err


def test_an_axis_may_have_the_name_of_a_column(data: SuiteData) -> None:
    labels = [
        {"metric" if axis == "sampler" else axis: label for axis, label in each.labels.items()}
        for each in data.plan.studies
    ]
    studies = tuple(
        each.model_copy(update={"labels": own}) for each, own in zip(data.plan.studies, labels, strict=True)
    )
    changed = replace(data, results=replace(data.results, plan=data.plan.model_copy(update={"studies": studies})))
    frame, same = build_suite_runs_frame(changed), build_suite_runs_frame(data)
    assert frame["metric (axis)"].tolist() == same["sampler"].tolist()
    assert frame["metric"].tolist() == same["metric"].tolist()
