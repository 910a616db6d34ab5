"""Lines of progress that a study prints while it runs."""

import time
from typing import Any

from study.records.run_name import format_run_name
from study.records.run_record import SPLITS
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from study.utils.console import print_line


class ProgressReporter:
    """Prints a line for each ended trial, with an estimate of the remaining time.

    Args:
        scheduler: the trials of the study.
        metric: name of the metric that is shown.
    """

    def __init__(self, scheduler: BaseScheduler, metric: str) -> None:
        self._metric, self._n_ended, self._parts_reported = metric, 0, 0
        runs = [run for configuration in scheduler.configurations for run in configuration.runs]
        n_finished = sum(scheduler.store.is_finished(run.id, split) for run in runs for split in SPLITS)
        self._total, self._n_finished_before = scheduler.n_trials, n_finished
        self.restart_clock()

    def restart_clock(self) -> None:
        """Restart the clock of the time estimate."""
        self._start_time = time.monotonic()

    def report_precompute(self, done: int, total: int) -> None:
        """Report how many parts of the frozen layers' outputs exist. Runs start after the last part."""
        self.restart_clock()
        if done >= self._parts_reported + total / 5 or done == total > self._parts_reported:
            self._parts_reported = done
            print_line(f"frozen layers: {done} of {total} parts of the texts done")

    def report_trial(self, request: TrialRequest, entry: dict[str, Any]) -> None:
        """Report an ended trial.

        Args:
            request: the trial.
            entry: its run record.
        """
        self._n_ended += 1
        count, name = self._n_finished_before + self._n_ended, format_run_name(request.labels)
        elapsed = time.monotonic() - self._start_time
        left = elapsed / self._n_ended * max(0, self._total - count) / 60
        print_line(
            f"{count:3}/{self._total}  {name:40} {self._format_result(request, entry)}  about {left:.0f} min left"
        )
        for line in entry.get("damaged", []):
            print_line(f"{'':9}{line}")

    def _format_result(self, request: TrialRequest, entry: dict[str, Any]) -> str:
        if entry["state"] != "finished":
            return f"FAILED: {entry['summary']['error']}"
        key = f"{request.split}/{self._metric}"
        summary = entry["summary"]
        seconds = summary.get("seconds", summary.get("test/seconds", 0.0))
        reused = summary.get("instances_reused", 0)
        shared = f", {reused} instances shared" if reused else ""
        return f"{key} {summary[key]:.4f}  {seconds:.0f} s{shared}"
