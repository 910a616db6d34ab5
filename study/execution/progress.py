"""Progress of a running study: a line of the log for each ended trial, and what the live view shows."""

import time
from typing import Any

from study.records.run_name import format_run_name
from study.records.run_record import SPLITS
from study.scheduling.scheduler import BaseScheduler
from study.scheduling.trials import TrialRequest
from study.utils.console import print_line
from study.utils.live_view import LiveView
from trainables.metrics import LOWER_IS_BETTER


class ProgressReporter:
    """Prints a line for each ended trial and keeps the live view up to date.

    Args:
        scheduler: the trials of the study.
        view: the live view.
    """

    def __init__(self, scheduler: BaseScheduler, view: LiveView) -> None:
        self._metric, self._n_ended, self._parts_reported = scheduler.study.analysis.metric, 0, 0
        self._best_scores, self._view = _BestScores(scheduler, self._metric), view
        runs = [run for configuration in scheduler.configurations for run in configuration.runs]
        n_finished = sum(scheduler.store.is_finished(run.id, split) for run in runs for split in SPLITS)
        self._total, self._n_finished_before = scheduler.n_trials, n_finished
        self.restart_clock()
        self._show("")

    def restart_clock(self) -> None:
        """Restart the clock of the time estimate."""
        self._start_time = time.monotonic()

    def report_precompute(self, done: int, total: int) -> None:
        """Report how many parts of the frozen layers' outputs exist. Runs start after the last part."""
        self.restart_clock()
        self._view.set_progress("frozen layers", done, total)
        if done >= self._parts_reported + total / 5 or done == total > self._parts_reported:
            self._parts_reported = done
            print_line(f"frozen layers: {done} of {total} parts of the texts done")

    def report_start(self, request: TrialRequest) -> None:
        """Report a trial that starts."""
        self._view.start(_format_trial(request))

    def report_trial(self, request: TrialRequest, entry: dict[str, Any]) -> None:
        """Report an ended trial.

        Args:
            request: the trial.
            entry: its run record.
        """
        self._n_ended += 1
        count, name = self._n_finished_before + self._n_ended, format_run_name(request.labels)
        elapsed = time.monotonic() - self._start_time
        time_left = f"about {elapsed / self._n_ended * max(0, self._total - count) / 60:.0f} min left"
        print_line(f"{count:3}/{self._total}  {name:40} {self._format_result(request, entry)}  {time_left}")
        for line in entry.get("damaged", []):
            print_line(f"{'':9}{line}")
        self._view.end(_format_trial(request))
        self._best_scores.add(request, entry)
        self._show(time_left)

    def _show(self, note: str) -> None:
        self._view.set_progress("trials", self._n_finished_before + self._n_ended, self._total, note)
        for system, score in self._best_scores.by_system.items():
            self._view.set_score(f"best dev {self._metric}", system, f"{score:.4f}")

    def _format_result(self, request: TrialRequest, entry: dict[str, Any]) -> str:
        if entry["state"] != "finished":
            return f"FAILED: {entry['summary']['error']}"
        key = f"{request.split}/{self._metric}"
        summary = entry["summary"]
        seconds = summary.get("seconds", summary.get("test/seconds", 0.0))
        reused = summary.get("instances_reused", 0)
        shared = f", {reused} instances shared" if reused else ""
        return f"{key} {summary[key]:.4f}  {seconds:.0f} s{shared}"


class _BestScores:
    """The best development score of each system so far: the mean of a configuration over all seeds of the search.

    Args:
        scheduler: the trials of the study.
        metric: name of the metric.

    Attributes:
        by_system: score of the best configuration by name of the system, of those that have one.
    """

    def __init__(self, scheduler: BaseScheduler, metric: str) -> None:
        self.by_system: dict[str, float] = {}
        self._key, self._seeds = f"dev/{metric}", {*scheduler.study.seeds}
        self._choose = min if metric in LOWER_IS_BETTER else max
        self._by_seed: dict[str, dict[int, float]] = {}
        for configuration in scheduler.configurations:
            for run in configuration.runs:
                if run.seed is not None and scheduler.store.is_finished(run.id, "dev"):
                    summary = scheduler.store.get_summary(run.id, "dev") or {}
                    self._add(configuration.name, configuration.id, run.seed, summary)

    def add(self, request: TrialRequest, entry: dict[str, Any]) -> None:
        """Take the result of an ended trial into account."""
        run = request.trial.specification
        if request.split == "dev" and entry["state"] == "finished" and run.seed is not None:
            self._add(request.labels["variant"], run.configuration_id, run.seed, entry["summary"])

    def _add(self, system: str, configuration: str, seed: int, summary: dict[str, Any]) -> None:
        if seed not in self._seeds or self._key not in summary:
            return
        scores = self._by_seed.setdefault(configuration, {})
        scores[seed] = summary[self._key]
        if len(scores) == len(self._seeds):
            mean = sum(scores.values()) / len(scores)
            self.by_system[system] = self._choose(mean, self.by_system.get(system, mean))


def _format_trial(request: TrialRequest) -> str:
    name = format_run_name(request.labels)
    return name if request.split == "dev" else f"{name}, test"
