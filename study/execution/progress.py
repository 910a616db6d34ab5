"""What a study prints while it runs."""

import time
from typing import Any

from study.records import run_record as record
from study.records.run_name import run_name
from study.scheduling.scheduler import Work
from study.scheduling.trials import Errand
from study.utils.console import say


class Progress:
    """Prints a line an ended errand, with an estimate of the time left."""

    def __init__(self, campaign: Work, metric: str) -> None:
        self._metric, self._done, self._told = metric, 0, 0
        runs = [run for configuration in campaign.configurations for run in configuration.runs]
        before = sum(campaign.ledger.finished(run.id, split) for run in runs for split in record.SPLITS)
        self._total, self._before = campaign.runs_planned, before
        self.begin()

    def begin(self) -> None:
        """Starts the clock of the estimate."""
        self._started = time.monotonic()

    def parts(self, done: int, total: int) -> None:
        """So many parts of the frozen layers' outputs are there; the runs begin after the last."""
        self.begin()
        if done >= self._told + total / 5 or done == total > self._told:
            self._told = done
            say(f"frozen layers: {done} of {total} parts of the texts")

    def errand(self, errand: Errand, entry: dict[str, Any] | None) -> None:
        """An errand ended."""
        self._done += 1
        count, name = self._before + self._done, run_name(errand.labels)
        elapsed = time.monotonic() - self._started
        left = elapsed / self._done * max(0, self._total - count) / 60
        say(f"{count:3}/{self._total}  {name:40} {self._result(errand, entry)}  about {left:.0f} min left")
        for line in (entry or {}).get("damaged", []):
            say(f"{'':9}{line}")

    def _result(self, errand: Errand, entry: dict[str, Any] | None) -> str:
        if entry is None or entry["state"] != "finished":
            return f"FAILED: {entry['summary']['error'] if entry else 'no record'}"
        key = f"{errand.split}/{self._metric}"
        summary = entry["summary"]
        seconds = summary.get("seconds", summary.get("test/seconds", 0.0))
        reused = summary.get("instances_reused", 0)
        shared = f", {reused} instances shared" if reused else ""
        return f"{key} {summary[key]:.4f}  {seconds:.0f} s{shared}"
