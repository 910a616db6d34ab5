"""Records as trials write them, and whether a W&B server has what they say."""

from pathlib import Path
from typing import Any

import pandas as pd

from records import run_record as record
from records.scores import encode_scores
from study.tracking import Tracking, WandbLogger
from wandb_server import ServerRun

LABELS: dict[str, Any] = {"variant": "LS", "role": "search", "seed": 1, "epsilon": 0.2} | {
    "specification_id": "abc",
    "configuration_id": "group",
}
SPLITS: tuple[record.Split, record.Split] = ("dev", "test")
PLAN = {"study": "small", "version": 1, "families": []}
CURVE = [{"instances": count, "train/loss": 1 / count} for count in (16, 32)]


def recorded(folder: Path, split: record.Split, state: str = "finished", run_id: str = "abc") -> None:
    """An evaluation, as a trial records it."""
    entry = {"id": run_id, "configuration_id": "group", "state": state, "config": LABELS | {"specification_id": run_id}}
    made = {"versions": {"torch": "2"}, "commit": "0123", "hardware": {"cores": 2}}
    outcome = {f"{split}/R10@1": 0.5} if state == "finished" else {"error": "the loss is nan"}
    history = {"history": CURVE if state == "finished" else []} if split == "dev" else {}
    row = {"split": split, "query_id": "q", "document_id": "d", "relevant": 1, "score": 0.5}
    scores = encode_scores(pd.DataFrame([row])) if state == "finished" else None
    record.write_run_record(folder, split, {**entry, **made, "summary": {"state": state, **outcome}, **history}, scores)


def log_evaluations(tracking: Tracking, *evaluations: tuple[str, record.Split]) -> WandbLogger:
    """A logger that has written these evaluations, as far as it could."""
    logger = WandbLogger(tracking, print)
    for run_id, split in evaluations:
        logger.log_evaluation(run_id, split)
    logger.flush()
    logger.close()
    return logger


def whole(run: ServerRun, folder: Path, splits: tuple[record.Split, ...] = SPLITS) -> None:
    """Asserts that the server has exactly what the records say."""
    entries = [entry for split in splits if (entry := record.read_run_record(folder, run.id, split))]
    assert run.state == ("failed" if entries[-1]["state"] == "failed" else "finished")
    assert run.history == record.read_history(folder, run.id)
    assert run.steps == list(range(len(run.history)))
    wanted = {key: value for entry in entries for key, value in entry["summary"].items()}
    assert {key: run.summary.get(key) for key in wanted} == wanted
    assert run.config == record.get_settings(entries[0])
    files = {f"scores-{split}-{run.id}": record.get_scores_path(folder, run.id, split) for split in splits}
    expected = {name: {"scores.parquet": path.read_bytes()} for name, path in files.items() if path.is_file()}
    assert run.artifacts == expected
    assert set(run.versions.values()) <= {1}
