"""Reads and writes run records: the source of truth, from which W&B's runs and the report are created.

A record is written atomically. The learning curve, with one row per batch, is a separate file next to the record: a
study reads thousands of records when it starts, and reads curves only to show them.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from records.json_files import EXPECTED, read_object
from trainables.utils.checksums import hash_file
from trainables.utils.errors import UserError
from trainables.utils.files import read_json, write_atomically, write_json

Split = Literal["dev", "test"]
SPLITS: tuple[Split, Split] = ("dev", "test")
PROVENANCE = ("versions", "commit", "hardware", "ray")
"""Keys of a record, next to its configuration, that the report and W&B have in the configuration."""
History = list[dict[str, Any]]
"""Learning curve: one row for each number of instances."""
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
    """Return the names of the files of an evaluation in the order of writing: the last one is the record."""
    name, scores = _FILES[split]
    return (scores, _HISTORY_FILE, name) if split == "dev" else (scores, name)


def get_scores_path(study_folder: Path, run_id: str, split: Split = "dev") -> Path:
    """Return the path of the scores of a finished evaluation."""
    return get_run_folder(study_folder, run_id) / _FILES[split][1]


def write_run_record(study_folder: Path, split: Split, record: dict[str, Any], scores: bytes | None) -> None:
    """Write the record of an evaluation, with the SHA-256 of the scores and of the learning curve, after these.

    Args:
        study_folder: folder of the study.
        split: dev for the run itself, test for its test evaluation.
        record: JSON-serializable record with at least the keys `id`, `state` and `summary`. Its `history`, the rows of
            the learning curve, is written to a separate file.
        scores: content of the file of scores, from `records.scores.encode_scores`. None for a failed run.
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
    """Return the record of an evaluation, or None if there is none.

    Raises:
        UserError: if the record is damaged.
    """
    path = get_run_folder(study_folder, run_id) / _FILES[split][0]
    try:
        record = read_object(path)
    except FileNotFoundError:
        return None
    for key, kind in (("state", str), ("summary", dict)):
        if not isinstance(record.get(key), kind):
            raise _make_damage_error(path, f"it has no {key} of a run")
    return record


def get_settings(record: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a record and what is known of its provenance.

    Raises:
        UserError: if it has no configuration.
    """
    if not isinstance(record.get("config"), dict):
        raise UserError(f"record of run {record.get('id')}", "no configuration in it", EXPECTED)
    settings: dict[str, Any] = record["config"] | {key: record[key] for key in PROVENANCE if key in record}
    return settings


def get_summary(record: dict[str, Any], split: Split) -> dict[str, Any]:
    """Return the summary of an evaluation. A failed test leaves the results of the training unchanged."""
    summary: dict[str, Any] = record["summary"]
    if split == "dev" or record["state"] == "finished":
        return summary
    return {f"test/{key}": value for key, value in summary.items() if key in ("state", "error")}


def read_history(study_folder: Path, run_id: str) -> History:
    """Return the rows of the learning curve of a run; empty if there is no record, or one without a curve.

    Raises:
        UserError: if the curve is damaged or missing.
    """
    record, path = read_run_record(study_folder, run_id), get_run_folder(study_folder, run_id) / _HISTORY_FILE
    if record is None or "history_sha256" not in record:
        return []
    _check_file(path, record["history_sha256"])
    rows: History = read_json(path)
    return rows


def is_run_finished(study_folder: Path, run_id: str, split: Split = "dev") -> bool:
    """Return whether this evaluation is finished and recorded."""
    record = read_run_record(study_folder, run_id, split)
    return record is not None and record["state"] == "finished"


def has_records(study_folder: Path, split: Split = "dev") -> bool:
    """Return whether an evaluation was ever recorded, even if its record is damaged now."""
    return any(study_folder.glob(f"runs/*/{_FILES[split][0]}*"))


def has_test_scores(study_folder: Path) -> bool:
    """Return whether a test score was ever recorded, even if its record is damaged now."""
    return has_records(study_folder, "test")


def set_aside_damaged_records(study_folder: Path, log: Callable[[str], None]) -> None:
    """Rename every record with damaged files, so that its evaluation is repeated, and log a line for each."""
    runs = study_folder / "runs"
    ids = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir()) if runs.is_dir() else []
    with ThreadPoolExecutor(READER_THREADS) as readers:
        for run_id, damaged in zip(
            ids, readers.map(lambda run_id: _find_damage(study_folder, run_id), ids), strict=True
        ):
            # Looked at again, since another driver may have set it aside, or be repeating it.
            for split, error in (_find_damage(study_folder, run_id) if damaged else damaged).items():
                path = get_run_folder(study_folder, run_id) / _FILES[split][0]
                with suppress(FileNotFoundError):  # another driver has just done it
                    path.replace(path.with_name(f"{path.name}.damaged"))
                log(f"{error}; its record is renamed to {path.name}.damaged and the evaluation will be repeated")


def _find_damage(study_folder: Path, run_id: str) -> dict[Split, str]:
    """Return the damage of a run's files, by split."""
    damage: dict[Split, str] = {}
    for split in SPLITS:
        try:
            record = read_run_record(study_folder, run_id, split)
            if record is None:
                continue
            if not isinstance(record.get("config"), dict):
                path = get_run_folder(study_folder, run_id) / _FILES[split][0]
                raise _make_damage_error(path, "it has no configuration of a run")
            if record["state"] == "finished":  # a failed run has no scores
                scores_hash = record["summary"].get(f"{split}/scores_sha256")
                _check_file(get_scores_path(study_folder, run_id, split), scores_hash)
            if "history_sha256" in record:
                _check_file(get_run_folder(study_folder, run_id) / _HISTORY_FILE, record["history_sha256"])
        except UserError as error:
            damage[split] = str(error).partition("; expected")[0]
    return damage


def _check_file(path: Path, recorded_hash: str) -> None:
    """Raise UserError if the file is missing or damaged."""
    try:
        if hash_file(path) != recorded_hash:
            raise _make_damage_error(path, "it does not match its checksum")
    except FileNotFoundError:
        raise _make_damage_error(path, "no such file") from None


def _make_damage_error(path: Path, problem: str) -> UserError:
    return UserError(str(path), problem, EXPECTED)
