"""Budgets of time: how long a study has run, over all its starts, and whether that is enough."""

import time
from collections.abc import Callable
from pathlib import Path

from study.config.schema import Study
from study.records.run_store import RunStore
from trainables.utils.files import read_json, write_json


class ElapsedTime:
    """Seconds that a study has run, over all its starts; a kill loses what came after the last `keep`.

    Args:
        folder: the study's folder.
        began: `time.monotonic()` when this start began.
        say: told where the file is damaged.
    """

    def __init__(self, folder: Path, start_time: float, log: Callable[[str], None]) -> None:
        self._path, self._start_time = folder / "clock.json", start_time
        self._earlier_seconds = 0.0
        if self._path.is_file():
            try:
                self._earlier_seconds = float(read_json(self._path)["seconds"])
            except (ValueError, KeyError, TypeError):
                log(f"{self._path} is damaged: budgets of time count from now on")

    @property
    def seconds(self) -> float:
        """Until now."""
        return self._earlier_seconds + time.monotonic() - self._start_time

    def save(self) -> None:
        """Writes it down."""
        write_json(self._path, {"seconds": round(self.seconds, 3)}, with_checksum=True)


def find_exhausted_budget(study: Study, elapsed: ElapsedTime, store: RunStore) -> str | None:
    """The budget that is spent, by its key; None while there is some left."""
    search = study.search
    if search.hours is not None and elapsed.seconds >= 3600 * search.hours:
        return "search.hours"
    if search.gpu_hours is not None and store.gpu_seconds * study.resources.gpu >= 3600 * search.gpu_hours:
        return "search.gpu_hours"
    return None
