"""The record of a run: the truth, written whole, from which W&B and analysis can always be served again."""

import json
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from trainables.files import whole_file, write_json

Split = Literal["dev", "test"]
_FILES = {"dev": ("record.json", "scores.parquet"), "test": ("test.json", "test_scores.parquet")}


def folder(study_folder: Path, run_id: str) -> Path:
    """Where a run's record lies."""
    return study_folder / "runs" / run_id


def write(study_folder: Path, split: Split, record: dict[str, Any], scores: pd.DataFrame | None) -> None:
    """Writes scores first, then the record that says they are there.

    Args:
        study_folder: the study's folder.
        split: dev for the run itself, test for its test evaluation.
        record: JSON-able; `id` and `state` among its keys.
        scores: columns split, query_id, document_id, relevant, score; None for a failed run.
    """
    place = folder(study_folder, record["id"])
    name, scores_name = _FILES[split]
    if scores is not None:
        with whole_file(place / scores_name) as temporary:
            scores.to_parquet(temporary, index=False)
    write_json(place / name, record)


def read(study_folder: Path, run_id: str, split: Split = "dev") -> dict[str, Any] | None:
    """A run's record, or None where there is none."""
    path = folder(study_folder, run_id) / _FILES[split][0]
    if not path.is_file():
        return None
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def read_scores(study_folder: Path, run_id: str, split: Split = "dev") -> pd.DataFrame:
    """A finished run's scores."""
    return pd.read_parquet(folder(study_folder, run_id) / _FILES[split][1])


def finished(study_folder: Path, run_id: str, split: Split = "dev") -> bool:
    """Whether this evaluation is done and recorded."""
    record = read(study_folder, run_id, split)
    return record is not None and record["state"] == "finished"
