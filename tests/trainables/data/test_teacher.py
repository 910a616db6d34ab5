"""Scores of a teacher belong to the training candidates, or are errors in one line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.trainables.data.library import tiny_settings, write_library
from trainables.data.ranking_dataset import RankingDataset
from trainables.data.ranking_preparation import prepare_data
from trainables.data.teacher import get_teacher_path, read_teacher_scores
from trainables.losses import LOSSES
from trainables.specs.ranker import LabelSmoothing
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import UserError


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> RankingDataset:
    place = tmp_path_factory.mktemp("teacher")
    write_library(place / "site", functions=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place / "site")
        return prepare_data(tiny_settings(), place / "cache")


@pytest.fixture
def table(prepared: RankingDataset) -> pd.DataFrame:
    rows = prepared.read_candidates("train", ["query_id", "document_id"])
    return rows.assign(score=np.random.default_rng(0).normal(size=len(rows)))


def taught(prepared: RankingDataset, file: Path) -> RankingDataset:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(prepared.folder.parents[2] / "site")
        settings = tiny_settings().model_copy(update={"teacher": str(file)})
        return prepare_data(settings, prepared.folder.parents[1])


def write_run(file: Path, table: pd.DataFrame) -> Path:
    rows = zip(table["query_id"], table["document_id"], table["score"], strict=True)
    file.write_text("".join(f"{q} Q0 {d} {i} {float(s)!r} teacher\n" for i, (q, d, s) in enumerate(rows)))
    return file


def test_scores_are_joined_in_any_order(prepared: RankingDataset, table: pd.DataFrame, tmp_path: Path) -> None:
    other = pd.DataFrame({"query_id": ["nobody"], "document_id": ["x"], "score": [1.0]})
    mixed = pd.concat([table.sample(frac=1, random_state=0), other])
    found = taught(prepared, write_run(tmp_path / "scores.run", mixed))
    assert (found.fingerprint, found.folder) == (prepared.fingerprint, prepared.folder)
    scores = read_teacher_scores(found.folder, found.settings.teacher)
    np.testing.assert_array_equal(scores, table["score"])
    assert found.settings.for_specification() == prepared.settings


def test_another_file_is_another_teacher(prepared: RankingDataset, table: pd.DataFrame, tmp_path: Path) -> None:
    first = taught(prepared, write_run(tmp_path / "one.run", table)).settings
    second = taught(prepared, write_run(tmp_path / "two.run", table.assign(score=table["score"] + 1))).settings
    smoothings = [LabelSmoothing(loss="kl").for_task(settings).canonicalize() for settings in (first, second)]
    assert smoothings[0] != smoothings[1]
    for loss in (name for name in LOSSES if not LOSSES[name].is_distillation):
        assert LabelSmoothing(loss=loss).for_task(first) == LabelSmoothing(loss=loss)
    assert smoothings[0].to_unsmoothed().canonicalize() == smoothings[0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda t: t[1:], "has no score for 1 of"),
        (lambda t: pd.concat([t, t[:1]]), "again; expected one score"),
        (lambda t: t.assign(score=np.where(t.index == 3, np.inf, t["score"])), "score 'inf'; expected a finite"),
        (lambda t: t.assign(score=["high", *t["score"][1:]]), "score 'high'; expected a finite number"),
    ],
    ids=["one is missing", "one is there twice", "one is infinite", "one is no number"],
)
def test_wrong_files_are_an_error_in_a_line(
    prepared: RankingDataset, table: pd.DataFrame, tmp_path: Path, change: object, told: str
) -> None:
    wrong = change(table)
    file = tmp_path / "wrong.run"
    rows = zip(wrong["query_id"], wrong["document_id"], wrong["score"], strict=True)
    file.write_text("".join(f"{q} Q0 {d} 1 {s} teacher\n" for q, d, s in rows))
    with pytest.raises(UserError, match=told):
        taught(prepared, file)
    assert not list(prepared.folder.glob(f"*{file.name}*"))


def test_a_missing_file_and_missing_scores_are_told(
    prepared: RankingDataset, table: pd.DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"task\.teacher"):
        taught(prepared, tmp_path / "nothing.run")
    rows = zip(table["query_id"], table["document_id"], strict=True)
    (tmp_path / "listed.run").write_text("".join(f"{query} {document}\n" for query, document in rows))
    with pytest.raises(UserError, match=r"listed.run, line 1: query .* without a score; expected query, Q0, document"):
        taught(prepared, tmp_path / "listed.run")


def test_a_damaged_join_is_written_again(prepared: RankingDataset, table: pd.DataFrame, tmp_path: Path) -> None:
    file = write_run(tmp_path / "scores.run", table)
    digest = taught(prepared, file).settings.teacher
    get_teacher_path(prepared.folder, digest).write_bytes(b"damaged")
    with pytest.raises(DamagedError):
        read_teacher_scores(prepared.folder, digest)
    taught(prepared, file)
    np.testing.assert_array_equal(read_teacher_scores(prepared.folder, digest), table["score"])
