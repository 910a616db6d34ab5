"""Errands handed to Tune, and what becomes of those whose trial fails: told once, tried again where that may help."""

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import cloudpickle
from ray.exceptions import RayTaskError

from study.config.schema import Study
from study.execution.searcher import MAX_ATTEMPTS, FailureCallback, StudySearcher
from study.records import run_record as record
from study.scheduling.trials import TrialRequest
from study.tracking import Tracking, WandbLogger
from tests.study.driving import STUDY, campaign, decisions, drive, quality, record_end
from trainables.specs.trial import TrialSpec
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, MissingDifficultyScoresError
from trainables.worker.crash_report import format_header
from trainables.worker.limits import StepLimits

LIMITED = STUDY.model_copy(update={"trial": STUDY.trial.model_copy(update={"minutes": 1.0, "memory": "4GB"})})
TIMEOUT = (
    format_header(1)
    + 'Timeout (0:01:00)!\nThread 0x0000000000000001 (most recent call first):\n  File "x.py", line 3 in f\n'
)


class Tune:
    """What the searcher sees of Tune, one trial after the other."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, study: Study = LIMITED) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.told, self.parts = folder, list[tuple[str, dict[str, Any]]](), list[tuple[int, int]]()
        self.campaign = campaign(folder, study)
        tracking = Tracking(mode="disabled", project="small", folder=folder)
        self.searcher = StudySearcher(self.campaign, WandbLogger(tracking, print), self._report, self._parts)
        self.failures, self.count, self.now = FailureCallback(self.searcher), 0, 0.0
        monkeypatch.setattr("study.execution.searcher.time.monotonic", lambda: self.now)

    def _report(self, errand: TrialRequest, entry: dict[str, Any] | None) -> None:
        assert entry is not None
        self.told.append((errand.trial.specification.id, entry))

    def _parts(self, done: int, total: int) -> None:
        self.parts.append((done, total))

    def begin(self) -> tuple[str, TrialSpec, StepLimits]:
        """The next trial: its name, its job and its limits."""
        self.count += 1
        found = self.searcher.suggest(str(self.count))
        assert isinstance(found, dict)
        assert set(found) == {"job", "limits", "labels", "tracking", "commit", "shown"}
        return (
            str(self.count),
            TrialSpec.model_validate_json(found["job"]),
            StepLimits.model_validate_json(found["limits"]),
        )

    def start(self) -> tuple[str, TrialRequest]:
        """The same as the name and the errand."""
        self.count += 1
        found = self.searcher.suggest(str(self.count))
        assert isinstance(found, dict)
        return str(self.count), TrialRequest(TrialSpec.model_validate_json(found["job"]), json.loads(found["labels"]))

    def finish(self, name: str, job: TrialSpec) -> None:
        """The trial ends well."""
        record_end(self.folder, TrialRequest(job, {"variant": "", "epsilon": 0, "switch": 0, "seed": 0}), quality)
        self.searcher.on_trial_complete(name)

    def fail(self, name: str, error: Exception | str) -> None:
        """The trial raises, or Ray says this about its end."""
        trial = SimpleNamespace(trial_id=name, pickled_error_file=None, error_file=str(self.folder / "error.txt"))
        Path(trial.error_file).write_text(str(error))
        if isinstance(error, Exception):
            trial.pickled_error_file = str(self.folder / "error.pkl")
            raised = RayTaskError("step", "its traceback", error).as_instanceof_cause()
            Path(trial.pickled_error_file).write_bytes(cloudpickle.dumps(raised))
        self.searcher.on_trial_complete(name, error=True)
        self.failures.on_trial_error(0, [], trial)  # type: ignore[arg-type]


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tune:
    return Tune(tmp_path, monkeypatch)


def error_of(tune: Tune, job: TrialSpec) -> str:
    entry = record.read_run_record(tune.folder, job.specification.id)
    assert entry is not None
    return str(entry["summary"]["error"])


def test_limits_of_the_study_are_the_trials(tune: Tune) -> None:
    _, job, limits = tune.begin()
    assert (limits.minutes, limits.memory) == (1.0, 4 * 10**9)
    assert limits.crash_report == record.get_run_folder(tune.folder, job.specification.id) / "last-words.txt"


MACHINE = (
    FileNotFoundError(2, "No such file or directory", "/cache/x"),
    PermissionError(13, "Permission denied", "/cache/x"),
    OSError(28, "No space left on device"),
    ConnectionResetError(104, "Connection reset by peer"),
    MemoryError("of the machine, where the study sets no limit"),
    MachineError("another processor"),
    DamagedError(Path("/cache/prepared/key/candidates.parquet"), "does not have its checksum"),
    MissingDifficultyScoresError("no difficulties by BERT_loss"),
    "its worker process has died",
    "the actor died because its node has died",
)


@pytest.mark.parametrize("error", MACHINE, ids=lambda error: str(error)[:20] or type(error).__name__)
def test_a_fault_of_the_machine_is_tried_again_and_then_stops_the_study_without_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | str
) -> None:
    unlimited = LIMITED.model_copy(update={"trial": LIMITED.trial.model_copy(update={"memory": None})})
    tune = Tune(tmp_path, monkeypatch, unlimited)
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
    assert tune.campaign.store.get_state(job.specification.id) is None


def test_a_try_after_faults_of_the_machine_leaves_no_trace_of_them(tune: Tune) -> None:
    """Nor do they use up the second try of a run that fails by itself."""
    name, job, _ = tune.begin()
    tune.fail(name, "its worker process has died")
    name, _, _ = tune.begin()
    tune.fail(name, ValueError("boom"))
    name, _, _ = tune.begin()
    tune.fail(name, PermissionError(13, "Permission denied", "/cache/x"))
    name, _, _ = tune.begin()
    tune.finish(name, job)
    ((_, entry),) = tune.told
    assert entry["state"] == "finished"
    assert "error" not in entry["summary"]


@pytest.mark.parametrize("own", [True, False])
def test_a_run_without_difficulties_has_failed_only_where_the_run_that_makes_them_has(tune: Tune, own: bool) -> None:
    if own:
        scorer, summary = tune.campaign.scorer.runs[0].id, {"error": "FloatingPointError: not finite"}
        record.write_run_record(tune.folder, "dev", {"id": scorer, "state": "failed", "summary": summary}, None)
        tune.campaign.store.refresh(scorer, "dev")
    name, job, _ = tune.begin()
    while job.specification.id == tune.campaign.scorer.runs[0].id:
        name, job, _ = tune.begin()
    for _ in range(2):
        tune.fail(name, MissingDifficultyScoresError("no difficulties by BERT_loss"))
        name, *_ = tune.begin()
    assert len(tune.told) == int(own)


def test_a_failure_is_tried_again_and_told_once(tune: Tune) -> None:
    error = ValueError("boom")
    name, job, _ = tune.begin()
    tune.fail(name, error)
    assert tune.told == []
    again, same, _ = tune.begin()
    assert same == job
    tune.fail(again, error)
    ((run_id, entry),) = tune.told
    assert (run_id, entry["state"]) == (job.specification.id, "failed")
    _, other, _ = tune.begin()
    assert other.specification.id != job.specification.id


def test_a_second_try_that_ends_well_is_what_is_told(tune: Tune) -> None:
    name, job, _ = tune.begin()
    tune.fail(name, ValueError("boom"))
    assert error_of(tune, job) == "ValueError: boom"
    again, _, _ = tune.begin()
    tune.finish(again, job)
    ((_, entry),) = tune.told
    assert entry["state"] == "finished"


def test_the_cause_is_the_last_try_s(tune: Tune) -> None:
    """Also where an earlier try, of this start or another, had left a record."""
    name, job, _ = tune.begin()
    tune.fail(name, ValueError("boom"))
    again, _, _ = tune.begin()
    tune.fail(again, TypeError("bang"))
    assert error_of(tune, job) == "TypeError: bang"


def test_what_the_trial_has_recorded_itself_stands(tune: Tune) -> None:
    name, job, _ = tune.begin()
    entry = {"id": job.specification.id, "state": "failed", "summary": {"error": "more is known"}}
    record.write_run_record(tune.folder, "dev", entry, None)
    tune.fail(name, ValueError("boom"))
    assert error_of(tune, job) == "more is known"


def test_a_trial_that_died_after_its_record_has_finished(tune: Tune) -> None:
    name, job, _ = tune.begin()
    record.write_run_record(tune.folder, "dev", {"id": job.specification.id, "state": "finished", "summary": {}}, None)
    tune.fail(name, "its worker process has died")
    ((_, entry),) = tune.told
    assert entry["state"] == "finished"


@pytest.mark.parametrize("words", [TIMEOUT, None])
def test_a_hang_is_not_tried_again(tune: Tune, words: str | None) -> None:
    """None: on a node that does not see the study's folder, where only the clock tells."""
    name, job, limits = tune.begin()
    assert limits.crash_report is not None
    if words is not None:
        limits.crash_report.parent.mkdir(parents=True)
        limits.crash_report.write_text(words)
    else:
        tune.now = 61.0
    tune.fail(name, "its worker process has died")
    assert "longer than trial.minutes = 1; it hung in" in error_of(tune, job)
    assert len(tune.told) == 1
    assert not limits.crash_report.exists()


def test_steps_that_end_are_no_hang_however_many_they_are(tune: Tune) -> None:
    name, job, _ = tune.begin()
    for tune.now in (50.0, 100.0):
        tune.searcher.on_trial_result(name, {})
    tune.fail(name, "its worker process has died")
    assert tune.told == []
    assert tune.begin()[1] == job


def test_numbers_that_are_not_finite_are_not_tried_again(tune: Tune) -> None:
    name, _, _ = tune.begin()
    tune.fail(name, FloatingPointError("3 of 9 dev scores are not finite"))
    assert len(tune.told) == 1


def test_a_full_disk_stops_the_study_where_tune_does_not_make_a_text_of_it(tune: Tune) -> None:
    """In a trial, again and again; the driver could still write what happened."""
    for _ in range(MAX_ATTEMPTS):
        name, _, _ = tune.begin()
        tune.fail(name, OSError(28, "No space left on device"))
    with pytest.raises(OSError, match="No space left"):
        tune.begin()


def test_a_disk_that_does_not_take_the_failure_s_record_stops_it_at_once(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, _ = tune.begin()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record, "write_run_record", full)
    tune.fail(name, ValueError("boom"))
    with pytest.raises(OSError, match="No space left"):
        tune.begin()


def test_labels_travel_as_json(tune: Tune) -> None:
    found = tune.searcher.suggest("0")
    assert isinstance(found, dict)
    labels, job = json.loads(found["labels"]), json.loads(found["job"])
    assert labels["seed"] == job["specification"]["seed"]


def test_a_run_whose_node_was_lost_goes_on_however_often_and_still_has_its_second_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune, lost = Tune(tmp_path, monkeypatch), [True, True, False, False]
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
def test_a_study_among_faults_of_the_machine_decides_what_an_undisturbed_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Some pass by themselves, some stop it, and it is started again; runs that fail by themselves are among them."""

    def metric(labels: dict[str, Any]) -> float | None:
        return None if labels["seed"] == 2 and labels["epsilon"] == 0.3 else quality(labels)

    whole, draw = campaign(tmp_path / "whole", LIMITED), random.Random(seed)
    drive(whole, metric)
    tune, stops = Tune(tmp_path / "disturbed", monkeypatch), 0
    while not tune.campaign.is_finished:
        try:
            name, errand = tune.start()
        except (OSError, MachineError, DamagedError):
            tune, stops = Tune(tmp_path / "disturbed", monkeypatch), stops + 1
            continue
        if draw.random() < 0.6:
            tune.fail(name, draw.choice(MACHINE[:4] + MACHINE[-2:]))
        elif metric(errand.labels) is None:
            tune.fail(name, ValueError("boom"))
        else:
            record_end(tune.folder, errand, metric)
            tune.searcher.on_trial_complete(name)
    assert stops > 0
    assert decisions(tune.campaign) == decisions(whole)
    assert {name: item.id for name, item in tune.campaign.select_for_test().items()} == {
        name: item.id for name, item in whole.select_for_test().items()
    }


def test_a_run_that_loses_every_node_stops_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many, the loss counts as any other fault of the machine."""
    tune, lost = Tune(tmp_path, monkeypatch), list[bool]()
    tune.searcher._is_node_lost = lambda trial: lost.append(True) or True
    _, job, _ = tune.begin()
    for _ in range(10 + MAX_ATTEMPTS - 1):
        tune.fail(str(tune.count), "its node has died")
        _, again, _ = tune.begin()
        assert again.specification == job.specification
    tune.fail(str(tune.count), "its node has died")
    with pytest.raises(MachineError, match="the trial's node died, 3 times"):
        tune.begin()
    assert tune.told == []


def test_parts_of_the_frozen_layers_are_told_as_they_come(tune: Tune) -> None:
    name, *_ = tune.begin()
    for result in ({"parts": 1, "total": 3}, {"parts": 3, "total": 3}, {"instances": 8}):
        tune.searcher.on_trial_result(name, result)
    assert tune.parts == [(1, 3), (3, 3)]
