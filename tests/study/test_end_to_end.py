"""A study from its command line to its table, run again, read back from W&B's files alone."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis.results import per_query, read_records
from study import api
from study.config.loader import load_study
from study.plan.shared_training import bound_instances_with_sharing, bound_instances_without_sharing
from tests.docs import files_page
from tests.study.command import SMALL, call, command, comparisons, find_secrets, records, table
from trainables.utils.errors import UserError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_every_run_has_a_record_and_a_wandb_run(finished_study):
    place, _ = finished_study
    done = records(place)
    trained = [name for name in done if name.endswith("record.json")]
    tested = [name for name in done if name.endswith("test.json")]
    assert len(trained) == 2 + 2 * (1 + 5)
    assert len(tested) == 2 + 2 * 5
    ids = {path.name.rsplit("-", 1)[1] for path in (place / "study" / "wandb").glob("offline-run-*")}
    assert {Path(name).parent.name for name in trained} <= ids


def test_the_table_names_every_system_and_the_last_lines_say_what_was_found(finished_study):
    place, printed = finished_study
    for name in ("BERT", "LS", "T-LS", "WSLS", "T-WSLS", "BM25", "cosine"):
        assert f"| {name} |" in table(place)
    counts = "| statistic | train | dev | test |\n| --- | ---: | ---: | ---: |\n| queries | 60 | 20 | 40 |"
    assert f"### Data\n\n{counts}" in table(place)
    assert "Tested for new queries and new seeds, with 40 test queries and 2 seeds" in printed
    assert "report.html" in printed


def test_no_credential_of_the_environment_reaches_a_file(finished_study):
    assert find_secrets(finished_study[0]) == []


def test_two_stage_runs_start_from_the_constant_runs_checkpoints(finished_study):
    place, printed = finished_study
    assert "instances shared" in printed
    entries = [json.loads(path.read_text("utf-8")) for path in (place / "study").glob("runs/*/record.json")]
    assert sum(entry["summary"]["instances_reused"] for entry in entries) > 0


def test_no_more_is_trained_than_was_planned(finished_study):
    place, _ = finished_study
    study = load_study("quick", [*SMALL, f"cache.folder={place / 'cache'}"])
    found = re.search(r"([\d,]+) instances trained, ([\d,]+) \(\d+ %\) shared", table(place))
    assert found
    trained, reused = (int(number.replace(",", "")) for number in found.groups())
    assert bound_instances_with_sharing(study).low <= trained <= bound_instances_with_sharing(study).high
    assert trained + reused == bound_instances_without_sharing(study).high


def test_the_offline_wandb_folder_alone_gives_the_same_comparisons(finished_study, tmp_path):
    place, _ = finished_study
    shutil.copytree(place / "study" / "wandb", tmp_path / "elsewhere" / "wandb")
    (tmp_path / "home").mkdir()
    report = call("analysis.report", tmp_path, "elsewhere", "--output", "report", HOME=str(tmp_path / "home"))
    assert report.returncode == 0, report.stderr
    assert comparisons(tmp_path / "report") == comparisons(place / "study" / "report")


def test_the_records_give_the_same_table_as_wandb(finished_study, tmp_path):
    place, _ = finished_study
    study = tmp_path / "study"
    shutil.copytree(place / "study", study, ignore=shutil.ignore_patterns("wandb", "report"))
    report = call("analysis.report", tmp_path, "study")
    assert report.returncode == 0, report.stderr
    assert (study / "report" / "table.md").read_text("utf-8") == table(place)


def test_the_page_of_files_names_every_file_column_and_key(finished_study):
    place, _ = finished_study
    files_page.check_files(place)
    files_page.check_records(place / "study")
    files_page.check_searches_and_report(place / "study")


def test_python_trains_nothing_again_and_gives_what_the_commands_gave(finished_study, monkeypatch, capsys):
    place, _ = finished_study
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    before = records(place)
    study = api.load("quick", [*SMALL, f"output.folder={place / 'study'}", f"cache.folder={place / 'cache'}"])
    for report in (api.run(study), api.report(study.folder)):
        assert "trials at once" not in capsys.readouterr().out
        assert records(place) == before
        assert report._repr_markdown_() == table(place)
        assert " ".join(str(report).split()).startswith(report.conclusion)
        found = json.loads(report.comparisons.to_json(orient="records", double_precision=15))
        kept = comparisons(place / "study" / "report")
        assert [row["system"] for row in found] == [row["system"] for row in kept]
        for row, own in zip(found, kept, strict=True):
            assert row["p"] == row[f"targets.{row['target']}.p"]
            assert row["p_corrected"] == row["adjusted.bonferroni"]
            assert [row["low"], row["high"]] == pytest.approx(own["interval"])
        written = pd.read_csv(place / "study" / "report" / "results.csv", dtype={"seed": "Int64"})
        pd.testing.assert_frame_equal(report.runs, written, check_dtype=False)
        means = written[written["split"] == "test"].groupby(["system", "configuration"])["value"].mean()
        for row in report.systems.dropna(subset="test_mean").itertuples():
            assert row.test_mean == pytest.approx(means[row.system, row.configuration])
        assert {*report.figures} >= {"effects", "learning_curves"}
        assert all(path.is_file() for path in report.figures.values())


def test_what_a_finished_study_refuses_the_dry_run_refuses_too(finished_study):
    place, _ = finished_study

    def ask(*arguments):
        """Status and output of the command."""
        done = call("study.run", place, *command(place, *arguments)[3:])
        return done.returncode, done.stdout, done.stderr

    status, _, told = ask("--dry-run")
    assert status == 0, told
    for change in ("training.learning_rate=1e-3", "seeds=[1, 2, 3]", "name=other", "task.test_queries=41"):
        refused = ask(change, "--dry-run")
        if change.startswith("task"):  # other data, which are not prepared yet
            assert refused[0] == 0, refused
            assert ask(change, "--prepare")[0] == 0
            refused = ask(change, "--dry-run")
        assert refused[:2] == (2, "")
        start = ask(change)
        assert (start[0], start[2].count("\n")) == (2, 1)
        assert "test scores from " in refused[2] or "of the study 'small'; expected those of 'other'" in refused[2]
        if not change.startswith("task"):
            assert refused[2] == start[2]


def test_scores_of_a_split_that_has_none_are_an_error(finished_study):
    results = read_records(finished_study[0] / "study")
    with pytest.raises(UserError, match="split: train; expected dev or test"):
        per_query(results, "train", "R10@1")
