"""If the report of a study cannot be written, the other studies of a suite go on, and the error is reported."""

from types import SimpleNamespace
from typing import Any

import pytest

from study.execution.trial_runner import StudyTrials
from study.suites import run_suite
from study.utils.live_view import LiveView


class Session:
    """A study with trials that have ended, or end when they are run."""

    def __init__(self, name: str, log: list[str], error: Exception | None = None, *, is_finished: bool = False) -> None:
        self.name, self._log, self._error = name, log, error
        self.opened = SimpleNamespace(study=SimpleNamespace(name=name), cluster=None)
        self.scheduler = SimpleNamespace(is_finished=is_finished or error is not None)
        self.wandb_logger = SimpleNamespace(pending={}, close=lambda: log.append(f"{name} closed"))
        self.trials = StudyTrials(self.scheduler, self.wandb_logger)

    def publish_results(self, view: LiveView, is_brief: bool) -> None:
        self._log.append(f"{self.name} published")
        if self._error:
            raise self._error

    def finish(self, view: LiveView) -> None:
        self._log.append(f"{self.name} finished")


def test_a_report_that_fails_does_not_keep_the_other_studies(tmp_path, monkeypatch):
    log = list[str]()
    first, second = Session("first", log, ValueError("damaged")), Session("second", log)

    def run_trials(trials: list[Any], cluster: str | None, view: LiveView) -> None:
        (only,) = trials
        only.scheduler.is_finished = True
        only.on_trial_end()

    monkeypatch.setattr(run_suite, "run_trials", run_trials)
    with pytest.raises(ValueError, match="damaged"):
        run_suite._run_sessions([first, second], LiveView())
    assert log == ["first published", "second published", "first closed", "first finished", "second finished"]


def test_studies_that_have_all_ended_are_published_again():
    log = list[str]()
    run_suite._run_sessions([Session(name, log, is_finished=True) for name in ("first", "second")], LiveView())
    assert log == ["first published", "second published", "first closed", "first finished", "second finished"]
