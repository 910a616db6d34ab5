"""Budgets of time: how long a study has run, over all its starts, and whether that is enough."""

import time
from collections.abc import Callable
from pathlib import Path

from study.config.schema import Study
from study.records.run_store import Ledger
from trainables.utils.files import read_json, write_json


class Clock:
    """Seconds that a study has run, over all its starts; a kill loses what came after the last `keep`.

    Args:
        folder: the study's folder.
        began: `time.monotonic()` when this start began.
        say: told where the file is damaged.
    """

    def __init__(self, folder: Path, began: float, say: Callable[[str], None]) -> None:
        self._path, self._began = folder / "clock.json", began
        self._before = 0.0
        if self._path.is_file():
            try:
                self._before = float(read_json(self._path)["seconds"])
            except (ValueError, KeyError, TypeError):
                say(f"{self._path} is damaged: budgets of time count from now on")

    @property
    def seconds(self) -> float:
        """Until now."""
        return self._before + time.monotonic() - self._began

    def keep(self) -> None:
        """Writes it down."""
        write_json(self._path, {"seconds": round(self.seconds, 3)}, sealed=True)


def spent(study: Study, clock: Clock, ledger: Ledger) -> str | None:
    """The budget that is spent, by its key; None while there is some left."""
    search = study.search
    if search.hours is not None and clock.seconds >= 3600 * search.hours:
        return "search.hours"
    if search.gpu_hours is not None and ledger.gpu_seconds * study.resources.gpu >= 3600 * search.gpu_hours:
        return "search.gpu_hours"
    return None
