"""Time budgets: measures how long a study has run over all its starts, and finds exhausted budgets."""

import time
from collections.abc import Callable
from pathlib import Path

from records.plan_file import CLOCK_FILE
from study.config.schema import Study
from study.folder.run_store import RunStore
from trainables.utils.files import read_json, write_json


class ElapsedTime:
    """Seconds that a study has run over all its starts; a kill loses the time after the last `save`.

    Args:
        folder: folder of the study.
        start_time: `time.monotonic()` at the beginning of this start.
        log: function that prints a line; called if the stored time is damaged.
    """

    def __init__(self, folder: Path, start_time: float, log: Callable[[str], None]) -> None:
        self._path, self._start_time = folder / CLOCK_FILE, start_time
        self._earlier_seconds = 0.0
        if self._path.is_file():
            try:
                self._earlier_seconds = float(read_json(self._path)["seconds"])
            except (ValueError, KeyError, TypeError):
                log(f"{self._path} is damaged; the time of earlier starts is not counted")

    @property
    def seconds(self) -> float:
        """Seconds of all starts, until now."""
        return self._earlier_seconds + time.monotonic() - self._start_time

    def save(self) -> None:
        """Write the seconds to clock.json."""
        write_json(self._path, {"seconds": round(self.seconds, 3)}, with_checksum=True)


def find_exhausted_budget(study: Study, elapsed: ElapsedTime, store: RunStore) -> str | None:
    """Return the key of an exhausted budget of the study, or None if there is none."""
    search = study.search
    if search.hours is not None and elapsed.seconds >= 3600 * search.hours:
        return "search.hours"
    if search.gpu_hours is not None and store.gpu_seconds * study.resources.gpu >= 3600 * search.gpu_hours:
        return "search.gpu_hours"
    return None
