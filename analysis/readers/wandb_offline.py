"""Reads W&B's offline files without a server: configuration, history, summary and artifacts of runs.

A `.wandb` file is a 7-byte header and a log of records in blocks of 32 KiB (the LevelDB log format). Each piece is
[crc32 u32, length u16, type u8] and a body. The type says whether it is a whole record or its first, middle or last
piece. A record is the protobuf message `wandb_internal.Record`.
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

from trainables.utils.errors import UserError, require_package

MAGIC = b":W&B"
_FILE_HEADER, _BLOCK = 7, 32768
_PIECE = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class StagedFile:
    """A file of an artifact.

    Attributes:
        staged: name of its copy in the staging folder.
        digest: its MD5 in base64.
    """

    path: str
    staged: str
    digest: str


@dataclass
class WandbRunData:
    """Data that W&B has of one run. Keys that W&B itself adds ("_step", "_runtime", ...) are left out."""

    id: str
    group: str = ""
    job_type: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, list[StagedFile]] = field(default_factory=dict)
    updated_at: str = ""
    """Time at which its last part began; later is greater."""


def read_offline_runs(folder: Path) -> list[WandbRunData]:
    """Read all runs of a wandb folder, in order of id.

    The parts of a resumed run, in order of time, are one run. If a configuration, summary or artifact occurs in
    several parts, the last one counts; history is appended. A file that ends early belongs to a killed run and is read
    to its last complete record.

    Raises:
        UserError: if a file is corrupt.
    """
    runs: dict[str, WandbRunData] = {}
    for path in sorted(folder.glob("offline-run-*/run-*.wandb"), key=_time_key):
        run_id = path.stem.removeprefix("run-")
        for record in _read_wandb_records(path):
            _apply_record(record, runs, run_id)
        if run_id in runs:
            runs[run_id].updated_at = _time_key(path)[0]
    return [runs[key] for key in sorted(runs)]


def is_complete(path: Path) -> bool:
    """Return whether a file contains the end of its run."""
    return any(record.WhichOneof("record_type") == "exit" for record in _read_wandb_records(path))


def index_staged_files(folder: Path) -> dict[str, list[Path]]:
    """Index every file below a folder by its name, to find artifacts after the folder was moved."""
    index: dict[str, list[Path]] = {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            index.setdefault(name, []).append(Path(place, name))
    return index


def locate_staged_file(file: StagedFile, index: dict[str, list[Path]], where: str) -> Path:
    """Return the staged copy of an artifact's file after checking its digest.

    Raises:
        UserError: if there is no file with that name and content below the folder.
    """
    candidates = index.get(file.staged, [])
    for path in candidates:
        if base64.b64encode(hashlib.md5(path.read_bytes(), usedforsecurity=False).digest()).decode() == file.digest:
            return path
    found = f"{file.staged} does not have the logged digest" if candidates else f"{file.staged} is missing"
    raise UserError(where, found, f"{file.path} as logged, staged below the wandb folder (WANDB_DATA_DIR)")


def _time_key(path: Path) -> tuple[str, int, str]:
    """Return a key that sorts the files of offline-run-<time>-<id> folders by time.

    Parts that began in the same second have the suffix -1, -2, ...
    """
    folder = path.parent.name
    return folder.removeprefix("offline-run-").split("-")[0], len(folder), folder


def _read_bodies(path: Path) -> Iterator[bytes]:
    """Yield the bytes of each record, up to the last complete one."""
    data = path.read_bytes()
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise UserError(str(path), f"begins with {data[:4]!r}", "a W&B file")
    offset = _FILE_HEADER
    pieces: bytes | None = None
    while offset + _PIECE.size <= len(data):
        remaining = _BLOCK - offset % _BLOCK
        if remaining < _PIECE.size:
            offset += remaining
            continue
        checksum, length, piece_type = _PIECE.unpack_from(data, offset)
        body = data[offset + _PIECE.size : offset + _PIECE.size + length]
        if length > remaining - _PIECE.size or not _FULL <= piece_type <= _LAST:
            raise UserError(str(path), f"corrupt record at byte {offset}", "an undamaged W&B file")
        if len(body) < length:
            return
        if zlib.crc32(body, zlib.crc32(bytes([piece_type]))) != checksum or (piece_type in (_FULL, _FIRST)) != (
            pieces is None
        ):
            raise UserError(str(path), f"corrupt record at byte {offset}", "an undamaged W&B file")
        offset += _PIECE.size + length
        pieces = (pieces or b"") + body
        if piece_type in (_FULL, _LAST):
            yield pieces
            pieces = None


def _read_wandb_records(path: Path) -> Iterator[Any]:
    require_package("wandb", str(path))
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
