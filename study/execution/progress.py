"""Progress of running studies: a line of the log for each ended trial, and what the live view shows."""

import time
from collections.abc import Sequence
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
        schedulers: the trials of each study. If there are several, trials are shown with the names of their studies.
        view: the live view.
    """

    def __init__(self, schedulers: Sequence[BaseScheduler], view: LiveView) -> None:
        self._n_ended, self._parts_reported, self._has_several = 0, 0, len(schedulers) > 1
        self._best_scores = {each.study.name: _BestScores(each) for each in schedulers}
        self._view, self._total = view, sum(each.n_trials for each in schedulers)
        self._n_finished_before = sum(map(_count_finished, schedulers))
        self.restart_clock()
        for name in reversed(self._best_scores):  # the view shows those of the last one
            self._show(name, "")

    def restart_clock(self) -> None:
        """Restart the clock of the time estimate: earlier trials no longer count in it."""
        self._start_time, self._n_ended_before = time.monotonic(), self._n_ended

    def report_precompute(self, done: int, total: int) -> None:
        """Report how many parts of the frozen layers' outputs exist. Runs start after the last part."""
        self.restart_clock()
        self._view.set_progress("frozen layers", done, total)
        if done >= self._parts_reported + total / 5 or done == total > self._parts_reported:
            self._parts_reported = done
            print_line(f"frozen layers: {done} of {total} parts of the texts done")

    def report_start(self, request: TrialRequest) -> None:
        """Report a trial that starts."""
        self._view.start(self._format_trial(request))

    def report_stretch(self, request: TrialRequest, instances: int) -> None:
        """Report how many instances a trial that trains has seen."""
        if training := request.trial.specification.training:
            self._view.set_share(self._format_trial(request), instances / training.instances)

    def report_trial(self, request: TrialRequest, entry: dict[str, Any]) -> None:
        """Report an ended trial.

        Args:
            request: the trial.
            entry: its run record.
        """
        self._n_ended += 1
        count, name = self._n_finished_before + self._n_ended, self._format_name(request)
        best_scores = self._best_scores[request.labels["study"]]
        elapsed = time.monotonic() - self._start_time
        seconds_left = elapsed / (self._n_ended - self._n_ended_before) * max(0, self._total - count)
        time_left = f"about {seconds_left / 60:.0f} min left"
        print_line(
            f"{count:3}/{self._total}  {name:40} {_format_result(request, entry, best_scores.metric)}  {time_left}"
        )
        for line in entry.get("damaged", []):
            print_line(f"{'':9}{line}")
        self._view.end(self._format_trial(request))
        best_scores.add(request, entry)
        self._show(request.labels["study"], time_left)

    def _show(self, study: str, note: str) -> None:
        self._view.set_progress("trials", self._n_finished_before + self._n_ended, self._total, note)
        scores = self._best_scores[study]
        title = f"best dev {scores.metric}" + (f" of {study}" if self._has_several else "")
        for system, score in scores.by_system.items():
            self._view.set_score(title, system, f"{score:.4f}")

    def _format_trial(self, request: TrialRequest) -> str:
        return self._format_name(request) + (", test" if request.split == "test" else "")

    def _format_name(self, request: TrialRequest) -> str:
        name = format_run_name(request.labels)
        return f"{request.labels['study']}: {name}" if self._has_several else name


class _BestScores:
    """The best development score of each system so far: the mean of a configuration over all seeds of the search.

    Args:
        scheduler: the trials of the study.

    Attributes:
        metric: name of the metric.
        by_system: score of the best configuration by name of the system, of those that have one.
    """

    def __init__(self, scheduler: BaseScheduler) -> None:
        self.metric, self.by_system = scheduler.study.analysis.metric, dict[str, float]()
        self._key, self._seeds = f"dev/{self.metric}", {*scheduler.study.seeds}
        self._choose = min if self.metric in LOWER_IS_BETTER else max
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


def _count_finished(scheduler: BaseScheduler) -> int:
    runs = [run for configuration in scheduler.configurations for run in configuration.runs]
    return sum(scheduler.store.is_finished(run.id, split) for run in runs for split in SPLITS)


def _format_result(request: TrialRequest, entry: dict[str, Any], metric: str) -> str:
    if entry["state"] != "finished":
        return f"FAILED: {entry['summary']['error']}"
    key = f"{request.split}/{metric}"
    summary = entry["summary"]
    seconds = summary.get("seconds", summary.get("test/seconds", 0.0))
    reused = summary.get("instances_reused", 0)
    shared = f", {reused} instances shared" if reused else ""
    return f"{key} {summary[key]:.4f}  {seconds:.0f} s{shared}"
