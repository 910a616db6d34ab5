"""The same study from W&B and from its records, and nothing lost in silence."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.data.study_results import per_query
from analysis.readers.study_reader import read_records, read_wandb_files
from tests.analysis.builders import STATISTICS, Made, content_of, plan_of, study_runs, write_records, write_texts
from tests.analysis.logged import environment, log, write_wandb
from trainables.metrics import recall_at
from trainables.utils.errors import UserError


def rewrite_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_wandb_and_records_give_the_same(written: Path) -> None:
    online, records = read_wandb_files(written), read_records(written)
    assert content_of(online) == content_of(records)
    assert len(online.runs) == 13
    for split in ("dev", "test"):
        pd.testing.assert_frame_equal(per_query(online, split, "R10@1"), per_query(records, split, "R10@1"))
        for first, second in zip(online.runs, records.runs, strict=True):
            pd.testing.assert_frame_equal(first.read_scores(split), second.read_scores(split))


def test_statistics_of_the_data_are_those_that_were_written_and_may_be_absent_but_not_damaged(study: Path) -> None:
    online, records = read_wandb_files(study), read_records(study)
    expected = [["queries", "1,234", "40", "60"], ["words per query", "8.0", "7.3", "-"]]
    for found in (online, records):
        assert found.statistics.to_cells() == (["statistic", "train", "dev", "test"], expected)
    (study / "data.json").write_text(json.dumps(STATISTICS | {"columns": ["train"]}))
    with pytest.raises(UserError, match=r"statistics of the data in .*row 'queries' has 3 values for 1 columns"):
        read_records(study)
    (study / "data.json").unlink()
    without = read_records(study)
    assert without.statistics is None
    assert content_of(without) != content_of(records)


def test_the_report_of_each_source_names_model_data_settings_date_and_commit(study: Path, tmp_path: Path) -> None:
    expected = [
        "| model | org/bert (sha256:0123456789abcdef) |",
        "| layers | all, the first 3 frozen |",
        "| adapters | rank 4, 16; alpha 16 |",
        "| length | 40 tokens |",
        "| data | docstrings: texts (fingerprint 0123456789abcdef) |",
        "| candidates | 10 by bm25; in training all relevant documents and 20 others by random |",
        "| instances | 8,192 |",
        "| batch size | 32 |",
        "| learning rate | 1e-05, 2e-05 |",
        "| negatives | 9 |",
        "| date | 2026-07-31 |",
        "| commit | 0123abc+ |",
        "| machine | cpu, x86_64-Vendor-avx2, trained in fp32, scored in fp32, 1 thread a trial, torch 2.13.0 |",
    ]
    for name, results in {"records": read_records(study), "W&B": read_wandb_files(study)}.items():
        write_texts(results, tmp_path / name)
        table = (tmp_path / name / "table.md").read_text()
        assert table.partition("## Setup")[2].partition("\n\nSettings")[0].splitlines()[4:] == expected
        assert "<td>org/bert (sha256:0123456789abcdef)</td>" in (tmp_path / name / "report.html").read_text()
    stored = json.loads((study / "plan.json").read_text())
    (study / "plan.json").write_text(json.dumps({"plan": stored["plan"], "hash": stored["hash"]}))
    write_texts(read_records(study), tmp_path / "old")
    assert "| model | sha256:0123456789abcdef |" in (tmp_path / "old" / "table.md").read_text()


def test_the_wandb_folder_alone_suffices_wherever_it_is(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_records(study)
    assert max(len(run.history) for run in expected.runs) > 0
    before = content_of(expected)
    moved = tmp_path / "elsewhere" / "logs"
    shutil.copytree(study / "wandb", moved)
    shutil.rmtree(study)
    monkeypatch.setenv("HOME", "")
    assert content_of(read_wandb_files(moved)) == before
    assert len(per_query(read_wandb_files(moved), "test", "R10@1")) == 13 * 60


def test_per_query_is_tidy_and_computed_from_the_scores(written: Path) -> None:
    results = read_records(written)
    table = per_query(results, "test", "R10@1")
    assert list(table) == ["system", "configuration", "epsilon", "switch", "seed", "query_id", "value"]
    assert table.loc[table["system"] == "BM25", "seed"].isna().all()
    for run in results.runs:
        frame = run.read_scores("test")
        grid = frame["score"].to_numpy().reshape(60, 10), frame["relevant"].to_numpy().reshape(60, 10)
        expected = pd.Series(recall_at(1, *grid), index=frame["query_id"].unique()).sort_index()
        own = table["seed"].isna() if run.seed is None else table["seed"] == run.seed
        rows = table[(table["configuration"] == run.config["configuration_id"]) & own]
        assert rows["value"].tolist() == expected.tolist()


def test_scores_that_were_changed_after_logging_are_an_error(study: Path) -> None:
    staged = next(path for path in sorted((study / "wandb" / ".data").rglob("staging/*")) if path.is_file())
    staged.write_bytes(staged.read_bytes() + b"x")
    with pytest.raises(UserError, match="does not have the logged digest"):
        read_wandb_files(study)
    staged.unlink()
    with pytest.raises(UserError, match="is missing"):
        read_wandb_files(study)


def test_highest_plan_version_counts(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    run = Made("BERT", 1, 1.5, state="failed")
    write_wandb(tmp_path, plan_of([run], version=2), [run])
    write_wandb(tmp_path, plan_of([run]), [])
    assert read_wandb_files(tmp_path).plan.version == 2


def _edit(folder: Path, variant: str, name: str = "test_scores.parquet") -> tuple[Path, pd.DataFrame]:
    for path in sorted(folder.glob("runs/*/record.json")):
        if json.loads(path.read_text())["config"]["variant"] == variant:
            return path.parent / name, pd.read_parquet(path.parent / name)
    raise AssertionError(variant)


@pytest.fixture
def records(tmp_path: Path) -> Path:
    runs = study_runs(seeds=(1, 2), grid=False)
    write_records(tmp_path / "records", plan_of(runs, seeds=[1, 2]), runs)
    return tmp_path / "records"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame[frame["query_id"] != "test-3"], "59 queries; expected the 60 of the plan"),
        (lambda frame: frame.replace({"query_id": {"test-3": "test-x"}}), "not the queries of the other runs"),
        (lambda frame: pd.concat([frame, frame[:1]]), "the same candidate twice"),
        (lambda frame: frame[1:], "a query with 9 candidates"),
    ],
)
def test_other_candidates_are_an_error(
    records: Path, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    path, frame = _edit(records, "LS")
    change(frame).to_parquet(path)
    with pytest.raises(UserError, match=message):
        per_query(read_records(records), "test", "R10@1")


def test_a_failed_test_takes_nothing_from_what_training_has_found(records: Path) -> None:
    before = read_records(records)
    path = min(records.glob("runs/*/test.json"))
    failed = {"state": "failed", "config": {}, "summary": {"state": "failed", "error": "out of memory"}}
    path.write_text(json.dumps(failed))
    found = read_records(records)
    own, earlier = (next(run for run in each.runs if run.id == path.parent.name) for each in (found, before))
    assert own.is_finished
    assert set(own.files) == {"dev"}
    assert own.summary["dev/R10@1"] == earlier.summary["dev/R10@1"]
    assert (own.summary["test/state"], own.summary["test/error"]) == ("failed", "out of memory")
    assert "error" not in own.summary
    found.runs.remove(own)
    before.runs.remove(earlier)
    assert content_of(found) == content_of(before)


def test_a_damaged_curve_is_an_error(records: Path) -> None:
    run = next(run for run in read_records(records).runs if run.history)
    place = records / "runs" / run.id
    known = hashlib.sha256((place / "history.json").read_bytes()).hexdigest()
    rewrite_json(place / "record.json", history_sha256=known)
    assert next(own for own in read_records(records).runs if own.id == run.id).history == run.history
    curve = json.loads((place / "history.json").read_text())
    (place / "history.json").write_text(json.dumps(curve[:-1]))
    with pytest.raises(UserError, match=r"history\.json: it does not match its checksum"):
        _ = next(own for own in read_records(records).runs if own.id == run.id).history


def test_scores_that_a_record_speaks_of_must_be_there(records: Path) -> None:
    path = min(records.glob("runs/*/scores.parquet"))
    path.unlink()
    with pytest.raises(UserError, match=r"no such file; expected the scores that belong to its record"):
        read_records(records)


def test_nan_scores_stay_visible(records: Path) -> None:
    path, frame = _edit(records, "LS")
    frame.loc[0, "score"] = np.nan
    frame.to_parquet(path)
    assert per_query(read_records(records), "test", "R10@1")["value"].isna().sum() == 1


def test_a_specification_is_counted_once(records: Path) -> None:
    expected, first = content_of(read_records(records)), sorted(records.glob("runs/*"))[0]
    copy = Path(shutil.copytree(first, records / "runs" / "copy"))
    record = json.loads((copy / "record.json").read_text())
    (copy / "record.json").write_text(json.dumps({**record, "id": "copy"}))
    assert content_of(read_records(records)) == expected
    record["summary"]["dev/R10@1"] += 1e-9
    (copy / "record.json").write_text(json.dumps({**record, "id": "copy"}))
    with pytest.raises(UserError, match=f"run copy in .*, but 0.5 in run {first.name}; expected equal values"):
        read_records(records)
    record["summary"]["state"] = "failed"
    (copy / "record.json").write_text(json.dumps({**record, "id": "copy"}))
    assert content_of(read_records(records)) == expected


def test_where_and_with_what_a_run_ran_stands_in_its_configuration(records: Path) -> None:
    path = sorted(records.glob("runs/*/record.json"))[0]
    record = json.loads(path.read_text())
    own = {"versions": {"torch": "2.13.0"}, "commit": "0123", "hardware": {"cores": 2}}
    path.write_text(json.dumps(record | own))
    first, *others = read_records(records).runs
    assert first.config == record["config"] | own
    assert not [run.id for run in others if own.keys() & run.config.keys()]


@pytest.mark.parametrize("source", ["records", "offline files"])
def test_scores_are_those_that_the_run_noted(study: Path, source: str) -> None:
    pytest.importorskip("wandb")
    run = next(run for run in read_records(study).runs if run.config["variant"] == "LS")
    right = hashlib.sha256(run.files["test"].read_bytes()).hexdigest()
    for noted in (right, "0" * 64):
        summary = {"state": "finished", "test/scores_sha256": noted}
        if source == "records":
            (study / "runs" / run.id / "test.json").write_text(
                json.dumps({"state": "finished", "config": {}, "summary": summary})
            )
        else:
            with environment(study):
                log("offline", study, run.id, "search", run.config, summary=summary)
        if noted == right:
            (read_records if source == "records" else read_wandb_files)(study)
    with pytest.raises(UserError, match=f"test scores of run {run.id}: SHA-256 {right[:12]}...; expected 000000000000"):
        (read_records if source == "records" else read_wandb_files)(study)


def test_only_runs_of_a_specification_are_in_the_table(study: Path) -> None:
    pytest.importorskip("wandb")
    expected = read_records(study)
    with environment(study):
        parent = {"study": "synthetic", "configuration_id": "c", "specification_ids": [expected.runs[0].id]}
        log("offline", study, "agent", "sweep", parent, summary={"state": "finished"})
        log("offline", study, "report-1", "report", {"study": "synthetic"}, summary={"state": "finished"})
    assert content_of(read_wandb_files(study)) == content_of(expected)


def _spoil_first(pattern: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: min(folder.glob(pattern)).write_bytes(content)


def _change_plan(**changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        plan = json.loads((folder / "plan.json").read_text())["plan"]
        (folder / "plan.json").write_text(json.dumps({"plan": plan | changes}))

    return change


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no folder": shutil.rmtree,
    "no plan": lambda folder: (folder / "plan.json").unlink(),
    "bad json": _spoil_first("plan.json", b"{"),
    "bad hash": lambda folder: rewrite_json(folder / "plan.json", hash="0"),
    "bad metric": _change_plan(metric="speed"),
    "no query's": _change_plan(metric="ECE"),
    "bad alpha": _change_plan(alpha=2),
    "bad record": _spoil_first("runs/*/record.json", b"{}"),
    "bad search": lambda folder: (folder / "search.json").write_text('{"systems": {"LS": {}}}'),
    "search without systems": lambda folder: (folder / "search.json").write_text("[]"),
    "bad scores": _spoil_first("runs/*/scores.parquet", b"PAR1"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_records_are_one_line(records: Path, damage: str) -> None:
    DAMAGES[damage](records)
    with pytest.raises(UserError) as error:
        per_query(read_records(records), "dev", "R10@1")
    assert "\n" not in str(error.value)
