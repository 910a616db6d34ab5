"""Reads and writes run records.

They are the source of truth: anything missing in W&B or in the report is created from them. A record is written
atomically. The learning curve, with one row per batch, is a separate file next to the record: a
study reads thousands of records when it starts, and reads curves only to show them.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError
from trainables.utils.files import read_json, write_atomically, write_json

if TYPE_CHECKING:
    import pandas as pd  # imported late because loading it takes noticeable time

Split = Literal["dev", "test"]
SPLITS: tuple[Split, Split] = ("dev", "test")
_FILES = {"dev": ("record.json", "scores.parquet"), "test": ("test.json", "test_scores.parquet")}
_HISTORY_FILE = "history.json"
READER_THREADS = 8
"""Number of threads that read records; on a shared disk they spend most of their time waiting for it."""


def get_marker_name(split: Split) -> str:
    """Return the name of the file next to a record that lists the W&B projects that have the record."""
    return f"mirrored-{split}.json"


def get_run_folder(study_folder: Path, run_id: str) -> Path:
    """Return the folder of a run's record."""
    return study_folder / "runs" / run_id


def list_record_files(split: Split) -> tuple[str, ...]:
    """Return the names of the files of an evaluation in the order of writing.

    The last file is the record. If it exists, all the others exist.
    """
    name, scores = _FILES[split]
    return (scores, _HISTORY_FILE, name) if split == "dev" else (scores, name)


def get_scores_path(study_folder: Path, run_id: str, split: Split = "dev") -> Path:
    """Return the path of the scores of a finished evaluation."""
    return get_run_folder(study_folder, run_id) / _FILES[split][1]


def encode_scores(scores: "pd.DataFrame") -> bytes:
    """Return the content of the file of scores.

    Args:
        scores: columns split, query_id, document_id, relevant and score; for sentence pairs also pair_id.
    """
    content: bytes = scores.to_parquet(index=False)
    return content


def write_run_record(study_folder: Path, split: Split, record: dict[str, Any], scores: bytes | None) -> None:
    """Write the record of an evaluation: first the scores and the learning curve, then the record itself.

    The record contains the SHA-256 of the scores and of the curve.

    Args:
        study_folder: folder of the study.
        split: dev for the run itself, test for its test evaluation.
        record: JSON-serializable record with at least the keys `id`, `state` and `summary`. Its `history`, the rows of
            the learning curve, is written to a separate file.
        scores: content of the file of scores, from `encode_scores`. None for a failed run.
    """
    run_folder = get_run_folder(study_folder, record["id"])
    if scores is not None:
        with write_atomically(get_scores_path(study_folder, record["id"], split)) as temporary:
            temporary.write_bytes(scores)
            scores_hash = hash_file(temporary)
        record = {**record, "summary": {**record["summary"], f"{split}/scores_sha256": scores_hash}}
    if split == "dev" and "history" in record:
        write_json(run_folder / _HISTORY_FILE, record["history"])
        others = {key: value for key, value in record.items() if key != "history"}
        record = {**others, "history_sha256": hash_file(run_folder / _HISTORY_FILE)}
    write_json(run_folder / _FILES[split][0], record, with_checksum=True)


def read_run_record(study_folder: Path, run_id: str, split: Split = "dev") -> dict[str, Any] | None:
    """Read the record of an evaluation.

    Args:
        study_folder: folder of the study.
        run_id: id of the run.
        split: dev for the run itself, test for its test evaluation.

    Returns:
        The record, or None if there is none.

    Raises:
        UserError: if the record is damaged.
    """
    path = get_run_folder(study_folder, run_id) / _FILES[split][0]
    try:
        record = read_json(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _make_damage_error(path, str(error)) from None
    if not isinstance(record, dict) or not isinstance(record.get("state"), str):
        raise _make_damage_error(path, "it has no state of a run")
    if not isinstance(record.get("summary"), dict):
        raise _make_damage_error(path, "it has no summary of a run")
    return record


def read_history(study_folder: Path, run_id: str) -> list[dict[str, Any]]:
    """Read the learning curve of a run.

    Args:
        study_folder: folder of the study.
        run_id: id of the run.

    Returns:
        The rows of the curve; empty if there is no record.

    Raises:
        UserError: if the curve is damaged or missing.
    """
    record = read_run_record(study_folder, run_id)
    if record is None:
        return []
    path = get_run_folder(study_folder, run_id) / _HISTORY_FILE
    try:
        recorded_hash, actual_hash = record.get("history_sha256"), hash_file(path)
        rows = read_json(path)
    except FileNotFoundError:
        if record.get("history_sha256"):
            raise _make_damage_error(path, "no such file") from None
        return []
    except ValueError as error:
        raise _make_damage_error(path, str(error)) from None
    if recorded_hash not in (None, actual_hash):
        raise _make_damage_error(path, "it does not match its checksum")
    if not isinstance(rows, list):
        raise _make_damage_error(path, "it has no rows of a curve")
    return rows


def is_run_finished(study_folder: Path, run_id: str, split: Split = "dev") -> bool:
    """Return whether this evaluation is finished and recorded."""
    record = read_run_record(study_folder, run_id, split)
    return record is not None and record["state"] == "finished"


def has_test_scores(study_folder: Path) -> bool:
    """Return whether a test score was ever recorded, even if its record is damaged now."""
    return any(study_folder.glob(f"runs/*/{_FILES['test'][0]}*"))


def set_aside_damaged_records(study_folder: Path, log: Callable[[str], None]) -> None:
    """Rename every record with damaged files, so that its evaluation is repeated.

    Args:
        study_folder: folder of the study.
        log: function that prints a line; called once for each damaged record.
    """
    runs = study_folder / "runs"
    ids = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir()) if runs.is_dir() else []
    with ThreadPoolExecutor(READER_THREADS) as readers:
        for run_id, damaged in zip(
            ids, readers.map(lambda run_id: _find_damage(study_folder, run_id), ids), strict=True
        ):
            for split, error in damaged.items():
                path = get_run_folder(study_folder, run_id) / _FILES[split][0]
                path.replace(path.with_name(f"{path.name}.damaged"))
                log(f"{error}; its record is renamed to {path.name}.damaged and the evaluation will be repeated")


def _find_damage(study_folder: Path, run_id: str) -> dict[Split, str]:
    """Return the damage of a run's files, by split."""
    damage: dict[Split, str] = {}
    for split in SPLITS:
        try:
            record = read_run_record(study_folder, run_id, split)
            if record is None or record["state"] != "finished":  # another process may be repeating it
                continue
            if not isinstance(record.get("config"), dict):
                path = get_run_folder(study_folder, run_id) / _FILES[split][0]
                raise _make_damage_error(path, "it has no configuration of a run")
            scores, curve = (
                get_scores_path(study_folder, run_id, split),
                get_run_folder(study_folder, run_id) / _HISTORY_FILE,
            )
            _check_file(scores, record["summary"].get(f"{split}/scores_sha256"))
            if split == "dev" and "history_sha256" in record:
                _check_file(curve, record["history_sha256"])
        except UserError as error:
            damage[split] = str(error).partition("; expected")[0]
    return damage


def _check_file(path: Path, recorded_hash: str | None) -> None:
    """Raise UserError if the file is missing or damaged; records of earlier versions have no hash."""
    try:
        path.stat()
        is_whole = recorded_hash is None or hash_file(path) == recorded_hash
    except FileNotFoundError:
        raise _make_damage_error(path, "no such file") from None
    if not is_whole:
        raise _make_damage_error(path, "it does not match its checksum")


def _make_damage_error(path: Path, problem: str) -> UserError:
    return UserError(str(path), problem, "a file as the study wrote it; rerun the study to recreate it")
