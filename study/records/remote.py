"""Remote copy of a study's results, from which a driver on another machine continues.

The driver uploads each evaluation when it has recorded it, and downloads what its folder lacks when it starts. The
remote copy has the layout of the folder. It does not contain the files of W&B, because they can be created from the
records. It does contain the notes about which runs the W&B server has.
"""

import math
import re
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from analysis.data.query_attributes import QUERIES_FILE
from analysis.data.results import STATISTICS_FILE
from study.records import run_record
from study.records.plan_file import PLAN_FILE, STUDY_FILE, SUITE_FILE, read_plan
from study.records.run_record import Split
from trainables.storage import open_storage
from trainables.utils.errors import UserError
from trainables.utils.files import write_atomically
from trainables.utils.hashing import hash_json

_RETRY_INTERVAL_S = 60.0
"""Seconds after a failed upload in which no other is tried."""
_MAX_TRANSFERS = 16
"""Maximum number of concurrent transfers; for small files, latency takes most of the time."""


class RemoteRecords:
    """Remote copy of the runs, the plan and the report of one study.

    The copy is listed once, since an object store takes a request for every 1,000 files. What this process uploads
    is added to that listing. A study of which another process removes files from the copy uploads them again when it is
    started the next time.

    Args:
        url: folder or URL of the copy.
    """

    def __init__(self, url: str) -> None:
        self._url, self._storage = url, open_storage(url)
        self._damaged: set[str] = set()
        self._listed_paths: set[str] | None = None

    def upload_evaluation(self, folder: Path, run_id: str, split: Split) -> None:
        """Upload a recorded evaluation. The record is last, because it implies that the other files exist."""
        for name in run_record.list_record_files(split):
            path = run_record.get_run_folder(folder, run_id) / name
            if path.is_file():
                self._upload_file(f"runs/{run_id}/{name}", path)

    def download_evaluation(self, folder: Path, run_id: str, split: Split) -> bool:
        """Download a recorded evaluation into the folder, and return whether there is one.

        The record is read first, because its other files were uploaded before it, and written last. A damaged record
        counts as none.
        """
        *others, name = run_record.list_record_files(split)
        with tempfile.TemporaryDirectory() as temporary:
            copy = run_record.get_run_folder(Path(temporary), run_id) / name
            try:
                self._storage.get_file(f"runs/{run_id}/{name}", copy)
            except FileNotFoundError:
                return False
            try:
                entry = run_record.read_run_record(Path(temporary), run_id, split)
            except UserError:  # the evaluation will be repeated and uploaded again
                self._damaged.add(f"runs/{run_id}/{name}")
                return False
            missing = {other for other in others if not self._download_file(run_id, other, folder)}
            if (
                entry
                and entry["state"] == "finished"
                and run_record.get_scores_path(folder, run_id, split).name in missing
            ):
                return False  # somebody removed the scores; the evaluation will be repeated
            with write_atomically(run_record.get_run_folder(folder, run_id) / name) as target:
                target.write_bytes(copy.read_bytes())
        return True

    def download_missing(self, folder: Path) -> list[str]:
        """Download every evaluation that is not finished in the folder, and all sweep trials.

        Returns:
            The ids of the downloaded runs, sorted.

        Raises:
            UserError: if a record in the folder is damaged.
        """
        remote_paths = self._list_paths()
        recorded = [evaluation for path in sorted(remote_paths) if (evaluation := _parse_record_path(path))]
        missing = [
            (run_id, split) for run_id, split in recorded if not run_record.is_run_finished(folder, run_id, split)
        ]
        with ThreadPoolExecutor(_MAX_TRANSFERS) as transfers:
            succeeded = list(transfers.map(lambda evaluation: self.download_evaluation(folder, *evaluation), missing))
        done = [evaluation for evaluation, success in zip(missing, succeeded, strict=True) if success]
        markers = {f"runs/{run_id}/{run_record.get_marker_name(split)}" for run_id, split in done}
        swept = {
            path for path in remote_paths if re.fullmatch(r"swept/\w+\.json", path) and not (folder / path).is_file()
        }
        with ThreadPoolExecutor(_MAX_TRANSFERS) as transfers:
            list(
                transfers.map(lambda path: self._storage.get_file(path, folder / path), swept | markers & remote_paths)
            )
        return sorted({run_id for run_id, _ in done})

    def upload_all(self, folder: Path, mode: str) -> None:
        """Upload what `upload_study` uploads, and then what `upload_missing` does.

        Args:
            folder: folder of the study.
            mode: mode of the tracking; the notes about what W&B has are uploaded only if it is online.
        """
        self.upload_study(folder)
        self.upload_missing(folder, mode)

    def upload_missing(self, folder: Path, mode: str) -> None:
        """Upload the recorded evaluations of which the copy lacks a file, and the notes about which ones W&B has.

        A run that is finished here and failed in the copy, which therefore has no scores, is one of them.

        Args:
            folder: folder of the study.
            mode: mode of the tracking; the notes are uploaded only if it is online.
        """
        remote_paths = self._list_paths() - self._damaged
        local_paths = {path.relative_to(folder).as_posix() for path in folder.glob("runs/*/*") if path.is_file()}
        recorded = [evaluation for path in sorted(local_paths) if (evaluation := _parse_record_path(path))]
        new_paths = local_paths - remote_paths
        missing = [
            (run_id, split)
            for run_id, split in recorded
            if any(f"runs/{run_id}/{name}" in new_paths for name in run_record.list_record_files(split))
        ]
        with ThreadPoolExecutor(_MAX_TRANSFERS) as transfers:
            list(transfers.map(lambda evaluation: self.upload_evaluation(folder, *evaluation), missing))
        markers = {run_record.get_marker_name(split) for split in run_record.SPLITS} if mode == "online" else set()
        self._upload_files(folder, sorted(path for path in new_paths if Path(path).name in markers))

    def upload_study(self, folder: Path) -> None:
        """Upload plans, study file, statistics of the data, search log, query attributes, sweep trials and report.

        Existing files of the copy are replaced.
        """
        paths = [*folder.glob("swept/*.json"), *folder.glob("report/**/*")]
        others = (path.relative_to(folder).as_posix() for path in paths if path.is_file())
        names = (PLAN_FILE, STUDY_FILE, SUITE_FILE, STATISTICS_FILE, "search.json", QUERIES_FILE, *others)
        self._upload_files(folder, [name for name in names if (folder / name).is_file()])

    def download_study(self, folder: Path, study: str) -> list[str]:
        """Download everything that the folder lacks.

        This is the plan, if it is newer than the folder's, the query attributes and the plan of the suite, if the
        folder has none, and all records.

        Args:
            folder: folder of the study.
            study: name of the study.

        Returns:
            The ids of the downloaded runs, sorted.

        Raises:
            UserError: if the copy cannot be read, or contains another study or a different plan of the same version.
        """
        remote_plan = self._download_plan()
        if remote_plan is not None:
            if remote_plan["study"] != study:
                problem = f"results of the study {remote_plan['study']!r}"
                raise UserError("output.remote", problem, f"those of {study!r}")
            plan = read_plan(folder / PLAN_FILE) if (folder / PLAN_FILE).is_file() else None
            if plan and plan["version"] == remote_plan["version"] and hash_json(plan) != hash_json(remote_plan):
                problem = f"version {remote_plan['version']} of the plan differs from that in {folder}"
                raise UserError("output.remote", problem, "a folder or URL that only this study uses")
            if plan is None or plan["version"] < remote_plan["version"]:
                self._storage.get_file(PLAN_FILE, folder / PLAN_FILE)
        for name in (QUERIES_FILE, SUITE_FILE):
            if not (folder / name).is_file():
                with suppress(FileNotFoundError):  # the study has not written it yet, or has none
                    self._storage.get_file(name, folder / name)
        return self.download_missing(folder)

    def _download_plan(self) -> dict[str, Any] | None:
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary, PLAN_FILE)
            try:
                self._storage.get_file(PLAN_FILE, copy)
            except FileNotFoundError:
                return None
            except Exception as error:  # the file system's package may raise anything
                problem = f"cannot be read ({type(error).__name__}: {error})"
                expected = "a folder or URL that this machine can use"
                raise UserError("output.remote", problem, expected) from error
            return read_plan(copy, f"{PLAN_FILE} in output.remote")

    def _download_file(self, run_id: str, name: str, folder: Path) -> bool:
        try:
            self._storage.get_file(f"runs/{run_id}/{name}", run_record.get_run_folder(folder, run_id) / name)
        except FileNotFoundError:
            return False
        return True

    def _list_paths(self) -> set[str]:
        """Return the paths of all files of the copy; the storage is listed once."""
        if self._listed_paths is None:
            self._listed_paths = {file.path for file in self._storage.list_files()}
        return self._listed_paths

    def _upload_file(self, path: str, source: Path) -> None:
        self._storage.put_file(path, source)
        self._damaged.discard(path)
        if self._listed_paths is not None:
            self._listed_paths.add(path)

    def _upload_files(self, folder: Path, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_MAX_TRANSFERS) as transfers:
            list(transfers.map(lambda name: self._upload_file(name, folder / name), names))


class RecordUploader:
    """Uploads evaluations as they are recorded.

    A failed upload does not stop the study, because the folder has the record. It is tried again after a while, with
    the next evaluation, and at the end.

    Args:
        remote_records: the remote copy.
        folder: folder of the study.
        log: called with a line for each failure.
    """

    def __init__(self, remote_records: RemoteRecords, folder: Path, log: Callable[[str], None]) -> None:
        self._remote_records, self._folder, self._log = remote_records, folder, log
        self._pending: deque[tuple[str, Split]] = deque()
        self._retry_time = -math.inf

    def upload(self, run_id: str, split: Split) -> None:
        """Upload a recorded evaluation and those that could not be uploaded before, unless one has just failed."""
        self._pending.append((run_id, split))
        if time.monotonic() >= self._retry_time:  # each attempt may take as long as the file system waits
            self._upload_pending()

    def upload_all(self, mode: str) -> None:
        """Upload everything that the copy lacks.

        Args:
            mode: mode of the tracking; see `RemoteRecords.upload_all`.
        """
        try:
            self._remote_records.upload_all(self._folder, mode)
        except Exception as error:  # the file system's package may raise anything
            self._log_failure("records", error)

    def _upload_pending(self) -> None:
        try:
            while self._pending:
                self._remote_records.upload_evaluation(self._folder, *self._pending[0])
                self._pending.popleft()
        except Exception as error:
            self._pending.rotate(-1)  # one that is refused must not keep the others waiting
            self._retry_time = time.monotonic() + _RETRY_INTERVAL_S
            self._log_failure(f"{len(self._pending)} evaluation{'s' * (len(self._pending) != 1)}", error)

    def _log_failure(self, what: str, error: Exception) -> None:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        self._log(f"{what} not yet uploaded to output.remote ({reason}); kept in {self._folder}")


def _parse_record_path(path: str) -> tuple[str, Split] | None:
    """Return the run id and the split of the record at a path, or None if it is no record."""
    splits = {run_record.list_record_files(split)[-1]: split for split in run_record.SPLITS}
    match = re.fullmatch(r"runs/([\w-]+)/([\w.]+)", path)
    return (match[1], splits[match[2]]) if match and match[2] in splits else None
