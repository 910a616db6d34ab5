"""queries.parquet: the same from records, offline files and a server; damage is an error."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.readers.study_reader import read_records, read_wandb_files
from records.queries import QUERIES_FILE, SHA256_KEY, encode_queries, is_intact_table, read_queries
from tests.analysis.builders import content_of, plan_of, queries_of, study_runs
from tests.analysis.logged import environment, log, write_wandb
from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json


def test_it_is_sorted_when_it_is_read(tmp_path: Path) -> None:
    made = queries_of()
    made.loc[3, "domain"] = None
    made.assign(more=1)[["more", *made]].to_parquet(tmp_path / QUERIES_FILE)
    found = read_queries(tmp_path / QUERIES_FILE, hash_file(tmp_path / QUERIES_FILE))
    expected = made.fillna({"domain": ""}).sort_values(["split", "query_id"], ignore_index=True)
    pd.testing.assert_frame_equal(found.astype(object), expected.astype(object))
    assert found["turns"].dtype == np.int64
    made[["split", "query_id"]].to_parquet(tmp_path / QUERIES_FILE)
    assert list(read_queries(tmp_path / QUERIES_FILE)) == ["split", "query_id"]


def _without_ids(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="query_id")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_without_ids, "no column query_id"),
        (lambda frame: pd.concat([frame, frame[:1]]), "query .* twice"),
        (lambda frame: frame.assign(query_id=range(len(frame))), "column query_id is damaged; expected text"),
        (lambda frame: frame.assign(turns=frame["turns"] + 0.5), "column turns is damaged; expected whole numbers"),
        (lambda frame: frame.assign(turns=-1), "column turns is damaged; expected a count"),
        (lambda frame: frame.assign(**{"difficulty/turns": "easy"}), "difficulty/turns is damaged; expected floats"),
        (lambda frame: frame.assign(**{"difficulty/turns": np.nan}), "difficulty/turns is damaged; expected a finite"),
        (lambda frame: frame.assign(**{"difficulty/turns": -np.inf}), "difficulty/turns is damaged; expected a finite"),
    ],
)
def test_a_damaged_table_is_an_error(tmp_path: Path, damage: Callable[[pd.DataFrame], pd.DataFrame], told: str) -> None:
    damage(queries_of()).to_parquet(tmp_path / QUERIES_FILE)
    with pytest.raises(UserError, match=told) as error:
        read_queries(tmp_path / QUERIES_FILE)
    assert "\n" not in str(error.value)


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    queries_of().to_parquet(tmp_path / QUERIES_FILE)
    with pytest.raises(UserError, match=r"expected 0{12}.*, as the study recorded"):
        read_queries(tmp_path / QUERIES_FILE, "0" * 64)
    (tmp_path / QUERIES_FILE).write_bytes(b"PAR1")
    with pytest.raises(UserError, match="expected a parquet file") as error:
        read_queries(tmp_path / QUERIES_FILE)
    assert "\n" not in str(error.value)


def test_a_value_that_was_changed_on_the_disk_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / QUERIES_FILE
    path.write_bytes(encode_queries(queries_of()))
    stored = pd.read_parquet(path)
    assert is_intact_table(stored)
    assert len(read_queries(path)) == len(stored)
    stored.assign(turns=stored["turns"] + 1).to_parquet(path)
    assert not is_intact_table(pd.read_parquet(path))
    with pytest.raises(UserError, match="it does not match its checksum; expected the file as the study wrote it"):
        read_queries(path)


def test_offline_files_and_records_give_the_same(study: Path) -> None:
    online, records = read_wandb_files(study), read_records(study)
    assert records.queries is not None
    assert len(records.queries) == 40 + 60
    assert content_of(online) == content_of(records)
    (study / QUERIES_FILE).unlink()
    without = read_records(study)
    assert without.queries is None
    assert content_of(without) != content_of(records)
    changed = queries_of().assign(turns=1)
    changed.to_parquet(study / QUERIES_FILE)
    assert content_of(read_records(study)) != content_of(online)


def test_what_offline_files_say_is_checked(study: Path) -> None:
    (staged,) = (path for path in study.glob("wandb/.data/**/staging/*") if _is_of_queries(path))
    content = staged.read_bytes()
    staged.write_bytes(content + b"x")
    with pytest.raises(UserError, match=r"artifact queries-.*: .* does not have the logged digest"):
        read_wandb_files(study)
    staged.write_bytes(content)
    plan = json.loads((study / "plan.json").read_text())["plan"]
    with environment(study):
        about = {"study": plan["study"], "plan_hash": hash_json(plan)}
        log("offline", study, f"queries-{hash_json(plan)}", "queries", about, summary={SHA256_KEY: "0" * 64})
    with pytest.raises(UserError, match=r"expected 0{12}.*, as the study recorded"):
        read_wandb_files(study)


def _is_of_queries(path: Path) -> bool:
    return path.is_file() and b"difficulty/BERT_loss" in path.read_bytes()


def test_a_document_that_a_study_was_killed_over_is_not_read_and_one_that_lost_its_file_is_an_error(
    tmp_path: Path,
) -> None:
    pytest.importorskip("wandb")
    runs = study_runs(seeds=(1,), grid=False)[:2]
    plan = plan_of(runs, seeds=[1])
    write_wandb(tmp_path, plan, runs)
    with environment(tmp_path):
        log("offline", tmp_path, "queries-1", "queries", {"study": "synthetic"})
    assert read_wandb_files(tmp_path).queries is None
    with environment(tmp_path):
        noted = {"state": "finished", SHA256_KEY: "0" * 64}
        log("offline", tmp_path, "queries-1", "queries", {"study": "synthetic"}, summary=noted)
    with pytest.raises(UserError, match=r"W&B run queries-1: no queries.parquet; expected the artifact"):
        read_wandb_files(tmp_path)
