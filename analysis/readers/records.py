"""Runs as the study's own records tell of them: runs/<id>/ with record.json, history.json, test.json and scores."""

from pathlib import Path
from typing import Any

from analysis.data.json_files import History, read_object, rows
from analysis.data.run import Run
from analysis.data.scores import splits
from analysis.readers.wandb_offline import PROVENANCE
from trainables.utils.errors import UserError


def recorded(folder: Path) -> list[Run]:
    """The runs of a study's folder that ended, in order of id.

    Raises:
        UserError: a record is unreadable, or lacks its scores.
    """
    return [_from_record(path.parent) for path in sorted((folder / "runs").glob("*/record.json"))]


def _from_record(folder: Path) -> Run:
    record = read_object(folder / "record.json")
    if not isinstance(record.get("id"), str) or not isinstance(record.get("config"), dict):
        raise UserError(str(folder / "record.json"), "no id or config in it", "the record of a run")
    config = record["config"] | {key: record[key] for key in PROVENANCE if key in record}
    summary: dict[str, Any] = dict(record.get("summary", {}))
    files: dict[str, Path] = {}
    if "state" in record:
        summary.setdefault("state", record["state"])
    if summary.get("state") == "finished":
        files |= _splits(_scores(folder / "scores.parquet", "record.json"))
    if (folder / "test.json").is_file():
        entry = read_object(folder / "test.json")
        tested: dict[str, Any] = entry.get("summary", {})
        if entry.get("state", tested.get("state", summary.get("state"))) == "finished":
            summary |= tested
            files |= _splits(_scores(folder / "test_scores.parquet", "test.json"))
        else:  # which takes nothing from what training has found
            summary |= {f"test/{key}": value for key, value in tested.items() if key in ("state", "error")}
    own: History = record.get("history", [])
    place, known = folder / "history.json", record.get("history_sha256")
    return Run(record["id"], config, summary, lambda: own or rows(place, known), files, _url(folder))


def _scores(path: Path, speaks: str) -> Path:
    if not path.is_file():
        expected = f"the scores that {speaks} speaks of; run again, the study makes them anew"
        raise UserError(str(path), "no such file", expected)
    return path


def _url(folder: Path) -> str | None:
    """As the study wrote it down when it logged the run."""
    path = folder / "mirrored-dev.json"
    url = read_object(path).get("url") if path.is_file() else None
    return url if isinstance(url, str) and url.startswith(("https://", "http://")) else None


def _splits(path: Path) -> dict[str, Path]:
    return dict.fromkeys(splits(path), path)
