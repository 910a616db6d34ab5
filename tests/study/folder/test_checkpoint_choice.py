"""Records and reports of a run that ends with its best evaluation have that evaluation."""

import numpy as np
import pandas as pd
import pytest

from records import run_record as record
from study.plan.shared_training import bound_instances_with_sharing, bound_instances_without_sharing
from study.tracking.payload import make_evaluation_payload
from tests.study.small import BATCHES, SETTINGS, conduct, scheduler, study, totals
from tests.trainables.small import BATCH_SIZE
from trainables.metrics import get_measure

GRID = {
    "epsilon": [0.2],
    "schedule_settings": {"switch": [1 / 3, 2 / 3]},
    "n_configurations": {"LS": 1, "T-LS": 2, "WSLS": 1, "T-WSLS": 1},
}


@pytest.mark.parametrize("checkpoint", ["MAP", "R5@1", "last"])
def test_a_study_records_and_shows_the_evaluation_that_counts(world, fresh, tmp_path, checkpoint):
    training = {**SETTINGS["training"], "learning_rate": 1e-2, "evaluations": BATCHES, "checkpoint": checkpoint}
    made = study(
        world,
        tmp_path / "study",
        fresh(),
        seeds=[1],
        variants=["BERT", "LS", "T-LS"],
        search=GRID,
        training=training,
        model={"name": str(world.bert), "max_length": 32},
    )
    begun = scheduler(world, made)
    conduct(begun)
    assert totals(begun) == (
        bound_instances_with_sharing(made).low,
        bound_instances_without_sharing(made).high,
    )  # forks take the states that hold more
    early = set()
    for item in begun.configurations:
        for run in item.runs:
            entry = record.read_run_record(begun.folder, run.id)
            shown = make_evaluation_payload(begun.folder, run.id, "dev")
            if run.training is None:
                assert "checkpoint_instances" not in entry["summary"]
                continue
            kept = entry["summary"]["checkpoint_instances"]
            assert shown.summary["checkpoint_instances"] == kept
            rows = [row for row in record.read_history(begun.folder, run.id) if "dev/R5@1" in row]
            assert [row["instances"] for row in rows] == list(range(0, run.training.instances + 1, BATCH_SIZE))[1:]
            if checkpoint == "last" or not rows:
                assert kept == run.training.instances
                continue
            early |= {kept} - {run.training.instances}
            row = next(row for row in rows if row["instances"] == kept)
            frame = pd.read_parquet(record.get_scores_path(begun.folder, run.id, "dev"))
            scores, relevant = (frame[name].to_numpy() for name in ("score", "relevant"))
            for name in ("R5@1", checkpoint):
                value = get_measure(name).compute_overall(scores, relevant, np.full(len(frame) // 5, 5))
                assert entry["summary"][f"dev/{name}"] == shown.summary[f"dev/{name}"] == row[f"dev/{name}"] == value
    assert bool(early) == (checkpoint != "last")
