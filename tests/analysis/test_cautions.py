"""Cautions before a table is compared: protocol, precision, noise, teacher, machine, lost text."""

import json
import re
from dataclasses import replace
from pathlib import Path

from analysis.data.cautions import format_caption
from analysis.readers.study_reader import read_records
from analysis.report import Report
from tests.analysis.builders import DATA, plan_of, report_of, study_runs, write_records, write_texts
from tests.analysis.similarity import encoder_plan, encoder_runs
from trainables.metrics import RERANKING_NOTE

_SHORT = "Scores are of re-ranking candidates that contain the relevant documents, not of retrieval from a collection."


def test_the_report_says_in_which_precision_scores_were_computed(tmp_path: Path) -> None:
    found = report_of(tmp_path, study_runs(grid=False))
    assert "Scores computed in fp32." in (found.folder / "table.md").read_text()
    for path in (tmp_path / "study").glob("runs/*/record.json"):
        record = json.loads(path.read_text())
        if training := record["config"]["specification"].get("training"):
            training["precision"] = "bf16"
            path.write_text(json.dumps(record))
    assert "Scores computed in fp32 (dev: bf16)." in (write_again(tmp_path).folder / "table.md").read_text()


def write_again(folder: Path) -> Report:
    """The report of `report_of` from records that have changed."""
    return write_texts(read_records(folder / "study"), folder / "report")


def _texts(report: Report) -> list[str]:
    """The report's forms, in which text is whole."""
    return [(report.folder / name).read_text() for name in ("table.md", "report.html")]


def _change_ls(folder: Path, part: str, **values: str | int) -> None:
    """Change a part of the specification in the records of LS."""
    for path in folder.glob("runs/*/record.json"):
        record = json.loads(path.read_text())
        if record["config"]["variant"] == "LS":
            record["config"]["specification"][part] |= values
            path.write_text(json.dumps(record))


def test_the_report_says_what_its_figures_cannot_be_compared_with(tmp_path: Path) -> None:
    report = report_of(tmp_path, [replace(run, truncated=1040) for run in study_runs(grid=False)])
    cut = "1,040 of 1,300 texts (80.0 %) lose text to model.max_length = 40."
    for text in _texts(report):
        assert text.count(RERANKING_NOTE) == text.count(cut) == 1  # the note; captions have it in LaTeX only
        assert _SHORT not in text
    captions = re.findall(r"\\caption\{(.*)\}\\label\{tab:(.*)\}", (tmp_path / "report" / "table.tex").read_text())
    (caption,) = (words for words, name in captions if name == "main")
    assert _SHORT in caption
    assert r"1,040 of 1,300 texts (80.0 \%) lose text to model.max\_length = 40." in caption


def test_nothing_is_said_of_a_few_texts_that_are_cut(tmp_path: Path) -> None:
    report = report_of(tmp_path, [replace(run, truncated=129) for run in study_runs(grid=False)])
    assert all("lose text" not in text for text in [*_texts(report), (report.folder / "table.tex").read_text()])


def test_every_form_of_the_report_says_that_training_labels_were_wrong(tmp_path: Path) -> None:
    noise = "20 % of the labels are flipped"
    for times, own in ((1, {"label_noise": noise}), (0, {})):
        report = report_of(tmp_path / str(times), study_runs(grid=False), **own)
        assert [text.count(f"Trained with label noise: {noise}.") for text in _texts(report)] == [times] * 2
        captions = (report.folder / "table.tex").read_text()
        assert (r"Trained with label noise: 20 \% of the labels are flipped." in captions) == bool(times)


def test_the_report_names_the_teacher_of_the_scores(tmp_path: Path) -> None:
    told = (
        "LS learned the scores of a teacher (task.teacher, a file with a SHA-256 that begins with 0123456789abcdef), "
    )
    assert all(told not in text for text in _texts(report_of(tmp_path, study_runs(grid=False))))
    _change_ls(tmp_path / "study", "variant", teacher="0123456789abcdef")
    report = write_again(tmp_path)
    assert [text.count(told) for text in _texts(report)] == [1] * 2
    assert told in (report.folder / "table.tex").read_text()


def test_pairs_of_sentences_are_not_ranked(tmp_path: Path) -> None:
    runs = [replace(run, truncated=1300) for run in encoder_runs()]
    write_records(tmp_path / "study", encoder_plan(runs), runs)
    for text in _texts(write_again(tmp_path)):
        assert RERANKING_NOTE not in text
        assert _SHORT not in text
        assert "1,300 of 1,300 texts (100.0 %) lose text to model.max_length = 40." in text


def test_the_report_names_the_machine_of_its_digits(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    kind = "cpu, x86_64-Vendor-avx2, trained in fp32, scored in fp32, 1 thread a trial, torch 2.13.0"
    for text in _texts(report_of(tmp_path, runs)):
        assert re.search(rf"machine( \| |</td>\s*<td[^>]*>){re.escape(kind)}", text)
    _change_ls(tmp_path / "study", "environment", instruction_set="aarch64-Other-sve")
    others = sum(run.variant not in ("LS", "BM25") for run in runs)
    told = f"{kind.replace('x86_64-Vendor-avx2', 'aarch64-Other-sve')} (3 runs); {kind} ({others} runs)."
    for text in _texts(write_again(tmp_path)):
        assert f"Runs are from 2 kinds of machine, and the last digits of scores depend on the kind: {told}" in text


def test_runs_of_an_older_arithmetic_are_from_the_same_machine(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    write_records(tmp_path / "study", plan_of(runs), runs)
    _change_ls(tmp_path / "study", "environment", arithmetic=4)
    for text in _texts(write_again(tmp_path)):
        assert "Runs are from 2 versions of the project's arithmetic" in text.replace("&#39;", "'")
        assert "; version 4 (3 runs)." in text
        assert "kinds of machine" not in text


def test_the_report_tells_of_overlaps_and_of_queries_that_were_merged(tmp_path: Path) -> None:
    overlaps = [
        {"split": "dev", "other": "train", "unit": "queries", "of": 40, "texts": 4, "ids": 1},
        {"split": "test", "other": "dev", "unit": "queries", "of": 60, "texts": 1, "ids": 0},
    ]
    data = DATA | {"overlaps": overlaps, "repeated": 40}
    for text in _texts(report_of(tmp_path, study_runs(grid=False), data=data)):
        assert (
            "Splits overlap: 4 of 40 development queries (10 %) are training queries too (1 by id, 4 by text)" in text
        )
        assert "Splits overlap: 1 of 60 test queries (1.7 %) are development queries too (0 by id, 1 by text)" in text
        assert "Task entries for a query that already existed, merged with it: 40" in text


def test_a_loss_without_probabilities_is_named_and_nothing_is_said_of_a_logit(tmp_path: Path) -> None:
    runs = study_runs(grid=False)
    for run in runs:
        if run.variant == "LS":
            run.further["has_probabilities"] = False
    write_records(tmp_path, plan_of(runs), runs)
    caption = format_caption(read_records(tmp_path))
    assert "No probability follows from the scores of LS, since its loss" in caption
    assert "ranking_score" not in caption
