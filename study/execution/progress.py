"""Progress of running studies: a line of the log for each ended trial, and what the live view shows."""

import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from records.run_record import SPLITS, Split
from study.folder.run_name import format_run_name
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
        self._parts_reported, self._has_several = 0, len(schedulers) > 1
        self._best_scores = {each.study.name: _BestScores(each) for each in schedulers}
        self._view, self._remaining = view, _Remaining(schedulers)
        self._concurrent = 0
        self._restart_clock()
        for name in reversed(self._best_scores):  # the view shows those of the last one
            self._show(name)

    def start_clock(self, concurrent: int) -> None:
        """Start the clock of the time left, which is the recorded one of so many trials at once until a trial ends."""
        self._concurrent = concurrent
        self._restart_clock()

    def _restart_clock(self) -> None:
        """Restart the clock: the trials that have ended until now say no longer how many run at once."""
        self._start_time, self._seconds_done = time.monotonic(), 0.0

    @property
    def n_remaining(self) -> int:
        """Number of trials that have not ended."""
        return self._remaining.n_trials - self._remaining.n_done

    def report_precompute(self, done: int, total: int) -> None:
        """Report how many parts of the frozen layers' outputs exist. Runs start after the last part."""
        self._restart_clock()
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
        """Report an ended trial."""
        name, best_scores = self._format_name(request), self._best_scores[request.labels["study"]]
        self._seconds_done += self._remaining.add(request, entry)
        count = self._remaining.n_done
        print_line(
            f"{count:3}/{self._remaining.n_trials}  {name:40} "
            f"{_format_result(request, entry, best_scores.metric)}  {self.describe_time_left()}".rstrip()
        )
        for line in entry.get("damaged", []):
            print_line(f"{'':9}{line}")
        self._view.end(self._format_trial(request))
        best_scores.add(request, entry)
        self._show(request.labels["study"])

    def describe_time_left(self) -> str:
        """Return the time left in words, empty if no trial has ended, in this start or before."""
        seconds = self._remaining.sum_seconds()
        if not seconds and self._remaining.n_done < self._remaining.n_trials:
            return ""
        elapsed = time.monotonic() - self._start_time
        at_once = self._seconds_done / elapsed if self._seconds_done and elapsed else self._concurrent
        return f"about {seconds / at_once / 60:.0f} min left" if at_once else ""

    def _show(self, study: str) -> None:
        self._view.set_progress("trials", self._remaining.n_done, self._remaining.n_trials, self.describe_time_left())
        scores = self._best_scores[study]
        title = f"best dev {scores.metric}" + (f" of {study}" if self._has_several else "")
        for system, score in scores.by_system.items():
            self._view.set_score(title, system, f"{score:.4f}")

    def _format_trial(self, request: TrialRequest) -> str:
        return self._format_name(request) + (", test" if request.split == "test" else "")

    def _format_name(self, request: TrialRequest) -> str:
        name = format_run_name(request.labels)
        return f"{request.labels['study']}: {name}" if self._has_several else name


class _Remaining:
    """The trials of all studies that have not ended, and the seconds that they take.

    A trial takes as long as those of the same study and split that have ended, in this start or before. If none has,
    it takes as long as those of the split in the other studies of a suite, or as any.
    """

    def __init__(self, schedulers: Sequence[BaseScheduler]) -> None:
        self._schedulers = schedulers
        self._done = dict.fromkeys(((each.study.name, split) for each in schedulers for split in SPLITS), 0)
        self._seconds = defaultdict[tuple[str, Split], list[float]](list)
        for each in schedulers:
            runs = {run.id: run for item in each.configurations for run in item.runs}.values()
            for run, split in (
                (run, split) for run in runs for split in SPLITS if each.store.is_finished(run.id, split)
            ):
                self._add(each.study.name, split, run.training is not None, each.store.get_summary(run.id, split) or {})

    @property
    def n_trials(self) -> int:
        """Number of trials, finished ones included."""
        return sum(each.n_trials for each in self._schedulers)

    @property
    def n_done(self) -> int:
        """Number of trials that have ended."""
        return sum(self._done.values())

    def add(self, request: TrialRequest, entry: dict[str, Any]) -> float:
        """Take an ended trial into account, and return its seconds; 0 if it failed or trained nothing."""
        is_trained = request.trial.specification.training is not None
        return self._add(request.labels["study"], request.split, is_trained, entry["summary"])

    def _add(self, study: str, split: Split, is_trained: bool, summary: dict[str, Any]) -> float:
        self._done[study, split] += 1
        seconds = _get_seconds(summary) if is_trained else 0.0  # another ranking takes no time
        if seconds:
            self._seconds[study, split].append(seconds)
        return seconds

    def get_seconds(self, study: str, split: Split) -> float:
        """Return the mean seconds of a trial; 0 if none is known."""
        known = self._seconds[study, split] or [
            it for key, own in self._seconds.items() for it in own if key[1] == split
        ]
        return fmean(known or [seconds for own in self._seconds.values() for seconds in own] or [0.0])

    def sum_seconds(self) -> float:
        """Return the seconds that the remaining trials take together."""
        total = 0.0
        for each in self._schedulers:
            for split, n_trials in each.count_trials().items():
                n_left = max(0, n_trials - self._done[each.study.name, split])
                total += n_left * self.get_seconds(each.study.name, split)
        return total


class _BestScores:
    """The best development score of each system so far: the mean of a configuration over all seeds of the search.

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


def _get_seconds(summary: dict[str, Any]) -> float:
    return float(summary.get("seconds", summary.get("test/seconds", 0.0)))


def _format_result(request: TrialRequest, entry: dict[str, Any], metric: str) -> str:
    if entry["state"] != "finished":
        return f"FAILED: {entry['summary']['error']}"
    key = f"{request.split}/{metric}"
    summary = entry["summary"]
    reused = summary.get("instances_reused", 0)
    shared = f", {reused} instances shared" if reused else ""
    return f"{key} {summary[key]:.4f}  {_get_seconds(summary):.0f} s{shared}"
