"""A run_store says what plain reading of the files says, and a damaged record is one clear line."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records import run_record as record
from records.scores import encode_scores
from study.folder.run_store import RunStore
from tests.analysis.similarity import similarities
from tests.study.driving import empty_folder
from trainables.metrics import average_precision, get_measure, recall_at, spearman
from trainables.utils.errors import UserError

METRIC = "R4@1"
IDS = ("a", "b", "c")


def scores(seed: int, queries: int = 5, candidates: int = 4) -> pd.DataFrame:
    """Queries in no order, ties, several relevant documents."""
    draw = np.random.default_rng(seed)
    names = [f"q{number}" for number in draw.permutation(12)[:queries]]
    relevant = draw.integers(0, 2, (queries, candidates))
    relevant[:, 0] = 1
    return pd.DataFrame(
        {
            "split": "dev",
            "query_id": np.repeat(names, candidates),
            "document_id": [f"d{number}" for number in draw.permutation(queries * candidates)],
            "relevant": relevant.ravel().astype("int8"),
            "score": draw.integers(0, 3, queries * candidates).astype(float),
        }
    )


def entry(run_id: str, split: record.Split, metric: float | None, device: str | None) -> dict[str, Any]:
    state = "failed" if metric is None else "finished"
    summary: dict[str, Any] = {"state": state} if metric is None else {f"{split}/{METRIC}": metric}
    summary |= {} if metric is None else {"seconds" if split == "dev" else "test/seconds": 1 + metric}
    environment = None if device is None else {"device": device}
    config = {"specification": {"environment": environment}}
    return {"id": run_id, "state": state, "summary": summary, "config": config, "history": []}


def encoded(written: tuple[str, record.Split, float | None, str | None], seed: int) -> bytes | None:
    """The scores of an evaluation, None where it failed."""
    return None if written[2] is None else encode_scores(scores(seed).assign(split=written[1]))


writes = st.tuples(
    st.sampled_from(IDS),
    st.sampled_from(record.SPLITS),
    st.none() | st.floats(0, 1),
    st.sampled_from(["cpu", "cuda:H200", None]),
)


@given(st.lists(writes, max_size=8), st.lists(writes, max_size=8))
def test_a_run_store_says_what_the_files_say(before, during):
    """Some records are there when it is made, the others come while it is in use."""
    with empty_folder() as folder:
        for number, written in enumerate(before):
            record.write_run_record(folder, written[1], entry(*written), encoded(written, number))
        run_store = RunStore(folder)
        for number, written in enumerate([None, *during]):
            if written is not None:
                record.write_run_record(folder, written[1], entry(*written), encoded(written, 50 + number))
                assert run_store.refresh(written[0], written[1]) == entry(*written)["state"]
            agree(run_store, folder)
        agree(RunStore(folder), folder)


def agree(run_store: RunStore, folder: Path) -> None:
    """The oracle: files read one by one, and the analysis's own reading of scores."""
    read = {(run_id, split): record.read_run_record(folder, run_id, split) for run_id in IDS for split in record.SPLITS}
    gpu = 0.0
    for (run_id, split), found in read.items():
        assert run_store.get_state(run_id, split) == (found and found["state"])
        assert run_store.get_summary(run_id, split) == (found and found["summary"])
        assert run_store.is_finished(run_id, split) == record.is_run_finished(folder, run_id, split)
        finished = found if found and found["state"] == "finished" else None
        assert run_store.get_metric(run_id, split, METRIC) == (finished and finished["summary"][f"{split}/{METRIC}"])
        assert run_store.get_metric(run_id, split, "ECE") is None
        if finished:
            took = finished["summary"]["seconds" if split == "dev" else "test/seconds"]
            device = (finished["config"]["specification"]["environment"] or {"device": "cpu"})["device"]
            gpu += took if device == "cuda:H200" else 0
            frame = pd.read_parquet(record.get_scores_path(folder, run_id, split))
            groups = [group for _, group in sorted(frame.groupby("query_id"))]
            expected = [recall_at(1, [group["score"]], [group["relevant"]])[0] for group in groups]
            np.testing.assert_allclose(run_store.compute_values(run_id, METRIC, split), expected, rtol=0, atol=1e-15)
    for split in record.SPLITS:
        assert run_store.list_run_ids(split) == [run_id for run_id in IDS if read[run_id, split]]
    assert run_store.gpu_seconds == pytest.approx(gpu)


def test_a_folder_that_is_not_there_yet_has_no_records(tmp_path):
    assert RunStore(tmp_path / "study").list_run_ids() == []


def test_other_things_among_the_runs_are_passed_over(tmp_path):
    record.write_run_record(tmp_path, "dev", entry("a", "dev", 0.5, "cpu"), encode_scores(scores(1)))
    (tmp_path / "runs" / ".DS_Store").write_bytes(b"\0")
    (tmp_path / "runs" / "notes").mkdir()
    assert RunStore(tmp_path).list_run_ids() == ["a"]


def test_values_of_queries_are_read_once_and_cannot_be_changed(tmp_path):
    record.write_run_record(tmp_path, "dev", entry("a", "dev", 0.5, "cpu"), encode_scores(scores(1)))
    run_store = RunStore(tmp_path)
    first = run_store.compute_values("a", METRIC)
    record.get_scores_path(tmp_path, "a").unlink()
    assert run_store.compute_values("a", METRIC) is first
    assert len(run_store.compute_values("a", METRIC)) == 5
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 2.0


@pytest.mark.parametrize("name", ["R4@2", "MAP", "MRR", "nDCG@3", "position", "Brier", "NLL", "ECE", "Spearman"])
def test_any_metric_is_computed_from_the_scores(tmp_path, name):
    frame = scores(1)
    record.write_run_record(tmp_path, "dev", entry("a", "dev", 0.5, "cpu"), encode_scores(frame))
    run_store, columns = RunStore(tmp_path), [frame[column].to_numpy() for column in ("score", "relevant")]
    expected = get_measure(name).compute_overall(*columns, np.full(5, 4))
    assert run_store.compute_values("a", name).mean() == pytest.approx(expected, abs=1e-15)
    record.get_scores_path(tmp_path, "a").unlink()
    assert run_store.compute_values("a", name).mean() == pytest.approx(expected, abs=1e-15)


def test_other_metrics_take_lists_of_any_length(tmp_path):
    frame = scores(1).iloc[1:]
    frame.loc[1, "relevant"] = 1
    record.write_run_record(tmp_path, "dev", entry("a", "dev", 0.5, "cpu"), encode_scores(frame))
    groups = [group for _, group in sorted(frame.groupby("query_id"))]
    expected = [average_precision([group["score"]], [group["relevant"]])[0] for group in groups]
    np.testing.assert_allclose(RunStore(tmp_path).compute_values("a", "MAP"), expected, rtol=1e-14)


@pytest.mark.parametrize("name", ["STS", "STS/STS12", "STS/STS12/a"])
def test_metrics_of_sentence_pairs_have_a_value_for_each_in_one_order_from_any_files(tmp_path, name):
    frame = similarities("test", 1.0, 3)
    record.write_run_record(tmp_path, "test", entry("a", "test", 0.5, "cpu"), encode_scores(frame))
    mixed = encode_scores(frame.sample(frac=1, random_state=1))
    record.write_run_record(tmp_path, "test", entry("b", "test", 0.5, "cpu"), mixed)
    run_store = RunStore(tmp_path)
    values = run_store.compute_values("a", name, "test")
    np.testing.assert_array_equal(values, run_store.compute_values("b", name, "test"))
    assert len(values) == {"STS": 190, "STS/STS12": 70, "STS/STS12/a": 40}[name]  # ten stand in two sets
    groups = [own for query, own in frame.groupby("query_id") if name.removeprefix("STS/") in str(query)]
    if name != "STS":
        own = pd.concat(groups)
        expected = 100 * spearman(own["score"], own["relevant"])
        assert run_store.compute_values("a", name, "test").mean() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["record.json", "test.json"])
@pytest.mark.parametrize(
    "content", [b"", b'{"state": "fin', b"\xff\xfe", b"[]", b'{"state": 1}', b'{"state": "failed"}']
)
def test_a_damaged_record_is_one_line_that_names_the_file(tmp_path, name, content):
    for split in record.SPLITS:
        record.write_run_record(tmp_path, split, entry("a", split, 0.5, "cpu"), encode_scores(scores(1)))
    path = tmp_path / "runs" / "a" / name
    path.write_bytes(content)
    with pytest.raises(UserError, match="as the study wrote it") as told:
        RunStore(tmp_path)
    assert str(told.value).startswith(f"{path}: ")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("damage", ["short", "no file", "no column", "candidates", "label", "nan"])
def test_damaged_scores_are_one_line_that_names_the_file(tmp_path, damage):
    frame = scores(1)
    if damage == "no column":
        frame = frame.drop(columns="score")
    if damage == "candidates":
        frame = frame.iloc[1:]
    if damage == "label":
        frame.loc[3, "relevant"] = 2
    if damage == "nan":
        frame.loc[3, "score"] = float("nan")
    record.write_run_record(tmp_path, "dev", entry("a", "dev", 0.5, "cpu"), encode_scores(frame))
    path = record.get_scores_path(tmp_path, "a")
    if damage == "short":
        path.write_bytes(path.read_bytes()[:-9])
    if damage == "no file":
        path.unlink()
    with pytest.raises(UserError, match="; expected ") as told:
        RunStore(tmp_path).compute_values("a", METRIC)
    assert str(told.value).startswith(f"{path}: ")
