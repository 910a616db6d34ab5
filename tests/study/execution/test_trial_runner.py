"""Ends of trials. Failed ones are reported once, and tried again where that may help."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from records import run_record as record
from study.execution.failure import MAX_ATTEMPTS, TrialError
from tests.study.driving import decisions, drive, ended, quality, scheduler
from tests.study.execution.tune import LIMITED, MACHINE, SCORES, TIMEOUT, Tune, find_no_space, read_error
from tests.trainables.worker.test_gpu_errors import TOO_LARGE
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, MissingDifficultyScoresError
from trainables.worker.gpu_errors import GpuFaultError, GpuPlace


@pytest.fixture
def tune(tmp_path):
    return Tune(tmp_path)


@pytest.mark.parametrize("error", MACHINE, ids=lambda error: str(error)[:20] or type(error).__name__)
def test_a_fault_of_the_machine_is_tried_again_and_then_stops_the_study_without_a_result(tmp_path, error):
    unlimited = LIMITED.model_copy(update={"trial": LIMITED.trial.model_copy(update={"memory": None})})
    tune = Tune(tmp_path, unlimited)
    name, job, _ = tune.begin()
    for _ in range(MAX_ATTEMPTS - 1):
        tune.fail(name, error)
        name, same, _ = tune.begin()
        assert same == job
    tune.fail(name, error)
    with pytest.raises((OSError, MachineError, DamagedError)):
        tune.begin()
    assert tune.told == []
    assert not list(tmp_path.glob("runs/*/*.json"))
    assert tune.scheduler.store.get_state(job.specification.id) is None


def test_a_try_after_faults_of_the_machine_leaves_no_trace_of_them(tune):
    """Nor do they use up the second try of a run that fails by itself, which is what is told."""
    name, *_ = tune.begin()
    for error in ("its worker process has died", ValueError("boom"), PermissionError(13, "Permission denied", "/x")):
        tune.fail(name, error)
        name, *_ = tune.begin()
    tune.finish(name)
    ((_, entry),) = tune.told
    assert entry["state"] == "finished"
    assert "error" not in entry["summary"]


def break_gpu(gpu: str, is_broken: bool = True) -> GpuFaultError:
    return GpuFaultError(GpuPlace("3f2a9c1d" * 7, gpu), "RuntimeError: CUDA error: unknown error", is_broken)


def test_a_trial_that_meets_three_broken_gpus_stops_the_study_in_one_line_that_names_the_last(tune):
    avoided = list[str]()
    tune.searcher._avoid_gpu = lambda fault: avoided.append(fault.place.gpu)
    name, job, _ = tune.begin()
    for gpu in "012":
        tune.fail(name, break_gpu(gpu))
        if gpu != "2":
            name, same, _ = tune.begin()
            assert same == job
    expected = r"seed \d, 3 attempts: GPU 2 of node 3f2a9c1d: RuntimeError: CUDA error: unknown error$"
    with pytest.raises(MachineError, match=expected) as caught:
        tune.begin()
    assert caught.value.remedy.startswith("repair the GPU, or hide it with CUDA_VISIBLE_DEVICES")
    assert (avoided, tune.told) == (["0", "1", "2"], [])


def test_a_fault_of_a_gpu_that_trials_avoid_does_not_count(tune):
    """Neighbours meet the same fault, and one that was placed there before it was known."""
    tune.searcher._avoid_gpu = lambda fault: True
    name, job, _ = tune.begin()
    for _ in range(MAX_ATTEMPTS + 1):
        tune.fail(name, break_gpu("0"))
        name, same, _ = tune.begin()
        assert same == job
    tune.finish(name)
    assert len(tune.told) == 1


def test_a_gpu_that_is_only_crowded_is_not_avoided(tune):
    tune.searcher._avoid_gpu = lambda fault: pytest.fail("avoided")
    name, *_ = tune.begin()
    tune.fail(name, break_gpu("0", is_broken=False))
    name, *_ = tune.begin()
    tune.finish(name)
    assert len(tune.told) == 1


def test_more_of_a_gpu_than_a_trials_share_is_not_tried_again(tune):
    name, job, _ = tune.begin()
    tune.fail(name, TOO_LARGE[0])
    assert len(tune.told) == 1
    assert read_error(tune, job).startswith("20.9 GB of the GPU's memory were needed, but 20.4 GB are allowed")


@pytest.mark.parametrize("own", [True, False])
def test_a_run_without_difficulties_has_failed_only_where_the_run_that_makes_them_has(tune, own):
    if own:
        scorer, summary = tune.scheduler.scorer.runs[0].id, {"error": "FloatingPointError: not finite"}
        record.write_run_record(tune.folder, "dev", {"id": scorer, "state": "failed", "summary": summary}, None)
        tune.scheduler.store.refresh(scorer, "dev")
    name, job, _ = tune.begin()
    while job.specification.id == tune.scheduler.scorer.runs[0].id:
        name, job, _ = tune.begin()
    for _ in range(2):
        tune.fail(name, MissingDifficultyScoresError("no difficulties by BERT_loss"))
        name, *_ = tune.begin()
    assert len(tune.told) == int(own)


def test_a_failure_is_tried_again_and_told_once_with_the_cause_of_the_last_try(tune):
    name, job, _ = tune.begin()
    tune.fail(name, ValueError("boom"))
    assert (tune.told, read_error(tune, job)) == ([], "ValueError: boom")
    again, same, _ = tune.begin()
    assert same == job
    tune.fail(again, TypeError("bang"))
    ((run_id, entry),) = tune.told
    assert (run_id, entry["state"], read_error(tune, job)) == (job.specification.id, "failed", "TypeError: bang")
    _, other, _ = tune.begin()
    assert other.specification.id != job.specification.id


def test_what_the_trial_says_of_its_failure_is_recorded(tune):
    name, job, _ = tune.begin()
    about = {"summary": {"error": "more is known"}, "traceback": ["line"]}
    entry = {"id": job.specification.id, "state": "failed", **about}
    tune.fail(name, TrialError(ValueError("boom"), entry))
    assert record.read_run_record(tune.folder, job.specification.id) == entry
    name, *_ = tune.begin()
    tune.fail(name, TrialError(FloatingPointError("not finite"), entry))  # classified by the run's own error
    assert tune.told == [(job.specification.id, entry)]


def test_what_another_agent_of_a_sweep_has_finished_meanwhile_is_kept(tune):
    name, request = tune.start()
    record.write_run_record(tune.folder, "dev", ended(request, quality), None)
    tune.fail(name, ValueError("boom"))
    ((_, entry),) = tune.told
    assert entry["state"] == "finished"


def test_a_result_is_recorded_then_logged_then_copied_and_only_then_counts(tune, monkeypatch):
    """Each step finds what the one before it has done, so a driver that is killed in between loses no record."""
    name, job, _ = tune.begin()
    run_id, steps = job.specification.id, list[str]()

    def note(step: str) -> None:
        assert record.is_run_finished(tune.folder, run_id)
        assert record.get_scores_path(tune.folder, run_id).read_bytes() == SCORES
        steps.append(step)

    attempt = tune.runner.get_attempt(name)
    monkeypatch.setattr(attempt.owner.wandb_logger, "log_evaluation", lambda *_: note("logged"))
    monkeypatch.setattr(tune.scheduler, "mark_ended", lambda _: note("counted"))
    monkeypatch.setattr(attempt.owner.remote_records, "upload_evaluation", lambda *_: note("copied"))
    owner = replace(attempt.owner, on_trial_end=lambda: note("told"))
    tune.runner._attempts[name] = attempt._replace(owner=owner)
    tune.finish(name)
    assert steps == ["logged", "copied", "counted", "told"]


def test_an_end_that_comes_again_changes_nothing(tune):
    name, first, _ = tune.begin()
    tune.finish(name)
    entry = json.dumps({"id": first.specification.id, "state": "finished", "summary": {}})
    tune.searcher.handle_result(name, entry, SCORES)
    tune.searcher.on_trial_result(name, {"instances": 8})
    tune.fail(name, ValueError("boom"))
    tune.begin()
    assert len(tune.told) == 1
    assert record.is_run_finished(tune.folder, first.specification.id)


def test_what_ends_for_good_is_copied_once(tune):
    name, first, _ = tune.begin()
    tune.finish(name)
    name, second, _ = tune.begin()
    tune.fail(name, ValueError("boom"))
    assert tune.copied == [(first.specification.id, "dev")]
    name, *_ = tune.begin()
    tune.fail(name, ValueError("boom"))
    assert tune.copied == [(first.specification.id, "dev"), (second.specification.id, "dev")]


def test_a_disk_that_does_not_take_a_result_stops_the_study_which_repeats_the_trial(tune, monkeypatch):
    """It is told as what it is, and nothing says that the trial has ended."""
    name, job, _ = tune.begin()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", find_no_space)
        tune.finish(name)
    with pytest.raises(OSError, match="No space left"):
        tune.begin()
    assert (tune.told, tune.copied) == ([], [])
    assert tune.scheduler.store.get_state(job.specification.id) is None
    again = Tune(tune.folder)
    name, same, _ = again.begin()
    assert same == job
    again.finish(name)
    assert [run_id for run_id, _ in again.told] == [job.specification.id]


def test_a_hang_is_not_tried_again(tune):
    name, job, limits = tune.begin()
    limits.crash_report.parent.mkdir(parents=True, exist_ok=True)
    limits.crash_report.write_text(TIMEOUT)
    tune.fail(name, "its worker process has died")
    assert "longer than trial.minutes = 1; it hung in" in read_error(tune, job)
    assert len(tune.told) == 1
    assert not limits.crash_report.exists()


def test_numbers_that_are_not_finite_are_not_tried_again(tune):
    name, _, _ = tune.begin()
    tune.fail(name, FloatingPointError("3 of 9 dev scores are not finite"))
    assert len(tune.told) == 1


def test_a_disk_that_does_not_take_the_failure_s_record_stops_it_at_once(tune, monkeypatch):
    name, *_ = tune.begin()
    monkeypatch.setattr("study.execution.trial_runner.write_run_record", find_no_space)
    tune.fail(name, ValueError("boom"))
    with pytest.raises(OSError, match="No space left"):
        tune.begin()


def test_a_run_that_lost_its_node_goes_on_however_often_and_still_has_its_second_try(tmp_path):
    tune, lost = Tune(tmp_path), [True, True, False, False]
    tune.searcher._is_node_lost = lambda trial: lost.pop(0)
    name, job, _ = tune.begin()
    for error in ("the node died", "the node died", ValueError("boom")):
        tune.fail(name, error)
        name, again, _ = tune.begin()
        assert again.specification == job.specification
        assert tune.told == []
    tune.fail(name, ValueError("boom"))
    (told,) = tune.told
    assert told[0] == job.specification.id
    assert lost == []


@pytest.mark.parametrize("seed", range(6))
def test_a_study_among_faults_of_the_machine_decides_what_an_undisturbed_one_does(tmp_path, seed):
    """Some pass by themselves, some stop it, and it is started again; runs that fail by themselves are among them."""

    def metric(labels: dict[str, Any]) -> float | None:
        return None if labels["seed"] == 2 and labels["epsilon"] == 0.3 else quality(labels)

    whole, draw = scheduler(tmp_path / "whole", LIMITED), random.Random(seed)
    drive(whole, metric)
    tune, stops = Tune(tmp_path / "disturbed"), 0
    while not tune.scheduler.is_finished:
        try:
            name, request = tune.start()
        except (OSError, MachineError, DamagedError):
            tune, stops = Tune(tmp_path / "disturbed"), stops + 1
            continue
        if draw.random() < 0.6:
            tune.fail(name, draw.choice(MACHINE[:4] + MACHINE[-2:]))
        elif metric(request.labels) is None:
            tune.fail(name, ValueError("boom"))
        else:
            tune.finish(name, metric)
    assert stops > 0
    assert decisions(tune.scheduler) == decisions(whole)
    assert {name: item.id for name, item in tune.scheduler.select_for_test().items()} == {
        name: item.id for name, item in whole.select_for_test().items()
    }


def test_a_run_that_loses_every_node_stops_the_study(tmp_path):
    """After so many, the loss counts as any other fault of the machine."""
    tune, lost = Tune(tmp_path), list[bool]()
    tune.searcher._is_node_lost = lambda trial: lost.append(True) or True
    _, job, _ = tune.begin()
    for _ in range(10 + MAX_ATTEMPTS - 1):
        tune.fail(str(tune.count), "its node has died")
        _, again, _ = tune.begin()
        assert again.specification == job.specification
    tune.fail(str(tune.count), "its node has died")
    with pytest.raises(MachineError, match="3 attempts: the trial's node died"):
        tune.begin()
    assert tune.told == []
