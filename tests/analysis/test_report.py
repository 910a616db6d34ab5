"""From a study to its tables: numbers by another way, incomplete configurations, the same bytes again."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.compare import compare, read_score_file
from analysis.data.study_results import per_query
from analysis.export.report_folder import stage_report
from analysis.readers.study_reader import read_folder, read_records, read_wandb_files
from analysis.rendering.conclusion import answer_study
from analysis.rendering.document import build_document, render_latex, render_markdown, render_text
from analysis.report import main, write_report
from analysis.stats.two_way import two_way_anova, two_way_estimate
from tests.analysis import builders
from tests.analysis.builders import (
    Made,
    analyse,
    content_of,
    plan_of,
    report_of,
    scores,
    study_runs,
    write_records,
    write_texts,
)
from tests.study.command import light
from trainables.utils.errors import UserError


def test_report_from_wandb_equals_report_from_records(study: Path, tmp_path: Path) -> None:
    first = write_texts(read_wandb_files(study), tmp_path / "wandb")
    second = write_texts(read_records(study), tmp_path / "records")
    assert first.files == second.files
    assert first.text.partition("All else:")[0] == second.text.partition("All else:")[0]
    own = {"report.html", "table.md", "table.tex", "results.csv", "comparisons.json", "comparisons.csv", "systems.csv"}
    own |= {"optuna.db", "strata.csv"}
    assert own < set(first.files)
    for name in first.files:
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes(), name
    assert sorted(path.name for path in first.folder.iterdir()) == first.files


def test_comparisons_equal_scipy_from_the_tidy_table(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, study_runs())
    table = per_query(analysis.results, "test", "R10@1")
    means = table.groupby(["system", "query_id"])["value"].mean().unstack(0)
    assert [(c.system, c.baseline) for c in analysis.comparisons][-2:] == [("BERT", "BM25"), ("BERT", "untrained")]
    for c in analysis.comparisons:
        oracle = stats.ttest_rel(means[c.system], means[c.baseline])
        assert c.targets["queries"].p == pytest.approx(oracle.pvalue)
        assert c.comparisons == (5 if c.family == "variants" else 2)
        assert c.target == "both"
        assert c.targets["both"].p > oracle.pvalue
        corrected = min(1.0, c.comparisons * c.targets["both"].p)
        assert c.adjusted["bonferroni"] == pytest.approx(corrected)
        decided = "better" if means[c.system].mean() > means[c.baseline].mean() else "worse"
        assert c.verdict == (decided if corrected < 0.05 else "undecided")
    assert {c.verdict for c in analysis.comparisons} == {"better", "undecided"}


def test_the_report_tells_what_the_data_is(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    found = report_of(tmp_path / "data", runs)
    for text in ((found.folder / name).read_text() for name in ("table.md", "report.html")):
        assert "because the negative sampler found too few: 7 in train" in text
        assert "Skipped while reading the task: 3 x pair with an empty question" in text
    without = report_of(tmp_path / "without", runs, data=None)
    assert "found too few" not in (without.folder / "table.md").read_text()


def test_main_table(tmp_path: Path) -> None:
    analysis = analyse(tmp_path, study_runs(seeds=(1, 2, 3, 4, 5)), seeds=[1, 2, 3, 4, 5])
    rows = {row.system: row for row in analysis.table.rows}
    assert list(rows) == ["BERT", "LS", "T-LS", "WSLS", "T-WSLS", "BM25", "untrained"]
    values = per_query(analysis.results, "test", "R10@1").groupby(["system", "seed"])["value"].mean()
    assert rows["T-WSLS"].test == pytest.approx((values["T-WSLS"].mean(), values["T-WSLS"].std()))
    assert (rows["T-WSLS"].strength, rows["T-WSLS"].switch) == (0.2, 0.5)
    by_seed = per_query(analysis.results, "test", "R10@1").pivot(
        index=["system", "seed"], columns="query_id", values="value"
    )
    own = two_way_estimate(two_way_anova(by_seed.loc["T-WSLS"].to_numpy())).confidence_interval()
    assert rows["T-WSLS"].interval == pytest.approx(own)
    assert rows["BM25"].test[1] is None
    assert analysis.table.notes == []


@pytest.mark.parametrize(("fault", "note"), [
    ("missing", "seed 2 is missing"), ("failed", "seed 2 failed (out of memory)"), ("nan", "seed 2 has NaN scores"),
    ("untested", "seed 2 has no test scores"),
])  # fmt: skip
def test_an_incomplete_variant_is_named_and_never_averaged(tmp_path: Path, fault: str, note: str) -> None:
    runs = study_runs(grid=False)
    broken = next(run for run in runs if (run.variant, run.seed) == ("T-WSLS", 2))
    expected = plan_of(runs)["expected_queries"]
    if fault == "missing":
        runs.remove(broken)
    elif fault == "failed":
        broken.state = "failed"
    elif fault == "nan":
        broken.scores["test"].loc[5, "score"] = np.nan
    else:
        del broken.scores["test"]
    analysis = analyse(tmp_path, runs, expected_queries=expected)
    row = next(row for row in analysis.table.rows if row.system == "T-WSLS")
    assert row.test is None
    assert row.interval is None
    assert analysis.table.notes == [f"T-WSLS is incomplete: {note}"]
    gaps = [c for c in analysis.comparisons if c.system == "T-WSLS"]
    assert [(c.difference, c.targets["queries"], c.verdict, c.comparisons) for c in gaps] == [
        (None, None, "not compared", 5)
    ] * 2
    assert "Not compared, because incomplete: T-WSLS." in answer_study(analysis).sentence
    assert f"- T-WSLS is incomplete: {note}" in render_markdown(build_document(analysis))
    assert f"% T-WSLS is incomplete: {note}" in render_latex(build_document(analysis))


def test_an_incomplete_searched_configuration_is_named(tmp_path: Path) -> None:
    runs = [run for run in study_runs() if (run.variant, run.epsilon, run.seed) != ("LS", 0.1, 3)]
    analysis = analyse(tmp_path, runs)
    (note,) = analysis.table.notes
    assert note.startswith("LS (ε 0.1) [")
    assert note.endswith("is incomplete: seed 3 is missing")


def test_two_tested_configurations_of_a_variant_are_an_error_unless_one_is_complete(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    extra = [Made("LS", seed, 1.4, 0.4, tested=True) for seed in (1, 2, 3)]
    for run in extra:
        run.scores = {"dev": scores("dev", 40, 1.4, 1), "test": scores("test", 60, 1.4, 1)}
    with pytest.raises(UserError, match="system LS: test scores of LS"):
        analyse(tmp_path / "two", runs + extra)
    analysis = analyse(tmp_path / "one", runs + extra[:2])
    assert next(row for row in analysis.table.rows if row.system == "LS").strength == 0.2
    assert "seed 3 is missing" in analysis.table.notes[0]


def test_a_search_alone_is_reported_on_the_development_set(tmp_path: Path) -> None:
    """Even where there is no run of the baseline."""
    runs = [run for run in study_runs(seeds=(1, 2)) if run.variant == "T-LS"]
    for run in runs:
        run.scores.pop("test", None)
    missing = runs.pop()
    found = report_of(tmp_path, runs, seeds=[1, 2])
    title, header = found.analysis.results.plan.study, "| system | settings | seeds | dev R10@1 | configuration |"
    table = (tmp_path / "report" / "table.md").read_text()
    rows = table.partition(header)[2].partition("\n\n")[0].splitlines()[2:]
    table_of_values = per_query(found.analysis.results, "dev", "R10@1")
    values = table_of_values.groupby(["configuration", "seed"])["value"].mean().unstack()
    best = values.dropna().mean(axis=1).sort_values(ascending=False)
    assert [float(row.split("|")[4].split("±")[0]) for row in rows[:-1]] == best.round(4).tolist()
    assert rows[-1] == f"| T-LS | ε 0.4, switch 0.25 | 1 of 2 | incomplete | {missing.configuration} |"
    for text in (table, (tmp_path / "report" / "report.html").read_text()):
        assert title in text
        assert "No conclusion yet: no run has test scores." in text
    tested = study_runs(seeds=(1, 2), grid=False)
    analysis = analyse(tmp_path / "tested", tested, seeds=[1, 2])
    assert "No conclusion yet" not in render_text(build_document(analysis))


def test_a_folder_with_records_is_read_from_these_although_offline_files_lack_some(study: Path) -> None:
    expected, first = read_records(study), read_wandb_files(study).runs[0]
    for part in (study / "wandb").glob(f"offline-run-*-{first.id}*"):
        shutil.rmtree(part)
    assert content_of(read_folder(study)) == content_of(expected)
    assert len(read_folder(study / "wandb").runs) == len(expected.runs) - 1
    shutil.rmtree(study / "runs")
    assert len(read_folder(study).runs) == len(expected.runs) - 1


def test_compare_gives_the_p_values_of_the_report_from_its_scores(written: Path, tmp_path: Path) -> None:
    found = write_texts(read_records(written), tmp_path / "report")
    table = read_score_file(found.folder / "scores.csv")
    assert list(table.columns) == ["system", "seed", "query", "value"]
    declared = [c for c in found.analysis.comparisons if c.baseline == "BERT"]
    compared = {c.system: c for c in compare(table, ["BERT"]).comparisons}
    assert len(declared) > 2
    for c in declared:
        assert compared[c.system].difference == c.difference
        assert compared[c.system].targets == c.targets


def test_a_name_is_no_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    runs = [
        Made(name, seed, 1.0, scores={split: scores(split, 3, 1.0, seed) for split in ("dev", "test")})
        for name in ("BERT", "=LS")
        for seed in (1, 2)
    ]
    folder = report_of(tmp_path, runs, seeds=[1, 2]).folder
    for path in folder.glob("*.csv"):
        cells = [cell for line in path.read_text().splitlines() for cell in line.split(",")]
        assert not [cell for cell in cells if cell.startswith("=")], path
    assert "\n'=LS," in (folder / "results.csv").read_text()


def test_command_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(study / "runs")
    (study / "plan.json").unlink()
    assert main([str(study)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Undecided for LS, ")
    assert "with so little data nothing bounds the true differences" in " ".join(printed.split())
    assert printed.rstrip().splitlines()[-1] == f"All else: {study / 'report' / 'report.html'}"
    page = (study / "report" / "report.html").read_text()
    assert page.count("data:image/svg+xml") == 6
    with (study / "report" / "results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["system", "configuration", "seed", "metric", "split", "value", "role"]
    assert len(rows) == 26
    assert sum(row["seed"] == "" for row in rows) == 2
    assert {row["role"] for row in rows} == {"search"}
    stored = json.loads((study / "report" / "comparisons.json").read_text())
    assert {"task", "metric", "system", "baseline", "difference", "targets", "adjusted", "comparisons",
            "verdict"} < set(stored[0])  # fmt: skip
    assert set(stored[0]["targets"]["both"]) == {"p", "low", "high", "df"}


def test_figures_of_an_earlier_report_do_not_stay_and_the_same_ones_have_the_same_bytes(tmp_path: Path) -> None:
    made = study_runs(seeds=(1,), grid=False)
    write_records(tmp_path / "study", plan_of(made, seeds=[1]), made)
    folder, results = tmp_path / "report", read_records(tmp_path / "study")
    before = {name: (folder / name).read_bytes() for name in write_report(results, folder).files}
    for name in ("compared.png", "strata.svg", "mine.png"):
        (folder / name).touch()
    report = write_report(results, folder)
    assert sorted({path.name for path in folder.iterdir()} - {*report.files}) == ["mine.png"]
    assert {name: (folder / name).read_bytes() for name in report.files} == before


@pytest.mark.parametrize("plan", ["plan.json", "suite.json"])
def test_the_own_folder_of_a_study_is_written_without_the_page_of_an_earlier_report(tmp_path: Path, plan: str) -> None:
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "table.md").write_text("old")

    def write() -> None:
        with stage_report(folder) as staging:
            (staging / "report.html").touch()
            (staging / "table.md").write_text("new")

    with pytest.raises(UserError, match=r"table\.md exists and this command did not write it"):
        write()
    (tmp_path / plan).touch()
    write()
    assert (folder / "table.md").read_text() == "new"


def test_a_folder_with_a_figure_of_that_name_but_no_report_is_left_alone(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, name = tmp_path / "thesis", "effects.png"
    builders.leave_figures_empty(monkeypatch, "effects")
    folder.mkdir()
    (folder / name).write_text("mine")
    assert main([str(study), "--output", str(folder)]) == 2
    assert f"{folder}/{name} exists and this command did not write it" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == [name]
    assert (folder / name).read_text() == "mine"


def test_a_file_in_the_place_of_the_report_is_one_line_and_status_two(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (study / "taken").write_text("")
    assert main([str(study), "--output", str(study / "taken")]) == 2
    told = f"analysis.report: {study / 'taken'}: File exists; expected a folder to write to\n"
    assert capsys.readouterr().err == told


def test_import_is_light(tmp_path: Path) -> None:
    assert light(tmp_path, "--help", module="analysis.report", more=("matplotlib",)).stderr == ""
