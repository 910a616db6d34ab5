"""A run of a distillation learns the scores of its teacher, and no other run depends on them."""

from pathlib import Path

import numpy as np
import pytest

from tests.trainables.small import BATCH_SIZE, Fresh, World, finish, job
from trainables.data.teacher import get_teacher_path, write_teacher_scores
from trainables.rankers.ranker_run import RankerRun
from trainables.specs.ranker import LabelSmoothing

LENGTH = {"instances": 40 * BATCH_SIZE, "dropout": 0.0}


@pytest.fixture
def teacher(world: World, tmp_path: Path) -> str:
    """A teacher by which the last candidate is the best; returns its digest."""
    table = world.prepared.read_candidates("train", ["query_id", "document_id"])
    table["score"] = np.tile(np.arange(5.0), len(table) // 5)
    rows = table.itertuples(index=False)
    run = "".join(f"{row.query_id} Q0 {row.document_id} 1 {row.score} teacher\n" for row in rows)
    (tmp_path / "teacher.run").write_text(run)
    write_teacher_scores(world.prepared.folder, lambda: table, tmp_path / "teacher.run", "feedfacefeedface")
    assert get_teacher_path(world.prepared.folder, "feedfacefeedface").is_file()
    return "feedfacefeedface"


@pytest.mark.parametrize("loss", ["kl", "margin_mse"])
def test_a_ranker_learns_the_order_of_its_teacher(world: World, fresh: Fresh, teacher: str, loss: str) -> None:
    trial = job(world, fresh(), LabelSmoothing(loss=loss, teacher=teacher, temperature=1.0), **LENGTH)
    run = RankerRun(trial)
    outcome = finish(run)
    losses = [row["train/loss"] for row in outcome.history if "train/loss" in row]
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    np.testing.assert_array_equal(
        run._train_pairs.teacher, np.tile(np.arange(5.0), len(run._train_pairs.relevant) // 5)
    )
    scores = run.trainer.score_pairs(run._train_pairs)
    assert np.corrcoef(scores, run._train_pairs.teacher)[0, 1] > 0
    sampler = job(world, fresh(), LabelSmoothing(loss=loss), **LENGTH)
    assert sampler.specification.id != trial.specification.id
    assert finish(sampler).weights_hash != outcome.weights_hash


def test_only_distillations_have_a_teacher_in_their_id(world: World, fresh: Fresh, teacher: str) -> None:
    taught = job(world, fresh(), LabelSmoothing(loss="lce", teacher=teacher)).specification
    assert taught == job(world, fresh(), LabelSmoothing(loss="lce")).specification
