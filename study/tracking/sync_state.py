"""What W&B has already been told, noted beside what it was told of: a mirror that was interrupted has no note.

A note says for W&B's offline files, and for each project of a server, what was last written there: the state of an
evaluation, the digest of a document.
"""

import os
from pathlib import Path
from typing import Any

from study.records import run_record as record
from study.tracking.settings import Tracking
from trainables.utils.files import read_json, write_json


def get_evaluation_path(folder: Path, run_id: str, split: record.Split) -> Path:
    """The note of an evaluation."""
    return record.get_run_folder(folder, run_id) / record.get_marker_name(split)


def get_document_path(folder: Path, run_id: str) -> Path:
    """The note of a W&B run that holds no evaluation: the plan, what the searches did, what is known of
    the queries, what the report found."""
    return folder / "wandb" / f".{run_id}.json"


def is_synced(path: Path, tracking: Tracking, version: str) -> bool:
    """Whether W&B has this."""
    return tracking.mode == "disabled" or _read_state(path).get(_get_destination(tracking)) == version


def is_evaluation_synced(tracking: Tracking, run_id: str, split: record.Split, state: str) -> bool:
    """Whether W&B has an evaluation that ended in this state."""
    return is_synced(get_evaluation_path(tracking.folder, run_id, split), tracking, state)


def read_url(path: Path) -> str | None:
    """Where a server shows what was noted."""
    found: str | None = _read_state(path).get("url")
    return found


def mark_synced(path: Path, tracking: Tracking, version: str, url: str | None) -> None:
    """Notes that W&B has it, and where a server shows it."""
    write_json(
        path,
        {**_read_state(path), _get_destination(tracking): version} | ({"url": url} if url else {}),
        with_checksum=True,
    )


def clear_synced(path: Path, tracking: Tracking) -> None:
    """What W&B has of it is about to be removed."""
    remaining = _read_state(path)
    if remaining.pop(_get_destination(tracking), None):
        write_json(path, remaining, with_checksum=True)


def _get_destination(tracking: Tracking) -> str:
    """The client's own variable tells of a server that is not W&B's."""
    if tracking.mode == "offline":
        return "offline"
    return f"{os.environ.get('WANDB_BASE_URL', '').rstrip('/')} {tracking.entity or ''}/{tracking.project}".strip()


def _read_state(path: Path) -> dict[str, Any]:
    """A note that is damaged, or of another form, as there once were, notes nothing: W&B is then told again."""
    try:
        content = read_json(path)
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
