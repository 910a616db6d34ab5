"""Budgets of time: how long a study has run, over all its starts, and whether that is enough."""

import json
import time
from pathlib import Path

from study.ledger import Ledger
from study.settings import Study
from trainables.errors import UserError
from trainables.files import write_json


class Clock:
    """Seconds that a study has run, over all its starts; a kill loses what came after the last `keep`.

    Args:
        folder: the study's folder.
        began: `time.monotonic()` when this start began.
    """

    def __init__(self, folder: Path, began: float) -> None:
        self._path, self._began = folder / "clock.json", began
        self._before = 0.0
        if self._path.is_file():
            try:
                self._before = float(json.loads(self._path.read_text(encoding="utf-8"))["seconds"])
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    str(self._path), "not the clock of a study", "the file as the study wrote it"
                ) from error

    @property
    def seconds(self) -> float:
        """Until now."""
        return self._before + time.monotonic() - self._began

    def keep(self) -> None:
        """Writes it down."""
        write_json(self._path, {"seconds": round(self.seconds, 3)})


def spent(study: Study, clock: Clock, ledger: Ledger) -> str | None:
    """The budget that is spent, by its key; None while there is some left."""
    search = study.search
    if search.hours is not None and clock.seconds >= 3600 * search.hours:
        return "search.hours"
    if search.gpu_hours is not None and ledger.gpu_seconds * study.resources.gpu >= 3600 * search.gpu_hours:
        return "search.gpu_hours"
    return None
