"""Reads the run records of a study: runs/<id>/ with record.json, history.json, test.json and scores."""

from functools import partial
from pathlib import Path
from typing import Any

from analysis.data.json_files import read_history, read_object
from analysis.data.run import Run
from analysis.data.scores import list_splits
from analysis.readers.wandb_offline import PROVENANCE
from trainables.utils.errors import UserError
from trainables.utils.files import read_json


def read_recorded_runs(folder: Path) -> list[Run]:
    """Read the runs that ended from a study's folder, in order of id.

    Raises:
        UserError: if a record cannot be read, or its scores are missing.
    """
    return [_read_run(path.parent) for path in sorted((folder / "runs").glob("*/record.json"))]


def _read_run(folder: Path) -> Run:
    record = read_object(folder / "record.json")
    if not isinstance(record.get("id"), str) or not isinstance(record.get("config"), dict):
        raise UserError(str(folder / "record.json"), "no id or config in it", "the record of a run")
    config = record["config"] | {key: record[key] for key in PROVENANCE if key in record}
    summary: dict[str, Any] = dict(record.get("summary", {}))
    files: dict[str, Path] = {}
    if "state" in record:
        summary.setdefault("state", record["state"])
    if summary.get("state") == "finished":
        files |= _map_splits(_require_scores(folder / "scores.parquet", "record.json"))
    if (folder / "test.json").is_file():
        entry = read_object(folder / "test.json")
        tested: dict[str, Any] = entry.get("summary", {})
        if entry.get("state", tested.get("state", summary.get("state"))) == "finished":
            summary |= tested
            files |= _map_splits(_require_scores(folder / "test_scores.parquet", "test.json"))
        else:  # a failed test evaluation does not change the results of training
            summary |= {f"test/{key}": value for key, value in tested.items() if key in ("state", "error")}
    read_curve = partial(read_history, folder / "history.json", record.get("history_sha256"))
    return Run(record["id"], config, summary, read_curve, files, _read_wandb_url(folder))


def _require_scores(path: Path, record_name: str) -> Path:
    if not path.is_file():
        expected = f"the scores that belong to {record_name}; rerun the study to recreate them"
        raise UserError(str(path), "no such file", expected)
    return path


def _read_wandb_url(folder: Path) -> str | None:
    """Return the address of the run that the study recorded when it logged the run.

    It is a link and no result, so a missing or damaged file costs the link alone; the study writes the file again.
    """
    try:
        stored = read_json(folder / "mirrored-dev.json")
    except (FileNotFoundError, ValueError):
        return None
    url = stored.get("url") if isinstance(stored, dict) else None
    return url if isinstance(url, str) and url.startswith(("https://", "http://")) else None


def _map_splits(path: Path) -> dict[str, Path]:
    return dict.fromkeys(list_splits(path), path)
