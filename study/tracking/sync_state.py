"""Small files that store what W&B already has, next to the files that were uploaded.

A file stores what was last written to W&B's offline files and to each project of a server: the state of an evaluation,
or the hash of a document. An interrupted upload leaves no entry.
"""

import os
from pathlib import Path

from records.json_files import read_intact_object
from records.run_record import Split, get_marker_name, get_run_folder
from study.tracking.tracking_settings import Tracking
from trainables.utils.files import write_json


def get_evaluation_path(folder: Path, run_id: str, split: Split) -> Path:
    """Return the path of the sync state of an evaluation."""
    return get_run_folder(folder, run_id) / get_marker_name(split)


def get_document_path(folder: Path, run_id: str) -> Path:
    """Return the path of the sync state of a document: plan, searches, queries or findings."""
    return folder / "wandb" / f".{run_id}.json"


def is_synced(path: Path, tracking: Tracking, version: str) -> bool:
    """Return whether W&B has this version."""
    return tracking.mode == "disabled" or read_intact_object(path).get(_get_destination(tracking)) == version


def is_evaluation_synced(tracking: Tracking, run_id: str, split: Split, state: str) -> bool:
    """Return whether W&B has an evaluation that ended in this state."""
    return is_synced(get_evaluation_path(tracking.folder, run_id, split), tracking, state)


def read_url(path: Path) -> str | None:
    """Return the URL on the server, or None if it is not known."""
    url: str | None = read_intact_object(path).get("url")
    return url


def mark_synced(path: Path, tracking: Tracking, version: str, url: str | None) -> None:
    """Store that W&B has this version, and the URL where a server shows it."""
    state = read_intact_object(path) | {_get_destination(tracking): version} | ({"url": url} if url else {})
    write_json(path, state, with_checksum=True)


def clear_synced(path: Path, tracking: Tracking) -> None:
    """Delete the entry of this destination, before its files are removed."""
    remaining = read_intact_object(path)
    if remaining.pop(_get_destination(tracking), None):
        write_json(path, remaining, with_checksum=True)


def _get_destination(tracking: Tracking) -> str:
    """Return the key of a destination. It contains WANDB_BASE_URL, which is set for other servers."""
    if tracking.mode == "offline":
        return "offline"
    return f"{os.environ.get('WANDB_BASE_URL', '').rstrip('/')} {tracking.entity or ''}/{tracking.project}".strip()
