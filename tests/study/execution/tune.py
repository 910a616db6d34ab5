"""A Tune that runs one trial after the other, and the faults of a machine that it may report."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ray import cloudpickle
from ray.exceptions import RayTaskError

from records import run_record as record
from study.config.schema import Study
from study.execution.searcher import StudySearcher, TrialCallback
from study.execution.trial_runner import Attempt, StudyTrials, TrialRunner
from study.scheduling.trials import TrialRequest
from study.tracking import Tracking, WandbLogger
from study.utils.live_view import LiveView
from tests.study.driving import STUDY, Metric, ended, quality, scheduler
from trainables.specs.trial import TrialSpec
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, MissingDifficultyScoresError
from trainables.worker.crash_report import format_header
from trainables.worker.limits import StepLimits

LIMITED = STUDY.model_copy(update={"trial": STUDY.trial.model_copy(update={"minutes": 1.0, "memory": "4GB"})})
SCORES = b"the file of the scores"
TIMEOUT = (
    format_header(1)
    + 'Timeout (0:01:00)!\nThread 0x0000000000000001 (most recent call first):\n  File "x.py", line 3 in f\n'
)


class Runner(TrialRunner):
    """Notes which trials start and end."""

    def __init__(self, tunes: list["Tune"], view: LiveView) -> None:
        super().__init__([each.trials for each in tunes], view)
        self._tunes = {each.scheduler: each for each in tunes}

    def start_attempt(self, key: str) -> Attempt | None:
        if attempt := super().start_attempt(key):
            self._tunes[attempt.owner.scheduler].started.append(attempt.request)
        return attempt

    def _end_trial(self, owner: StudyTrials, request: TrialRequest, entry: dict[str, Any]) -> None:
        super()._end_trial(owner, request, entry)
        self._tunes[owner.scheduler].told.append((request.trial.specification.id, entry))


class Tune:
    """A Tune that runs one trial after the other."""

    def __init__(self, folder: Path, study: Study = LIMITED) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.told = folder, list[tuple[str, dict[str, Any]]]()
        self.copied: list[tuple[str, str]] = []
        self.started: list[TrialRequest] = []
        self.view = LiveView()
        caching = study.cache.model_copy(update={"folder": str(folder / "cache")})
        self.scheduler = scheduler(folder, study.model_copy(update={"cache": caching}))
        tracking = Tracking(mode="disabled", project="small", folder=folder)
        logger = WandbLogger(tracking, print)
        copies: Any = SimpleNamespace(upload_evaluation=lambda *copied: self.copied.append(copied))
        self.trials = StudyTrials(self.scheduler, logger, copies)
        self.runner = Runner([self], self.view)
        self.searcher = StudySearcher(self.runner)
        self.ends, self.count = TrialCallback(self.searcher), 0

    def begin(self) -> tuple[str, TrialSpec, StepLimits]:
        """The next trial: its name, its job and its limits."""
        self.count += 1
        found = self.searcher.suggest(str(self.count))
        assert isinstance(found, dict)
        assert set(found) == {"trial", "limits", "labels", "tracking", "commit", "shown"}
        return (
            str(self.count),
            TrialSpec.model_validate_json(found["trial"]),
            StepLimits.model_validate_json(found["limits"]),
        )

    def start(self) -> tuple[str, TrialRequest]:
        """The same as the name and the request."""
        name, job, _ = self.begin()
        return name, self.runner.get_attempt(name).request._replace(trial=job)

    def finish(self, name: str, metric: Metric = quality) -> None:
        """The trial ends well."""
        entry = ended(self.runner.get_attempt(name).request, metric)
        result = {"metric": 0.5, "record": json.dumps(entry), "scores": SCORES, "done": True}
        self.ends.on_trial_result(0, [], SimpleNamespace(trial_id=name), result)
        assert result == {"metric": 0.5, "done": True}  # Tune keeps no record and no scores
        self.searcher.on_trial_complete(name, result)

    def fail(self, name: str, error: Exception | str) -> None:
        """The trial raises, or Ray says this about its end."""
        trial = SimpleNamespace(trial_id=name, pickled_error_file=None, error_file=str(self.folder / "error.txt"))
        Path(trial.error_file).write_text(str(error))
        if isinstance(error, Exception):
            trial.pickled_error_file = str(self.folder / "error.pkl")
            raised = RayTaskError("step", "its traceback", error).as_instanceof_cause()
            Path(trial.pickled_error_file).write_bytes(cloudpickle.dumps(raised))
        self.searcher.on_trial_complete(name, error=True)
        self.ends.on_trial_error(0, [], trial)


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


def read_error(tune: Tune, job: TrialSpec) -> str:
    return str(record.read_run_record(tune.folder, job.specification.id)["summary"]["error"])


def find_no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")
