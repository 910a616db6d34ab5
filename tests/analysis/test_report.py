"""From a study to its tables: numbers by another way, incomplete configurations, the same bytes again."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from analysis.compare import compare, read_score_file
from analysis.data.results import per_query
from analysis.export.report_folder import stage_report
from analysis.readers.results import read_records, read_wandb_files
from analysis.readers.source import read_folder
from analysis.rendering.cells import format_p_value
from analysis.rendering.conclusion import write_conclusion
from analysis.rendering.document import render_latex, render_markdown, render_text
from analysis.rendering.study import build_document
from analysis.rendering.summary import answer_questions
from analysis.report import main, write_report
from analysis.tables.main import ReportData, build_report_data
from tests.analysis.builders import Made, plan_of, scores, study_runs, write_records
from trainables.utils.errors import UserError


def _analyse(folder: Path, runs: list[Made], **changes: object) -> ReportData:
    write_records(folder, plan_of(runs, **changes), runs)
    return build_report_data(read_records(folder))


def test_report_from_wandb_equals_report_from_records(study: Path, tmp_path: Path) -> None:
    first = write_report(read_wandb_files(study), tmp_path / "wandb")
    second = write_report(read_records(study), tmp_path / "records")
    assert first.files == second.files
    assert first.text == second.text
    assert {"report.html", "table.md", "table.tex", "results.csv", "comparisons.json", "optuna.db", "strata.csv"} < set(
        first.files
    )
    for name in first.files:
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes(), name
    assert sorted(path.name for path in first.folder.iterdir()) == first.files


def test_comparisons_equal_scipy_from_the_tidy_table(tmp_path: Path) -> None:
    analysis = _analyse(tmp_path, study_runs())
    table = per_query(analysis.results, "test", "R10@1")
    means = table.groupby(["system", "query_id"])["value"].mean().unstack(0)
    assert [(c.system, c.baseline) for c in analysis.comparisons][-2:] == [("BERT", "BM25"), ("BERT", "untrained")]
    for c in analysis.comparisons:
        oracle = stats.ttest_rel(means[c.system], means[c.baseline])
        assert c.targets["queries"] is not None
        assert c.targets["queries"].p == pytest.approx(oracle.pvalue)
        assert c.comparisons == (5 if c.family == "variants" else 2)
        assert c.target == "both"
        assert c.targets["both"] is not None
        assert c.targets["both"].p > oracle.pvalue
        corrected = min(1.0, c.comparisons * c.targets["both"].p)
        assert c.adjusted["bonferroni"] == pytest.approx(corrected)
        decided = "better" if means[c.system].mean() > means[c.baseline].mean() else "worse"
        assert c.verdict == (decided if corrected < 0.05 else "undecided")
    assert {c.verdict for c in analysis.comparisons} == {"better", "undecided"}


def test_the_report_tells_what_the_data_is(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    write_records(tmp_path / "study", plan_of(runs), runs)
    report = write_report(read_records(tmp_path / "study"), tmp_path / "report")
    assert {"weak_labels.png", "weak_labels.svg"} < set(report.files)
    for text in (report.text, (report.folder / "report.html").read_text()):
        assert "because the negative sampler found too few: 7 in train" in text
        assert "Skipped while reading the task: 3 x pair with an empty question" in text
    write_records(tmp_path / "without", plan_of(runs, data=None), runs)
    silent = write_report(read_records(tmp_path / "without"), tmp_path / "report")
    assert not [name for name in silent.files if name.startswith("weak_labels")]
    assert not (tmp_path / "report" / "weak_labels.png").exists()
    assert "found too few" not in silent.text


def test_main_table(tmp_path: Path) -> None:
    analysis = _analyse(tmp_path, study_runs(seeds=(1, 2, 3, 4, 5)), seeds=[1, 2, 3, 4, 5])
    rows = {row.system: row for row in analysis.table.rows}
    assert list(rows) == ["BERT", "LS", "T-LS", "WSLS", "T-WSLS", "BM25", "untrained"]
    values = per_query(analysis.results, "test", "R10@1").groupby(["system", "seed"])["value"].mean()
    assert rows["T-WSLS"].test == pytest.approx((values["T-WSLS"].mean(), values["T-WSLS"].std()))
    assert (rows["T-WSLS"].strength, rows["T-WSLS"].switch, rows["T-WSLS"].marks) == (0.2, 0.5, "▲△")
    assert rows["BM25"].test is not None
    assert rows["BM25"].test[1] is None
    assert analysis.table.notes == []


def test_losses_are_marked(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    for run in runs:
        if run.variant == "T-WSLS":
            run.scores["test"] = scores("test", 60, -1.0, int(run.id[:8], 16))
    analysis = _analyse(tmp_path, runs)
    assert {row.system: row.marks for row in analysis.table.rows}["T-WSLS"] == "▼▽"
    assert "T-WSLS is significantly worse than BERT" in write_conclusion(analysis)


def test_a_baseline_that_is_worse_than_a_reference_is_named(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    assert "itself" not in write_conclusion(_analyse(tmp_path / "usual", runs))
    for run in runs:
        if run.variant == "BM25":
            run.scores["test"] = scores("test", 60, 6.0, 1)
    analysis = _analyse(tmp_path / "strong", runs)
    (c,) = (c for c in analysis.comparisons if (c.system, c.baseline) == ("BERT", "BM25"))
    p = format_p_value(c.adjusted["bonferroni"])
    said = "BERT itself is significantly worse than BM25 on new queries and new seeds"
    assert c.verdict == "worse"
    assert write_conclusion(analysis).endswith(f". {said} ({c.difference:+.4f}, corrected p {p}).")
    for run in runs:
        if run.variant == "BM25":
            run.scores["test"] = scores("test", 60, 1.7, 1)
    analysis = _analyse(tmp_path / "close", runs)
    (c,) = (c for c in analysis.comparisons if (c.system, c.baseline) == ("BERT", "BM25"))
    said = "BERT itself has a worse mean than BM25, though not significantly on new queries and new seeds"
    assert c.verdict == "undecided"
    assert f". {said} ({c.difference:+.4f}, corrected p " in write_conclusion(analysis)


@pytest.mark.parametrize("seeds", [(1, 2), (1, 2, 3, 4, 5, 6)], ids=len)
def test_without_a_difference_the_answer_says_what_would_have_been_seen(tmp_path: Path, seeds: tuple[int, ...]) -> None:
    runs = [Made(name, seed, 1.5, e, s, tested=True) for name, e, s in (
        ("BERT", 0.0, None), ("LS", 0.2, None), ("T-LS", 0.2, 0.5), ("WSLS", 0.2, None), ("T-WSLS", 0.2, 0.5)
    ) for seed in seeds]  # fmt: skip
    for run in runs:
        run.scores = {split: scores(split, 50, 1.5, run.seed or 0) for split in ("dev", "test")}
    analysis = _analyse(tmp_path, runs, seeds=list(seeds))
    assert all(c.targets["queries"] and c.targets["queries"].p == 1.0 for c in analysis.comparisons[:5])
    sample = f"with 50 queries and {len(seeds)} seeds"
    assert write_conclusion(analysis).startswith(f"No variant differs significantly from BERT {sample}")
    assert {c.verdict for c in analysis.comparisons[:5]} == {"all values are equal"}
    assert "All values are equal to those of BERT: LS, T-LS, WSLS, T-WSLS." in write_conclusion(analysis)
    assert all(": all values are equal" in line for line in answer_questions(analysis)[2][1][1:])
    for number, run in enumerate(runs):
        run.scores["test"] = scores("test", 50, 1.5, number)
    analysis = _analyse(tmp_path / "noisy", runs, seeds=list(seeds))
    middle = float(np.median([c.detectable for c in analysis.comparisons if c.baseline == "BERT"]))
    assert (middle > 1) == (len(seeds) == 2)  # of two seeds the spread is next to unknown
    counts = f"50 queries, estimated from {len(seeds)} seeds"
    limit = f"minimum detectable effect: about {middle:.4f} (80 % power, {counts})"
    if middle > 1:
        limit = f"the study has less than 80 % power even for the largest possible gain ({counts})"
    intervals = [c.interval for c in analysis.comparisons if c.baseline == "BERT" and c.interval]
    low, high = min(low for low, _ in intervals[:4]), max(high for _, high in intervals[:4])
    bounds = f": any gain on new queries and new seeds is at most {high:.4f}, any loss at most {-low:.4f}"
    if max(-low, high) > 1:  # no difference is larger
        bounds = ""
    assert (not bounds) == (len(seeds) == 2)
    assert write_conclusion(analysis) == f"No variant differs significantly from BERT{bounds}; {limit}."


@pytest.mark.parametrize("metric", ["R10@1", "position"])
def test_the_answer_says_how_large_an_undecided_difference_can_be(tmp_path: Path, metric: str) -> None:
    runs = study_runs(seeds=(1, 2, 3, 4), grid=False)
    for run in runs:
        if run.variant == "T-WSLS":
            run.scores["test"] = scores("test", 60, 1.5, 50 + (run.seed or 0))
    analysis = _analyse(tmp_path, runs, seeds=[1, 2, 3, 4], metric=metric)
    compared = [c for c in analysis.comparisons if c.baseline == "BERT" and c.interval]
    assert [c.verdict for c in compared] == ["undecided"] * 4
    above, below = max(c.interval[1] for c in compared), -min(c.interval[0] for c in compared)  # type: ignore[index]
    gain, loss = (above, below) if metric == "R10@1" else (below, above)  # the best position is 1
    said = f"any gain on new queries and new seeds is at most {gain:.4f}, any loss at most {loss:.4f}; "
    assert f"No variant differs significantly from BERT: {said}" in write_conclusion(analysis)
    for run in runs:
        if run.variant == "LS":
            run.scores["test"] = scores("test", 60, -1.0, run.seed or 0)
    analysis = _analyse(tmp_path / "one", runs, seeds=[1, 2, 3, 4], metric=metric)
    assert "; with 60 queries and 4 seeds. Undecided: T-LS, WSLS, T-WSLS (any gain on new" in write_conclusion(analysis)


def test_a_variant_that_is_equivalent_is_named_with_the_margin(tmp_path: Path) -> None:
    analysis = _analyse(tmp_path, study_runs(seeds=(1, 2, 3, 4), grid=False), seeds=[1, 2, 3, 4], margin=0.9)
    ls = analysis.comparisons[0]
    assert (ls.system, ls.verdict) == ("LS", "equivalent")
    said = f"LS is equivalent to BERT on new queries and new seeds ({ls.difference:+.4f}, margin 0.9)"
    assert said in write_conclusion(analysis)


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
    analysis = _analyse(tmp_path, runs, expected_queries=expected)
    row = next(row for row in analysis.table.rows if row.system == "T-WSLS")
    assert row.test is None
    assert row.marks == ""
    assert analysis.table.notes == [f"T-WSLS is incomplete: {note}"]
    gaps = [c for c in analysis.comparisons if c.system == "T-WSLS"]
    assert [(c.difference, c.targets["queries"], c.verdict, c.comparisons) for c in gaps] == [
        (None, None, "not compared", 5)
    ] * 2
    assert "Not compared, because incomplete: T-WSLS." in write_conclusion(analysis)
    assert f"- T-WSLS is incomplete: {note}" in render_markdown(build_document(analysis))
    assert f"% T-WSLS is incomplete: {note}" in render_latex(build_document(analysis))


def test_an_incomplete_searched_configuration_is_named(tmp_path: Path) -> None:
    runs = [run for run in study_runs() if (run.variant, run.epsilon, run.seed) != ("LS", 0.1, 3)]
    analysis = _analyse(tmp_path, runs)
    (note,) = analysis.table.notes
    assert note.startswith("LS (ε 0.1) [")
    assert note.endswith("is incomplete: seed 3 is missing")


def test_two_tested_configurations_of_a_variant_are_refused_unless_one_is_complete(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    extra = [Made("LS", seed, 1.4, 0.4, tested=True) for seed in (1, 2, 3)]
    for run in extra:
        run.scores = {"dev": scores("dev", 40, 1.4, 1), "test": scores("test", 60, 1.4, 1)}
    with pytest.raises(UserError, match="system LS: test scores of LS"):
        _analyse(tmp_path / "two", runs + extra)
    analysis = _analyse(tmp_path / "one", runs + extra[:2])
    assert next(row for row in analysis.table.rows if row.system == "LS").strength == 0.2
    assert "seed 3 is missing" in analysis.table.notes[0]


def test_before_the_test_evaluation(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    for run in runs:
        run.scores.pop("test", None)
    write_records(tmp_path / "study", plan_of(runs), runs)
    report = write_report(read_records(tmp_path / "study"), tmp_path / "report")
    assert report.text.splitlines()[-1].startswith("No conclusion about BERT")
    assert "BERT is incomplete: no test scores" in (report.folder / "report.html").read_text()


def test_a_search_alone_is_reported_on_the_development_set(tmp_path: Path) -> None:
    """Even where there is no run of the baseline."""
    runs = [run for run in study_runs(seeds=(1, 2)) if run.variant == "T-LS"]
    for run in runs:
        run.scores.pop("test", None)
    missing = runs.pop()
    write_records(tmp_path / "study", plan_of(runs, seeds=[1, 2]), runs)
    results = read_records(tmp_path / "study")
    report = write_report(results, tmp_path / "report")
    title, header = report.analysis.results.plan.study, "| system | settings | seeds | dev R10@1 | configuration |"
    table = (tmp_path / "report" / "table.md").read_text()
    rows = table.partition(header)[2].partition("\n\n")[0].splitlines()[2:]
    values = per_query(results, "dev", "R10@1").groupby(["configuration", "seed"])["value"].mean().unstack()
    best = values.dropna().mean(axis=1).sort_values(ascending=False)
    assert [float(row.split("|")[4].split("±")[0]) for row in rows[:-1]] == best.round(4).tolist()
    assert rows[-1] == f"| T-LS | ε 0.4, switch 0.25 | 1 of 2 | incomplete | {missing.configuration} |"
    conclusion = "No conclusion about BERT yet: no run has test scores."
    for text in (table, report.text, (tmp_path / "report" / "report.html").read_text()):
        assert title in text
        assert conclusion in text
        assert "Configurations, on dev" in text
    tested = study_runs(seeds=(1, 2), grid=False)
    analysis = _analyse(tmp_path / "tested", tested, seeds=[1, 2])
    assert "Configurations, on dev" not in render_text(build_document(analysis))


def test_a_folder_with_records_is_read_from_these_whatever_offline_files_lack(study: Path) -> None:
    expected, first = read_records(study), read_wandb_files(study).runs[0]
    for part in (study / "wandb").glob(f"offline-run-*-{first.id}*"):
        shutil.rmtree(part)
    assert read_folder(study) == expected
    assert len(read_folder(study / "wandb").runs) == len(expected.runs) - 1
    shutil.rmtree(study / "runs")
    assert len(read_folder(study).runs) == len(expected.runs) - 1


def test_one_seed(tmp_path: Path) -> None:
    analysis = _analyse(tmp_path, study_runs(seeds=(1,)), seeds=[1])
    stored = [c.as_dict() for c in analysis.comparisons]
    assert all(
        c["targets"]["queries"] and c["targets"]["seeds"] is None and c["targets"]["both"] is None for c in stored
    )


def test_compare_gives_the_p_values_of_the_report_from_its_scores(study: Path, tmp_path: Path) -> None:
    report = write_report(read_records(study), tmp_path / "report")
    table = read_score_file(report.folder / "scores.csv")
    assert list(table.columns) == ["system", "seed", "query", "value"]
    declared = [c for c in report.analysis.comparisons if c.baseline == "BERT"]
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
    write_records(tmp_path / "study", plan_of(runs, seeds=[1, 2]), runs)
    report = write_report(read_records(tmp_path / "study"), tmp_path / "report")
    for path in report.folder.glob("*.csv"):
        assert not [line for line in path.read_text().splitlines() if "=" in {cell[:1] for cell in line.split(",")}], (
            path
        )
    assert "\n'=LS," in (report.folder / "results.csv").read_text()


def test_command_line(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(study / "runs")
    (study / "plan.json").unlink()
    assert main([str(study)]) == 0
    printed = capsys.readouterr().out
    conclusion = printed.rstrip().splitlines()[-1]
    assert conclusion.startswith("No variant differs significantly from BERT; ")  # two seeds bound nothing
    assert conclusion.endswith("60 queries, estimated from 2 seeds).")
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


def test_a_study_without_wandb_is_reported_from_its_records(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    write_records(tmp_path / "study", plan_of(runs), runs)
    analysis = build_report_data(read_folder(tmp_path / "study"))
    assert render_latex(build_document(analysis)).count("\\\\\n") == 8 + 6 + 3 + 6 + 8 + 6 + 6


@pytest.mark.parametrize("make", [False, True])
def test_bad_folder_is_one_line_and_status_two(tmp_path: Path, make: bool, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "nothing"
    if make:
        folder.mkdir()
    assert main([str(folder)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_figures_of_an_earlier_report_do_not_stay(tmp_path: Path) -> None:
    made = study_runs(seeds=(1,), grid=False)
    write_records(tmp_path / "study", plan_of(made, seeds=[1]), made)
    folder, results = tmp_path / "report", read_records(tmp_path / "study")
    write_report(results, folder)
    for name in ("compared.png", "strata.svg", "mine.png"):
        (folder / name).touch()
    report = write_report(results, folder)
    assert sorted({path.name for path in folder.iterdir()} - {*report.files}) == ["mine.png"]


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


@pytest.mark.parametrize("name", ["table.md", "scores.csv", "effects.png", "report.html"])
def test_a_folder_with_such_a_file_but_no_report_is_left_alone(
    study: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "thesis"
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


def test_import_is_light() -> None:
    code = (
        "import sys, analysis.report; print([m for m in ('torch', 'ray', 'wandb', 'matplotlib') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


FURTHER_LOSSES = [["LS", "BERT"], ["T-LS", "BERT"], ["WSLS", "LS"], ["T-WSLS", "T-LS"]]
"""Pairs of a study of several losses: each system with the unsmoothed form of its loss."""


def test_the_conclusion_and_the_marks_are_about_the_first_comparison_of_each_system(tmp_path: Path) -> None:
    family = {"name": "variants", "correction": "bonferroni", "comparisons": FURTHER_LOSSES}
    seeds = (1, 2, 3, 4, 5)
    analysis = _analyse(tmp_path, study_runs(seeds, grid=False), families=[family], seeds=list(seeds))
    marks = {row.system: row.marks for row in analysis.table.rows}
    assert marks["T-WSLS"] == "▲"
    assert analysis.results.plan.mark_baselines == ["BERT for LS and T-LS; LS for WSLS; T-LS for T-WSLS"]
    assert write_conclusion(analysis).startswith(
        "T-WSLS is significantly better than T-LS on new queries and new seeds"
    )
    assert "Undecided: LS, T-LS, WSLS (any gain" in write_conclusion(analysis)
    certainty = dict(answer_questions(analysis))["How sure is that?"]
    assert certainty[0].startswith("Difference from the baseline, 95 % interval")
    assert certainty[1].startswith("T-WSLS from T-LS +")


def test_values_of_the_baseline_itself_are_marked_against_its_first_value(tmp_path: Path) -> None:
    """LS is another loss of BERT, T-LS and T-WSLS are smoothed, as search.compare = "loss" plans them."""
    pairs = [["LS", "BERT"], ["T-LS", "BERT"], ["T-WSLS", "LS"]]
    family = {"name": "variants", "correction": "bonferroni", "comparisons": pairs}
    systems = {"BERT": ("none", "a"), "LS": ("none", "b"), "T-LS": ("smooth", "a"), "T-WSLS": ("smooth", "b")}
    compared = {"hyperparameter": "loss", "systems": {k: {"variant": v, "value": w} for k, (v, w) in systems.items()}}
    runs = [run for run in study_runs(grid=False) if run.variant != "WSLS"]
    analysis = _analyse(tmp_path, runs, families=[family], compared=compared, systems=list(systems))
    assert analysis.results.plan.mark_baselines == ["BERT for LS; none with the same loss for T-LS and T-WSLS"]
    assert {row.system: row.marks for row in analysis.table.rows}["T-WSLS"] == "▲"
    assert write_conclusion(analysis).startswith("T-WSLS is significantly better than LS on new queries and new seeds")
