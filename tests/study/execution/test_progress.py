"""Progress of a study: lines of the log, and the best scores so far."""

from pathlib import Path
from typing import Any

import pytest

from records.run_record import SPLITS
from study.execution.progress import ProgressReporter
from study.scheduling.trials import TrialRequest
from study.utils.live_view import LiveView
from tests.study.driving import STUDY, by_hand, drive, ended, quality, scheduler

METRIC = STUDY.analysis.metric


class Screen(LiveView):
    """A live view that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.running, self.scores, self.bars = list[str](), dict[str, str](), list[tuple[str, int, int | None]]()

    def start(self, name: str) -> None:
        self.running.append(name)

    def end(self, name: str) -> None:
        self.running.remove(name)

    def set_score(self, title: str, name: str, score: str) -> None:
        assert title == f"best dev {METRIC}"
        self.scores[name] = score

    def set_progress(self, name: str, done: int, total: int | None, note: str = "") -> None:
        self.bars.append((name, done, total))


def reported(folder: Path, stop_after: int | None = None) -> tuple[ProgressReporter, Screen]:
    """A study with its progress reported from its start to its end, or until it was stopped."""
    screen, made = Screen(), scheduler(folder)
    progress, seen = ProgressReporter([made], screen), set[tuple[str, str]]()
    before = list[TrialRequest]()

    def watch(running: list[TrialRequest]) -> None:
        nonlocal before
        for request in [request for request in before if request not in running]:
            progress.report_trial(request, ended(request, quality))
        for request in running:
            if (key := (request.trial.specification.id, request.split)) not in seen:
                seen.add(key)
                progress.report_start(request)
        before = list(running)

    drive(made, watch=watch, stop_after=stop_after)
    return progress, screen


def timed(request: TrialRequest, seconds: float) -> dict[str, Any]:
    """The record of a trial that took so long."""
    entry, name = ended(request, quality), "seconds" if request.split == "dev" else "test/seconds"
    return entry | {"summary": entry["summary"] | {name: seconds}}


def test_best_scores_are_those_of_the_best_complete_configurations(tmp_path):
    _, screen = reported(tmp_path)
    made = scheduler(tmp_path)
    drive(made)
    best = by_hand(made)
    expected = {
        name: f"{sum(quality(made.make_labels(item, run)) for run in item.runs) / len(item.runs):.4f}"
        for name, item in best.items()
        if name not in ("BM25", "cosine")
    }
    assert {name: score for name, score in screen.scores.items() if name in expected} == expected


@pytest.mark.parametrize("stop_after", [5, 12])
def test_a_resumed_study_begins_with_what_it_had(tmp_path, stop_after):
    reported(tmp_path, stop_after)
    again = Screen()
    ProgressReporter([scheduler(tmp_path)], again)
    made = scheduler(tmp_path)
    complete = {
        item.name
        for item in made.configurations
        if item.runs[0].seed is not None and all(made.store.is_finished(run.id, "dev") for run in item.runs)
    }
    assert {*again.scores} == complete
    ((name, done, total),) = again.bars
    assert (name, total) == ("trials", made.n_trials)
    assert done == sum(made.store.is_finished(run.id, "dev") for item in made.configurations for run in item.runs)


def test_the_time_left_is_that_of_trials_after_the_last_wait(tmp_path, monkeypatch, capsys):
    """Outputs of frozen layers are computed before the trials of a study, in a suite again for the next one."""
    now, made = 1000.0, scheduler(tmp_path)
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = ProgressReporter([made], LiveView())
    requests = [request for _ in range(5) if (request := made.pop_request())]
    for request in requests[:3]:
        now += 1
        progress.report_trial(request, timed(request, 5.0))
    progress.report_precompute(1, 1)
    now += 60
    progress.report_trial(requests[3], ended(requests[3], lambda _: None))  # a failure says nothing of the pace
    progress.report_trial(requests[4], timed(requests[4], 5.0))
    (*_, line) = capsys.readouterr().out.splitlines()
    assert line.endswith(f"about {made.n_trials - 5} min left")


def test_the_time_left_starts_from_the_recorded_trials_and_a_test_takes_its_own_time(tmp_path, monkeypatch):
    seconds = {"dev": 600.0, "test": 60.0}

    for stop_after in (0, 7, 30, None):
        folder = tmp_path / str(stop_after)
        with monkeypatch.context() as patched:
            patched.setattr("tests.study.driving.ended", lambda request, _: timed(request, seconds[request.split]))
            drive(scheduler(folder), stop_after=stop_after)
        made = scheduler(folder)
        runs = {run.id for item in made.configurations for run in item.runs}
        done = {split: sum(made.store.is_finished(run, split) for run in runs) for split in SPLITS}
        progress = ProgressReporter([made], LiveView())
        if stop_after is not None:
            assert progress.describe_time_left() == ""  # nobody has said how many trials run at once
        progress.start_clock(2)
        dev, test = ((count - done[split]) for split, count in made.count_trials().items())
        minutes = 10 * dev + (1 if done["test"] else 10) * test  # until one ended, a test is like a training
        assert progress.describe_time_left() == (f"about {minutes / 2:.0f} min left" if stop_after != 0 else "")
    assert done == made.count_trials()


def test_lines_count_the_trials_and_what_ended_runs_no_more(tmp_path, capsys):
    progress, screen = reported(tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split("/")[0]) for line in lines] == [*range(1, len(lines) + 1)]
    assert len(screen.running) <= 1
    progress.report_precompute(1, 5)
    assert screen.bars[-1] == ("frozen layers", 1, 5)
    assert "frozen layers: 1 of 5" in capsys.readouterr().out
