"""A study's results at a place that every node reaches, for nodes that do not see the study's folder.

Such a node puts what it found there, and whoever drives the study fetches it into the folder, which only the driver
must see; a driver on another machine fetches all. The place is laid out as the folder is. W&B's files are not kept
there, since they can be made from the records; of runs that W&B's server has, it is noted that it has them.
"""

import re
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data.query_attributes import QUERIES_FILE as QUERIES
from study.records import run_record as record
from study.records.plan_file import PLAN_FILE, read_plan
from study.records.run_record import Split
from trainables.storage import open_storage
from trainables.utils.errors import UserError
from trainables.utils.files import write_atomically
from trainables.utils.hashing import hash_json

_MAX_TRANSFERS = 16
"""At once: of a small file most of the time is the way there."""


class RemoteRecords:
    """The runs, plan and report of one study.

    Args:
        place: folder or URL.
    """

    def __init__(self, url: str) -> None:
        self._url, self._storage = url, open_storage(url)
        self._damaged: set[str] = set()

    def upload_evaluation(self, folder: Path, run_id: str, split: Split) -> None:
        """Copies a recorded evaluation there, the record last: it says that the rest is there."""
        for name in record.list_record_files(split):
            path = record.get_run_folder(folder, run_id) / name
            if path.is_file():
                self._storage.put_file(f"runs/{run_id}/{name}", path)

    def download_evaluation(self, folder: Path, run_id: str, split: Split) -> bool:
        """Copies a recorded evaluation from there into the folder, again with its record last; whether there is one.

        The record is read first, since whatever it speaks of was there before it; a damaged one counts as none.
        """
        *others, name = record.list_record_files(split)
        with tempfile.TemporaryDirectory() as temporary:
            copy = record.get_run_folder(Path(temporary), run_id) / name
            try:
                self._storage.get_file(f"runs/{run_id}/{name}", copy)
            except FileNotFoundError:
                return False
            try:
                entry = record.read_run_record(Path(temporary), run_id, split)
            except UserError:  # the evaluation is made again, and put there anew
                self._damaged.add(f"runs/{run_id}/{name}")
                return False
            missing = {other for other in others if not self._download_file(run_id, other, folder)}
            if entry and entry["state"] == "finished" and record.get_scores_path(folder, run_id, split).name in missing:
                return False  # somebody removed them; the run is made again
            with write_atomically(record.get_run_folder(folder, run_id) / name) as target:
                target.write_bytes(copy.read_bytes())
        return True

    def download_missing(self, folder: Path) -> list[str]:
        """Copies into the folder every recorded evaluation that is not finished there, and what was swept; returns the
        ids of the runs.

        Raises:
            UserError: a record is damaged.
        """
        remote_paths = self._storage.list_paths()
        found = [one for path in remote_paths if (one := _parse_record_path(path))]
        wanted = [(run_id, split) for run_id, split in found if not record.is_run_finished(folder, run_id, split)]
        with ThreadPoolExecutor(_MAX_TRANSFERS) as transfers:
            copied = list(transfers.map(lambda one: self.download_evaluation(folder, *one), wanted))
        done = [one for one, whole in zip(wanted, copied, strict=True) if whole]
        markers = {f"runs/{run_id}/{record.get_marker_name(split)}" for run_id, split in done}
        swept = {
            path for path in remote_paths if re.fullmatch(r"swept/\w+\.json", path) and not (folder / path).is_file()
        }
        for path in swept | markers & set(remote_paths):
            self._storage.get_file(path, folder / path)
        return sorted({run_id for run_id, _ in done})

    def upload_missing(self, folder: Path, mode: str) -> None:
        """Copies there what the place lacks of the folder's finished evaluations, and which of them W&B's server has.

        Args:
            folder: the study's.
            mode: of the tracking.
        """
        known = set(self._storage.list_paths()) - self._damaged
        here = [path.relative_to(folder).as_posix() for path in folder.glob("runs/*/*.json")]
        lacking = [found for path in here if path not in known and (found := _parse_record_path(path))]
        with ThreadPoolExecutor(_MAX_TRANSFERS) as transfers:
            finished = (one for one in lacking if record.is_run_finished(folder, *one))
            list(transfers.map(lambda one: self.upload_evaluation(folder, *one), finished))
        markers = {record.get_marker_name(split) for split in record.SPLITS} if mode == "online" else set()
        self._upload_files(folder, (path for path in here if path not in known and Path(path).name in markers))

    def upload_study(self, folder: Path) -> None:
        """Copies the plan, what the search found, what is known of the queries, what was swept and the report there,
        over those of before."""
        found = [*folder.glob("swept/*.json"), *folder.glob("report/**/*")]
        others = (path.relative_to(folder).as_posix() for path in found if path.is_file())
        self._upload_files(
            folder, [name for name in (PLAN_FILE, "search.json", QUERIES, *others) if (folder / name).is_file()]
        )

    def download_study(self, folder: Path, study: str) -> list[str]:
        """Takes up what was found elsewhere: the plan, if it is newer than the folder's, what is known of the queries,
        if the folder has nothing, and all records; returns the ids of the runs that the folder lacked.

        Raises:
            UserError: the place cannot be read, or holds another study or another plan of the same version.
        """
        theirs = self._download_plan()
        if theirs is not None:
            if theirs["study"] != study:
                raise UserError("output.records", f"results of the study {theirs['study']!r}", f"those of {study!r}")
            mine = read_plan(folder / PLAN_FILE) if (folder / PLAN_FILE).is_file() else None
            if mine and mine["version"] == theirs["version"] and hash_json(mine) != hash_json(theirs):
                found = f"another plan of version {theirs['version']} than in {folder}"
                raise UserError("output.records", found, "a place of this study's own")
            if mine is None or mine["version"] < theirs["version"]:
                self._storage.get_file(PLAN_FILE, folder / PLAN_FILE)
        if not (folder / QUERIES).is_file():
            with suppress(FileNotFoundError):  # a study that has not come so far, or knows nothing of them
                self._storage.get_file(QUERIES, folder / QUERIES)
        return self.download_missing(folder)

    def _download_plan(self) -> dict[str, Any] | None:
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary, PLAN_FILE)
            try:
                self._storage.get_file(PLAN_FILE, copy)
            except FileNotFoundError:
                return None
            except Exception as error:  # of whatever package serves the place; nothing is spent yet
                found = f"cannot be read ({type(error).__name__}: {error})"
                raise UserError("output.records", found, "a place that this machine and all nodes can use") from error
            return read_plan(copy, f"{PLAN_FILE} in output.records")

    def _download_file(self, run_id: str, name: str, folder: Path) -> bool:
        try:
            self._storage.get_file(f"runs/{run_id}/{name}", record.get_run_folder(folder, run_id) / name)
        except FileNotFoundError:
            return False
        return True

    def _upload_files(self, folder: Path, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_MAX_TRANSFERS) as transfers:
            list(transfers.map(lambda name: self._storage.put_file(name, folder / name), names))


def upload_result(
    folder: Path, records_url: str | None, split: Split, entry: dict[str, Any], scores: pd.DataFrame | None
) -> None:
    """Record an evaluation, for a trial on any node: in the study's folder, or where that is not seen, at the URL."""
    if records_url is None:
        record.write_run_record(folder, split, entry, scores)
        return
    with tempfile.TemporaryDirectory() as temporary:
        record.write_run_record(Path(temporary), split, entry, scores)
        RemoteRecords(records_url).upload_evaluation(Path(temporary), entry["id"], split)


def download_result(folder: Path, records_url: str | None, run_id: str, split: Split) -> None:
    """Bring what a trial recorded elsewhere into the study's folder, for whoever drives the study."""
    if records_url is not None:
        RemoteRecords(records_url).download_evaluation(folder, run_id, split)


def _parse_record_path(path: str) -> tuple[str, Split] | None:
    """Whose record a path is."""
    names = {record.list_record_files(split)[-1]: split for split in record.SPLITS}
    found = re.fullmatch(r"runs/([\w-]+)/([\w.]+)", path)
    return (found[1], names[found[2]]) if found and found[2] in names else None
