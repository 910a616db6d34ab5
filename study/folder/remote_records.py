"""Remote copy of a study's results, from which a driver on another machine continues.

The driver uploads each evaluation when it has recorded it, and downloads what its folder lacks when it starts. The
remote copy has the layout of the folder. It does not contain the files of W&B, because they can be created from the
records. It does contain the notes about which runs the W&B server has.
"""

import math
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TypeVar

from records import run_record
from records.data_statistics import STATISTICS_FILE
from records.plan_file import PLAN_FILE, STUDY_FILE, SUITE_FILE, StoredPlan, read_plan
from records.queries import QUERIES_FILE
from records.run_record import Split
from records.search_log import SEARCH_LOG_FILE
from trainables.storage import open_storage
from trainables.utils.errors import UserError
from trainables.utils.files import is_temporary, write_atomically

Item = TypeVar("Item")
Answer = TypeVar("Answer")
_RETRY_INTERVAL_S = 60.0
"""Seconds after a failed upload in which no other is tried."""
_MAX_TRANSFERS = 16
"""Maximum number of concurrent transfers; for small files, latency takes most of the time."""


class RemoteRecords:
    """Remote copy of the runs, the plan and the report of one study.

    If another process removes files from the copy, the next start of the study uploads them again.

    Args:
        url: folder or URL of the copy.
        folder: folder of the study.
        log: called with a line for each failed upload.
    """

    def __init__(self, url: str, folder: Path, log: Callable[[str], None]) -> None:
        self._storage, self._folder, self._log = open_storage(url), folder, log
        self._pending: deque[tuple[str, Split]] = deque()
        self._retry_time = -math.inf

    @cached_property
    def _paths(self) -> set[str]:
        """Paths of the copy's files, with own uploads. An object store takes a request to list every 1,000 files."""
        return {file.path for file in self._storage.list_files()}

    def download(self, study: str) -> list[str]:
        """Download everything that the folder lacks.

        This is the plan, if it is newer than the folder's, the query attributes and the plan of the suite, if the
        folder has none, and all evaluations that are not finished in the folder. A damaged record counts as none.

        Returns:
            The ids of the downloaded runs, sorted.

        Raises:
            UserError: if the copy cannot be read, or contains another study or a different plan of the same version;
                or if a record in the folder is damaged.
        """
        self._download_plan(study)
        missing = [
            evaluation
            for path in sorted(self._paths)
            if (evaluation := _parse_record_path(path)) and not run_record.is_run_finished(self._folder, *evaluation)
        ]
        done = [*compress(missing, _transfer(lambda evaluation: self._download_evaluation(*evaluation), missing))]
        swept = {path for path in self._paths if re.fullmatch(r"swept/\w+\.json", path)}
        others = {path for path in swept | {QUERIES_FILE, SUITE_FILE} if not (self._folder / path).is_file()}
        others |= {f"runs/{run_id}/{run_record.get_marker_name(split)}" for run_id, split in done}
        _transfer(self._download_file, others & self._paths)
        return sorted({run_id for run_id, _ in done})

    def upload_evaluation(self, run_id: str, split: Split) -> None:
        """Upload a recorded evaluation and those that could not be uploaded before, unless one has just failed.

        A failed upload does not stop the study, because the folder has the record. It is tried again after a while,
        with the next evaluation, and at the end.
        """
        self._pending.append((run_id, split))
        if time.monotonic() < self._retry_time:  # each attempt may take as long as the file system waits
            return
        try:
            while self._pending:
                self._upload_evaluation(*self._pending[0])
                self._pending.popleft()
        except Exception as error:  # the file system's package may raise anything
            self._pending.rotate(-1)  # a rejected one must not keep the others waiting
            self._retry_time = time.monotonic() + _RETRY_INTERVAL_S
            self._log_failure(f"{len(self._pending)} evaluation{'s' * (len(self._pending) != 1)}", error)

    def upload_study(self) -> None:
        """Upload plans, study file, statistics of the data, search log, query attributes, sweep trials and report.

        Existing files of the copy are replaced.
        """
        names = (PLAN_FILE, STUDY_FILE, SUITE_FILE, STATISTICS_FILE, SEARCH_LOG_FILE, QUERIES_FILE)
        _transfer(self._upload_file, self._list_local(*names, "swept/*.json", "report/**/*"))

    def upload_all(self, mode: str) -> None:
        """Upload what `upload_study` does, the evaluations that lack a file in the copy, and what W&B has.

        A run that is finished here and failed in the copy, which therefore has no scores, is one of them.

        Args:
            mode: mode of the tracking; the notes about what W&B has are uploaded only if it is online.
        """
        self.upload_study()
        paths = self._list_local("runs/*/*")
        new = {*paths} - self._paths
        recorded = filter(None, map(_parse_record_path, paths))
        missing = [evaluation for evaluation in recorded if new.intersection(_list_paths(*evaluation))]
        _transfer(lambda evaluation: self._upload_evaluation(*evaluation), missing)
        markers = {run_record.get_marker_name(split) for split in run_record.SPLITS} if mode == "online" else set()
        _transfer(self._upload_file, [path for path in paths if path in new and Path(path).name in markers])

    def upload_rest(self, mode: str) -> None:
        """Do what `upload_all` does, and log a failure, since the study's folder has everything."""
        try:
            self.upload_all(mode)
        except Exception as error:  # the file system's package may raise anything
            self._log_failure("records", error)

    def _list_local(self, *patterns: str) -> list[str]:
        """Return the paths of the files in the folder that match, by pattern, without what a driver is writing."""
        paths = (path for pattern in patterns for path in sorted(self._folder.glob(pattern)) if path.is_file())
        whole = (path for path in paths if not is_temporary(path) and not is_temporary(path.parent))
        return [path.relative_to(self._folder).as_posix() for path in whole]

    def _upload_evaluation(self, run_id: str, split: Split) -> None:
        """Upload the files of an evaluation. The record is last, because it implies that the other files exist."""
        for path in _list_paths(run_id, split):
            if (self._folder / path).is_file():
                self._upload_file(path)

    def _upload_file(self, path: str) -> None:
        self._storage.put_file(path, self._folder / path)
        self._paths.add(path)

    def _download_evaluation(self, run_id: str, split: Split) -> bool:
        """Download an evaluation into the folder, and return whether there is a whole one.

        The record is read first, because its other files were uploaded before it, and written last.
        """
        scores, *others, record = _list_paths(run_id, split)
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary, record)
            try:
                self._storage.get_file(record, copy)
                entry = run_record.read_run_record(Path(temporary), run_id, split)
            except FileNotFoundError:
                return False
            except UserError:  # the evaluation will be repeated and uploaded again
                self._paths.discard(record)
                return False
            missing = {other for other in (scores, *others) if not self._download_file(other)}
            if entry and entry["state"] == "finished" and scores in missing:
                return False  # somebody removed the scores; the evaluation will be repeated
            with write_atomically(self._folder / record) as target:
                shutil.copyfile(copy, target)
        return True

    def _download_file(self, path: str) -> bool:
        """Download a file and return whether there is one."""
        try:
            self._storage.get_file(path, self._folder / path)
        except FileNotFoundError:
            return False
        return True

    def _download_plan(self, study: str) -> None:
        """Download the plan if the folder has none or an earlier version."""
        remote, path = self._read_plan(), self._folder / PLAN_FILE
        if remote is None:
            return
        name, version = remote.document["study"], remote.document["version"]
        if name != study:
            expected = f"those of {study!r}, or a folder or URL that only this study uses"
            raise UserError("output.remote", f"results of the study {name!r}", expected)
        own = read_plan(path) if path.is_file() else None
        if own and own.document["version"] == version and own.hash != remote.hash:
            problem = f"version {version} of the plan differs from that in {self._folder}"
            raise UserError("output.remote", problem, "a folder or URL that only this study uses")
        if own is None or own.document["version"] < version:
            self._storage.get_file(PLAN_FILE, path)

    def _read_plan(self) -> StoredPlan | None:
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(temporary, PLAN_FILE)
            try:
                self._storage.get_file(PLAN_FILE, copy)
            except FileNotFoundError:
                return None
            except Exception as error:  # the file system's package may raise anything
                problem = f"cannot be read ({type(error).__name__}: {error})"
                raise UserError("output.remote", problem, "a folder or URL that this machine can use") from error
            return read_plan(copy, f"{PLAN_FILE} in output.remote")

    def _log_failure(self, what: str, error: Exception) -> None:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        self._log(f"{what} not yet uploaded to output.remote ({reason}); kept in {self._folder}")


def _transfer(function: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """Call a function with each item, several at once, and return the answers in order."""
    with ThreadPoolExecutor(_MAX_TRANSFERS) as transfers:
        return list(transfers.map(function, items))


def _list_paths(run_id: str, split: Split) -> list[str]:
    """Return the paths of the files of an evaluation, the scores first and the record last."""
    return [f"runs/{run_id}/{name}" for name in run_record.list_record_files(split)]


def _parse_record_path(path: str) -> tuple[str, Split] | None:
    """Return the run id and the split of the record at a path, or None if it is no record."""
    splits = {run_record.list_record_files(split)[-1]: split for split in run_record.SPLITS}
    match = re.fullmatch(r"runs/([\w-]+)/([\w.]+)", path)
    return (match[1], splits[match[2]]) if match and match[2] in splits else None
