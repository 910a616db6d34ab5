"""The record of a run: the truth, written whole, from which W&B and analysis can always be served again.

The training curve, one row a batch, lies beside the record: a study reads thousands of records before it starts, and
curves only to show them.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trainables.utils.checksums import sha256
from trainables.utils.errors import UserError
from trainables.utils.files import read_json, whole_file, write_json

if TYPE_CHECKING:
    import pandas as pd  # which is not loaded in an instant

Split = Literal["dev", "test"]
SPLITS: tuple[Split, Split] = ("dev", "test")
_FILES = {"dev": ("record.json", "scores.parquet"), "test": ("test.json", "test_scores.parquet")}
_HISTORY = "history.json"
READERS = 8
"""Threads that read records: on a shared disk most of the time is waiting for it."""


def marker_name(split: Split) -> str:
    """The file in addition to a record that says which W&B project has it."""
    return f"mirrored-{split}.json"


def folder(study_folder: Path, run_id: str) -> Path:
    """Where a run's record lies."""
    return study_folder / "runs" / run_id


def files(split: Split) -> tuple[str, ...]:
    """Names of the files of an evaluation, in the order of writing: the last one says that the others are there."""
    name, scores = _FILES[split]
    return (scores, _HISTORY, name) if split == "dev" else (scores, name)


def scores_file(study_folder: Path, run_id: str, split: Split = "dev") -> Path:
    """Where a finished run's scores lie."""
    return folder(study_folder, run_id) / _FILES[split][1]


def write(study_folder: Path, split: Split, record: dict[str, Any], scores: "pd.DataFrame | None") -> None:
    """Writes scores and curve first, then the record that says they are there; of the scores it holds the SHA-256.

    Args:
        study_folder: the study's folder.
        split: dev for the run itself, test for its test evaluation.
        record: JSON-able; `id`, `state` and `summary` among its keys. `history`, the rows of a training's curve, goes
            into a file of its own.
        scores: columns split, query_id, document_id, relevant, score, of sentence pairs pair_id too; None for a failed
            run.
    """
    place = folder(study_folder, record["id"])
    if scores is not None:
        with whole_file(scores_file(study_folder, record["id"], split)) as temporary:
            scores.to_parquet(temporary, index=False)
            found = sha256(temporary)
        record = {**record, "summary": {**record["summary"], f"{split}/scores_sha256": found}}
    if split == "dev" and "history" in record:
        write_json(place / _HISTORY, record["history"])
        kept = {key: value for key, value in record.items() if key != "history"}
        record = {**kept, "history_sha256": sha256(place / _HISTORY)}
    write_json(place / _FILES[split][0], record, sealed=True)


def read(study_folder: Path, run_id: str, split: Split = "dev") -> dict[str, Any] | None:
    """A run's record, or None where there is none.

    Raises:
        UserError: the file holds something else.
    """
    path = folder(study_folder, run_id) / _FILES[split][0]
    try:
        record = read_json(path)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(record, dict) or not isinstance(record.get("state"), str):
        raise _damaged(path, "no state of a run in it")
    if not isinstance(record.get("summary"), dict):
        raise _damaged(path, "no summary of a run in it")
    return record


def history(study_folder: Path, run_id: str) -> list[dict[str, Any]]:
    """The rows of a training's curve; none where there is no record.

    Raises:
        UserError: the file holds something else.
    """
    record = read(study_folder, run_id)
    if record is None or "history" in record:  # as records once were
        return list((record or {}).get("history", []))
    path = folder(study_folder, run_id) / _HISTORY
    try:
        known, found = record.get("history_sha256"), sha256(path)
        rows = read_json(path)
    except FileNotFoundError:
        if record.get("history_sha256"):
            raise _damaged(path, "no such file") from None
        return []
    except ValueError as error:
        raise _damaged(path, str(error)) from None
    if known not in (None, found):
        raise _damaged(path, "it does not have its checksum")
    if not isinstance(rows, list):
        raise _damaged(path, "no rows of a curve in it")
    return rows


def finished(study_folder: Path, run_id: str, split: Split = "dev") -> bool:
    """Whether this evaluation is done and recorded."""
    record = read(study_folder, run_id, split)
    return record is not None and record["state"] == "finished"


def tested(study_folder: Path) -> bool:
    """Whether a test score was ever recorded, be its record damaged."""
    return any(study_folder.glob(f"runs/*/{_FILES['test'][0]}*"))


def set_aside_damaged(study_folder: Path, say: Callable[[str], None]) -> None:
    """Renames every record whose files are not as they were written, so that its evaluation is made again.

    Args:
        study_folder: the study's folder.
        say: told of each.
    """
    runs = study_folder / "runs"
    ids = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir()) if runs.is_dir() else []
    with ThreadPoolExecutor(READERS) as readers:
        for run_id, damaged in zip(ids, readers.map(lambda run_id: _damages(study_folder, run_id), ids), strict=True):
            for split, error in damaged.items():
                path = folder(study_folder, run_id) / _FILES[split][0]
                path.replace(path.with_name(f"{path.name}.damaged"))
                say(f"{error}; its record is set aside as {path.name}.damaged, and the evaluation is made again")


def _damages(study_folder: Path, run_id: str) -> dict[Split, str]:
    """By split, what is wrong with an evaluation's files."""
    found: dict[Split, str] = {}
    for split in SPLITS:
        try:
            record = read(study_folder, run_id, split)
            if record is None or record["state"] != "finished":  # another process may be making it good
                continue
            scores, curve = scores_file(study_folder, run_id, split), folder(study_folder, run_id) / _HISTORY
            _check(scores, record["summary"].get(f"{split}/scores_sha256"))
            if split == "dev" and "history_sha256" in record:
                _check(curve, record["history_sha256"])
        except UserError as error:
            found[split] = str(error).partition("; expected")[0]
    return found


def _check(path: Path, known: str | None) -> None:
    """A file of before its digest was noted need only be there."""
    try:
        path.stat()
        whole = known is None or sha256(path) == known
    except FileNotFoundError:
        raise _damaged(path, "no such file") from None
    if not whole:
        raise _damaged(path, "it does not have its checksum")


def _damaged(path: Path, found: str) -> UserError:
    return UserError(str(path), found, "a file as the study wrote it; the same study run again makes it anew")
