"""Reads the offline files of W&B without a server: configuration, history, summary and artifacts of every run.

A `.wandb` file is a 7-byte header and a log of records in blocks of 32 KiB (the LevelDB log format): each piece is
[crc32 u32, length u16, type u8] and a body, the type saying whether it is a whole record or its first, middle or last
piece; a record is the protobuf message `wandb_internal.Record`.
"""

import base64
import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainables.utils.errors import UserError

PROVENANCE = ("versions", "commit", "hardware", "ray")
"""Keys of a record, beside its configuration, that W&B has in the configuration."""
MAGIC = b":W&B"
_FILE_HEADER, _BLOCK = 7, 32768
_PIECE = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class StagedFile:
    """A file of an artifact: `staged` is the name of its copy in the staging folder, `digest` its MD5 in base64."""

    path: str
    staged: str
    digest: str


@dataclass
class WandbRunData:
    """What W&B holds of one run. Keys that W&B itself adds ("_step", "_runtime", ...) are left out."""

    id: str
    group: str = ""
    job_type: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, list[StagedFile]] = field(default_factory=dict)
    updated_at: str = ""
    """When its last part was begun; later is greater."""


def read_offline_runs(folder: Path) -> list[WandbRunData]:
    """All runs of a wandb folder, in order of id; the parts of a resumed run, in order of time, are one run.

    Of a configuration, summary or artifact that occurs in several parts the later one counts; history is appended.

    Raises:
        UserError: for a file that is corrupt (a file that merely ends early is a killed run, and is read as far as it
            goes).
    """
    runs: dict[str, WandbRunData] = {}
    for path in sorted(folder.glob("offline-run-*/run-*.wandb"), key=_time_key):
        name = path.stem.removeprefix("run-")
        for record in _read_wandb_records(path):
            _apply_record(record, runs, name)
        if name in runs:
            runs[name].updated_at = _time_key(path)[0]
    return [runs[key] for key in sorted(runs)]


def is_complete(path: Path) -> bool:
    """Whether a file holds the end of its run."""
    return any(record.WhichOneof("record_type") == "exit" for record in _read_wandb_records(path))


def index_staged_files(folder: Path) -> dict[str, list[Path]]:
    """Every file below a folder by its name: where artifacts are found again after the folder was moved."""
    index: dict[str, list[Path]] = {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            index.setdefault(name, []).append(Path(place, name))
    return index


def locate_staged_file(file: StagedFile, index: dict[str, list[Path]], where: str) -> Path:
    """The staged copy of an artifact's file, its digest checked.

    Raises:
        UserError: if no file of that name with that content lies below the folder.
    """
    candidates = index.get(file.staged, [])
    for path in candidates:
        if base64.b64encode(hashlib.md5(path.read_bytes(), usedforsecurity=False).digest()).decode() == file.digest:
            return path
    found = f"{file.staged} does not have the logged digest" if candidates else f"{file.staged} is not there"
    raise UserError(where, found, f"{file.path} as logged, staged below the wandb folder (WANDB_DATA_DIR)")


def _time_key(path: Path) -> tuple[str, int, str]:
    """Folders are offline-run-<time>-<id>, with -1, -2, ... for parts that began in the same second."""
    folder = path.parent.name
    return folder.removeprefix("offline-run-").split("-")[0], len(folder), folder


def _read_bodies(path: Path) -> Iterator[bytes]:
    """The records' bytes; ends at the last whole record."""
    data = path.read_bytes()
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise UserError(str(path), f"begins with {data[:4]!r}", "a W&B file")
    offset = _FILE_HEADER
    pieces: bytes | None = None
    while offset + _PIECE.size <= len(data):
        left = _BLOCK - offset % _BLOCK
        if left < _PIECE.size:
            offset += left
            continue
        checksum, length, kind = _PIECE.unpack_from(data, offset)
        body = data[offset + _PIECE.size : offset + _PIECE.size + length]
        if length > left - _PIECE.size or not _FULL <= kind <= _LAST:
            raise UserError(str(path), f"corrupt record at byte {offset}", "an undamaged W&B file")
        if len(body) < length:
            return
        if zlib.crc32(body, zlib.crc32(bytes([kind]))) != checksum or (kind in (_FULL, _FIRST)) != (pieces is None):
            raise UserError(str(path), f"corrupt record at byte {offset}", "an undamaged W&B file")
        offset += _PIECE.size + length
        pieces = (pieces or b"") + body
        if kind in (_FULL, _LAST):
            yield pieces
            pieces = None


def _read_wandb_records(path: Path) -> Iterator[Any]:
    from google.protobuf.message import DecodeError
    from wandb.proto import wandb_internal_pb2

    for body in _read_bodies(path):
        record = wandb_internal_pb2.Record()  # type: ignore[attr-defined, unused-ignore]
        try:
            record.ParseFromString(body)
        except DecodeError as error:
            raise UserError(str(path), f"unreadable record ({error})", "a file of wandb 0.31") from error
        yield record


def _apply_record(record: Any, runs: dict[str, WandbRunData], name: str) -> None:
    kind = record.WhichOneof("record_type")
    run = runs.setdefault(name, WandbRunData(name))
    if kind == "run":
        run.group, run.job_type = record.run.run_group or run.group, record.run.job_type or run.job_type
        _update_nested(run.config, record.run.config.update)
    elif kind == "config":
        _update_nested(run.config, record.config.update)
    elif kind == "summary":
        _update_nested(run.summary, record.summary.update)
        for item in record.summary.remove:
            run.summary.pop(item.key or ".".join(item.nested_key), None)
    elif kind == "history":
        row: dict[str, Any] = {}
        _update_nested(row, record.history.item)
        run.history.append(row)
    elif kind == "artifact":
        run.artifacts[record.artifact.name] = [
            StagedFile(file.path, Path(file.local_path).name, file.digest) for file in record.artifact.manifest.contents
        ]


def _update_nested(target: dict[str, Any], items: Iterable[Any]) -> None:
    for item in items:
        keys = list(item.nested_key) or [item.key]
        if keys[0].startswith("_"):
            continue
        place = target
        for key in keys[:-1]:
            if not isinstance(place.get(key), dict):
                place[key] = {}
            place = place[key]
        place[keys[-1]] = json.loads(item.value_json)
