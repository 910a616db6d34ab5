"""Trials handed to Tune: their limits, their progress, and which study of several comes first."""

import io
import json

import pytest
from rich.console import Console

from records import run_record as record
from study.execution.searcher import StudySearcher
from study.folder.run_name import format_run_name
from study.utils.live_view import LiveView
from tests.study.driving import decisions, drive, ended, quality
from tests.study.execution.tune import SCORES, Runner, Tune


@pytest.fixture
def tune(tmp_path):
    return Tune(tmp_path)


def test_the_share_of_a_trial_that_is_done_is_shown(tune):
    name, request = tune.start()
    training = request.trial.specification.training
    tune.view.start(run := format_run_name(request.labels))
    for instances in (training.instances // 4, training.instances):
        tune.searcher.on_trial_result(name, {"instances": instances, "done": False})
        share = f"{instances / training.instances:.0%}"
        console = Console(file=(shown := io.StringIO()), width=80)
        console.print(tune.view._render())
        assert [line.split()[-1] for line in shown.getvalue().splitlines() if run in line] == [share]


def test_limits_of_the_study_are_the_trials(tune):
    _, job, limits = tune.begin()
    assert (limits.minutes, limits.memory) == (1.0, 4 * 10**9)
    assert limits.crash_report.is_relative_to(tune.folder / "cache")  # which all nodes see
    assert job.specification.id in limits.crash_report.name


def test_parts_of_the_frozen_layers_are_told_as_they_come(tune, capsys):
    name, *_ = tune.begin()
    for result in ({"parts": 1, "total": 3}, {"parts": 3, "total": 3}, {"instances": 8}):
        tune.searcher.on_trial_result(name, result)
    lines = [line for line in capsys.readouterr().out.splitlines() if "parts" in line]
    assert [line.partition(": ")[2] for line in lines] == [f"{n} of 3 parts of the texts done" for n in (1, 3)]


def test_a_pool_records_every_trial_with_its_own_study(tmp_path):
    """An earlier study has precedence; a later one gets the slots that it leaves idle."""
    tunes = [Tune(tmp_path / name) for name in ("first", "second")]
    runner = Runner(tunes, LiveView())
    searcher, waiting, n_second = StudySearcher(runner), list[str](), 0
    for count in range(10_000):
        found = searcher.suggest(str(count))
        if isinstance(found, dict):
            waiting.append(str(count))
            if len(tunes[1].started) > n_second and not tunes[0].scheduler.is_finished:
                assert tunes[0].scheduler.pop_request() is None
            n_second = len(tunes[1].started)
            if len(waiting) < 3:
                continue
        elif found is not None:
            break
        name = waiting.pop(0)
        request = runner.get_attempt(name).request
        searcher.handle_result(name, json.dumps(ended(request, quality)), SCORES)
    assert not waiting
    alone = Tune(tmp_path / "alone")
    drive(alone.scheduler)
    for each in tunes:
        assert each.scheduler.is_finished
        assert decisions(each.scheduler) == decisions(alone.scheduler)
        assert len(each.told) == len(each.started)
        for run_id, split in each.copied:
            assert record.get_scores_path(each.folder, run_id, split).is_file()
