"""The record of a run: the truth, written whole, from which W&B and analysis can always be served again.

The training curve, one row a batch, lies beside the record: a study reads thousands of records before it starts, and
curves only to show them.
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
    import pandas as pd  # which is not loaded in an instant

Split = Literal["dev", "test"]
SPLITS: tuple[Split, Split] = ("dev", "test")
_FILES = {"dev": ("record.json", "scores.parquet"), "test": ("test.json", "test_scores.parquet")}
_HISTORY_FILE = "history.json"
READER_THREADS = 8
"""Threads that read records: on a shared disk most of the time is waiting for it."""


def get_marker_name(split: Split) -> str:
    """The file in addition to a record that says which W&B project has it."""
    return f"mirrored-{split}.json"


def get_run_folder(study_folder: Path, run_id: str) -> Path:
    """Where a run's record lies."""
    return study_folder / "runs" / run_id


def list_record_files(split: Split) -> tuple[str, ...]:
    """Names of the files of an evaluation, in the order of writing: the last one says that the others are there."""
    name, scores = _FILES[split]
    return (scores, _HISTORY_FILE, name) if split == "dev" else (scores, name)


def get_scores_path(study_folder: Path, run_id: str, split: Split = "dev") -> Path:
    """Where a finished run's scores lie."""
    return get_run_folder(study_folder, run_id) / _FILES[split][1]


def write_run_record(study_folder: Path, split: Split, record: dict[str, Any], scores: "pd.DataFrame | None") -> None:
    """Writes scores and curve first, then the record that says they are there; of the scores it holds the SHA-256.

    Args:
        study_folder: the study's folder.
        split: dev for the run itself, test for its test evaluation.
        record: JSON-able; `id`, `state` and `summary` among its keys. `history`, the rows of a training's curve, goes
            into a file of its own.
        scores: columns split, query_id, document_id, relevant, score, of sentence pairs pair_id too; None for a failed
            run.
    """
    place = get_run_folder(study_folder, record["id"])
    if scores is not None:
        with write_atomically(get_scores_path(study_folder, record["id"], split)) as temporary:
            scores.to_parquet(temporary, index=False)
            found = hash_file(temporary)
        record = {**record, "summary": {**record["summary"], f"{split}/scores_sha256": found}}
    if split == "dev" and "history" in record:
        write_json(place / _HISTORY_FILE, record["history"])
        kept = {key: value for key, value in record.items() if key != "history"}
        record = {**kept, "history_sha256": hash_file(place / _HISTORY_FILE)}
    write_json(place / _FILES[split][0], record, with_checksum=True)


def read_run_record(study_folder: Path, run_id: str, split: Split = "dev") -> dict[str, Any] | None:
    """A run's record, or None where there is none.

    Raises:
        UserError: the file holds something else.
    """
    path = get_run_folder(study_folder, run_id) / _FILES[split][0]
    try:
        record = read_json(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _make_damage_error(path, str(error)) from None
    if not isinstance(record, dict) or not isinstance(record.get("state"), str):
        raise _make_damage_error(path, "no state of a run in it")
    if not isinstance(record.get("summary"), dict):
        raise _make_damage_error(path, "no summary of a run in it")
    return record


def read_history(study_folder: Path, run_id: str) -> list[dict[str, Any]]:
    """The rows of a training's curve; none where there is no record.

    Raises:
        UserError: the file holds something else.
    """
    record = read_run_record(study_folder, run_id)
    if record is None or "history" in record:  # as records once were
        return list((record or {}).get("history", []))
    path = get_run_folder(study_folder, run_id) / _HISTORY_FILE
    try:
        known, found = record.get("history_sha256"), hash_file(path)
        rows = read_json(path)
    except FileNotFoundError:
        if record.get("history_sha256"):
            raise _make_damage_error(path, "no such file") from None
        return []
    except ValueError as error:
        raise _make_damage_error(path, str(error)) from None
    if known not in (None, found):
        raise _make_damage_error(path, "it does not have its checksum")
    if not isinstance(rows, list):
        raise _make_damage_error(path, "no rows of a curve in it")
    return rows


def is_run_finished(study_folder: Path, run_id: str, split: Split = "dev") -> bool:
    """Whether this evaluation is done and recorded."""
    record = read_run_record(study_folder, run_id, split)
    return record is not None and record["state"] == "finished"


def has_test_scores(study_folder: Path) -> bool:
    """Whether a test score was ever recorded, be its record damaged."""
    return any(study_folder.glob(f"runs/*/{_FILES['test'][0]}*"))


def set_aside_damaged_records(study_folder: Path, log: Callable[[str], None]) -> None:
    """Renames every record whose files are not as they were written, so that its evaluation is made again.

    Args:
        study_folder: the study's folder.
        say: told of each.
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
                log(f"{error}; its record is set aside as {path.name}.damaged, and the evaluation is made again")


def _find_damage(study_folder: Path, run_id: str) -> dict[Split, str]:
    """By split, what is wrong with an evaluation's files."""
    found: dict[Split, str] = {}
    for split in SPLITS:
        try:
            record = read_run_record(study_folder, run_id, split)
            if record is None or record["state"] != "finished":  # another process may be making it good
                continue
            scores, curve = (
                get_scores_path(study_folder, run_id, split),
                get_run_folder(study_folder, run_id) / _HISTORY_FILE,
            )
            _check_file(scores, record["summary"].get(f"{split}/scores_sha256"))
            if split == "dev" and "history_sha256" in record:
                _check_file(curve, record["history_sha256"])
        except UserError as error:
            found[split] = str(error).partition("; expected")[0]
    return found


def _check_file(path: Path, known: str | None) -> None:
    """A file of before its digest was noted need only be there."""
    try:
        path.stat()
        whole = known is None or hash_file(path) == known
    except FileNotFoundError:
        raise _make_damage_error(path, "no such file") from None
    if not whole:
        raise _make_damage_error(path, "it does not have its checksum")


def _make_damage_error(path: Path, found: str) -> UserError:
    return UserError(str(path), found, "a file as the study wrote it; the same study run again makes it anew")
