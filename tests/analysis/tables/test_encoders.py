"""A study with a correlation as metric goes through the whole of the analysis, with pairs as its units."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.export import wandb_summary as findings
from analysis.export.trec import export_trec
from analysis.readers.study_reader import read_records, read_wandb_files
from analysis.report import Report
from analysis.tables.main import ReportData, build_report_data
from tests.analysis.builders import Made, content_of, write_records, write_texts
from tests.analysis.logged import write_wandb
from tests.analysis.similarity import SETS, encoder_plan, encoder_runs
from trainables.utils.errors import UserError

METRICS = [f"STS/{name}" for name in SETS]


@pytest.fixture(scope="module")
def runs() -> list[Made]:
    return encoder_runs()


@pytest.fixture(scope="module")
def records(runs: list[Made], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoders") / "study"
    write_records(folder, encoder_plan(runs), runs)
    return folder


@pytest.fixture(scope="module")
def report(records: Path) -> Report:
    return write_texts(read_records(records), records / "report")


@pytest.fixture(scope="module")
def analysis(report: Report) -> ReportData:
    return report.analysis


def scored(frame: pd.DataFrame, name: str) -> float:
    """The oracle: of a set or a subset, or of the mean over sets."""
    sets = frame["query_id"].str.partition("/")[0]
    if name == "STS":
        return float(np.mean([scored(frame, f"STS/{own}") for own in sets.unique()]))
    place = name.removeprefix("STS/")
    own = frame[(sets == place) | (frame["query_id"] == place)]
    return float(100 * stats.spearmanr(own["score"], own["relevant"]).statistic)


def mean_of(runs: list[Made], system: str, name: str, split: str = "test") -> float:
    return float(np.mean([scored(run.scores[split], name) for run in runs if run.variant == system]))


def test_wandb_and_records_give_the_same(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    made = encoder_runs((1,))
    write_records(tmp_path / "records", encoder_plan(made), made)
    write_wandb(tmp_path / "wandb", encoder_plan(made), made)
    online, records = read_wandb_files(tmp_path / "wandb"), read_records(tmp_path / "records")
    assert content_of(online) == content_of(records)


def test_a_family_is_every_pair_by_every_metric_corrected_together(
    runs: list[Made], report: Report, analysis: ReportData
) -> None:
    asked = [(c.family, c.system, c.baseline, c.metric, c.comparisons) for c in analysis.comparisons]
    systems = ("GS-InfoNCE", "T-GS-InfoNCE")
    assert asked == [
        *(("variants", name, "SimCSE", metric, 6) for name in systems for metric in METRICS),
        *(("mean", name, "SimCSE", "STS", 2) for name in systems),
    ]
    for c in analysis.comparisons:
        expected = mean_of(runs, c.system, c.metric) - mean_of(runs, c.baseline, c.metric)
        assert c.difference == pytest.approx(expected, abs=1e-9)
        head = c.targets["both"]
        assert c.adjusted["bonferroni"] == pytest.approx(min(1.0, c.comparisons * head.p))
        assert c.wins_ties_losses is None
    assert [c.verdict for c in analysis.comparisons][-2:] == ["undecided", "better"]
    stored = json.loads((report.folder / "comparisons.json").read_text())
    assert [one["metric"] for one in stored] == [c.metric for c in analysis.comparisons]


def test_the_test_over_pairs_is_named_by_its_unit(report: Report) -> None:
    says_nothing = (
        "p (pairs), Bonferroni, corrected for the family, is the test of Penha and Hauff (2021); it says nothing"
    )
    for text in ((report.folder / name).read_text() for name in ("table.md", "report.html")):
        assert says_nothing in text


def test_a_column_a_metric(runs: list[Made], report: Report, analysis: ReportData) -> None:
    _, header, rows, _, _, bold, *_ = analysis.by_metric
    assert header == ["system", *SETS, "STS (mean)"]
    for row in rows:
        for cell, metric in zip(row[1:], [*METRICS, "STS"], strict=True):
            assert cell.split(" ")[0] == f"{mean_of(runs, row[0], metric):.2f}"
    assert bold == {(2, column) for column in range(1, 5)}
    page, tex = ((report.folder / name).read_text() for name in ("report.html", "table.tex"))
    assert "By set, on test" in page
    assert r"\label{tab:by-metric}" in tex
    assert "STS12 & STS13" in tex
    assert tex.count(r"\textbf{") >= 4


def test_the_words_are_of_pairs(report: Report) -> None:
    page, table = ((report.folder / name).read_text() for name in ("report.html", "table.md"))
    for text in (" ".join(report.text.split()), table, page.partition("<h3>Runs")[0]):
        assert "Tested for new pairs and new seeds, with 190 test pairs and 3 seeds" in text
        assert "new quer" not in text
        assert "W/T/L" not in text
        assert "Sentence pairs of dev: 115 of 2 sets; test: 200 of 3 sets, 190 of them distinct" in text + table
    c = next(c for c in report.analysis.comparisons if c.verdict == "better" and c.metric == "STS")
    size = f"{c.difference:.4f} (95 % interval {c.interval[0]:.4f} to {c.interval[1]:.4f})"
    assert f"{c.system} is better than {c.baseline} by {size}." in report.conclusion


def test_findings_tell_the_metrics_apart(analysis: ReportData) -> None:
    found = findings.build_wandb_summary(analysis)
    for c in analysis.comparisons:
        metric = "" if c.metric == "STS" else c.metric
        assert found[findings.make_comparison_key(c.system, c.baseline, "difference", metric)] == c.difference
    assert "comparison/GS-InfoNCE vs SimCSE on STS/STS12/p" in found


def damaged(runs: list[Made], change: Callable[[pd.DataFrame], pd.DataFrame]) -> list[Made]:
    made = encoder_runs()
    last = next(run for run in made if (run.variant, run.seed) == ("T-GS-InfoNCE", 2))
    last.scores["test"] = change(last.scores["test"])
    return made


def test_a_nan_makes_a_system_incomplete(runs: list[Made], tmp_path: Path) -> None:
    broken = damaged(runs, lambda frame: frame.assign(score=frame["score"].where(frame.index != 3)))
    write_records(tmp_path / "study", encoder_plan(broken), broken)
    report = write_texts(read_records(tmp_path / "study"), tmp_path / "report")
    assert "T-GS-InfoNCE is incomplete: seed 2 has NaN scores" in report.text
    gaps = [c for c in report.analysis.comparisons if c.system == "T-GS-InfoNCE"]
    assert all(c.difference is None and c.verdict == "not compared" for c in gaps)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.iloc[20:], "180 pairs; expected the 190 of the plan"),
        (lambda frame: frame.iloc[1:], "not the sets of the other runs"),
        (lambda frame: frame.assign(relevant=frame["relevant"] + frame.index), "not the sets of the other runs"),
        (lambda frame: frame.assign(pair_id="9" + frame["pair_id"]), "not the pairs of the other runs"),
        (lambda frame: frame.assign(relevant=3.0), "STS-B: all grades are equal"),
    ],
)
def test_other_pairs_are_an_error(
    runs: list[Made], tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    broken = damaged(runs, change)
    write_records(tmp_path, encoder_plan(broken), broken)
    with pytest.raises(UserError, match=message):
        build_report_data(read_records(tmp_path))


@pytest.mark.parametrize(("unit", "metric"), [("query", "STS"), ("sentence pair", "MAP")])
def test_the_unit_must_be_the_metrics(runs: list[Made], tmp_path: Path, unit: str, metric: str) -> None:
    write_records(tmp_path, encoder_plan(runs[:1], unit=unit, metric=metric), runs[:1])
    with pytest.raises(UserError, match=f"expected a metric that each {unit} has"):
        read_records(tmp_path)


def test_one_seed_and_nothing_tested(tmp_path: Path) -> None:
    for name, made in (("one", encoder_runs((1,))), ("untested", encoder_runs(tested=False))):
        write_records(tmp_path / name, encoder_plan(made), made)
        report = write_texts(read_records(tmp_path / name), tmp_path / name / "report")
        assert ("By set" in (report.folder / "table.md").read_text()) == (name == "one")
        if name == "one":
            assert all(c.target == "queries" for c in report.analysis.comparisons)
            assert "Tested for new pairs, not for new seeds" in report.text
            assert "This holds for these trained models only." in report.conclusion


def test_a_study_of_one_set_among_several(runs: list[Made], tmp_path: Path) -> None:
    families = [{"name": "one", "comparisons": [["T-GS-InfoNCE", "SimCSE"]]}]
    write_records(tmp_path / "study", encoder_plan(runs, metric="STS/STS-B", families=families), runs)
    report = write_texts(read_records(tmp_path / "study"), tmp_path / "report")
    assert "with 80 test pairs and 3 seeds" in report.text
    (c,) = report.analysis.comparisons
    expected = mean_of(runs, c.system, "STS/STS-B") - mean_of(runs, c.baseline, "STS/STS-B")
    assert c.difference == pytest.approx(expected, abs=1e-9)


def test_gold_similarities_are_no_judgements_of_trec(records: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--export-trec: gold similarities of sentences; expected a study of rankers"):
        export_trec(read_records(records), tmp_path / "trec")
    assert not (tmp_path / "trec").exists()
