"""Studies without Ray and models. A file system that counts requests has their checkpoints and copied records."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from records import run_record as record
from records.scores import encode_scores
from study.config.loader import Study, load_study
from study.execution.checkpoint_evictor import CheckpointEvictor
from study.folder.remote_records import RemoteRecords
from study.folder.run_store import RunStore
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import TrialRequest
from tests.study.driving import RESOLVED
from tests.trainables.storage.counting import PROTOCOL, count_requests
from trainables.specs.checkpoint_chain import WEIGHTS_PREFIX, Checkpoint
from trainables.specs.run_spec import RunSpec
from trainables.storage import open_storage
from trainables.storage.base import MANIFEST
from trainables.training.resume import ResumableTraining

_FLOATS = 256


class _StandIn:
    """Trainer that trains nothing; what `ResumableTraining` asks of a trainer."""

    def __init__(self, run: RunSpec) -> None:
        self.instances_seen, self.history, self._run = 0, list[dict[str, float]](), run

    def make_checkpoint(self, final: bool) -> Checkpoint:
        weights = torch.full((_FLOATS,), float(self.instances_seen))
        return Checkpoint(self.instances_seen, {f"{WEIGHTS_PREFIX}layer": weights}, [])

    def restore(self, checkpoint: Checkpoint) -> None:
        self.instances_seen = checkpoint.instances

    def load_best_weights(self) -> None:
        pass


def run_trial(request: TrialRequest) -> int:
    """Run what a trial does to the storage of the checkpoints, and return how many checkpoints it saved."""
    run, saved = request.trial.specification, 0
    if run.training is None:
        return saved
    trainer = _StandIn(run)
    training = ResumableTraining(request.trial, trainer)
    while not training.is_finished:
        with training.lease_to_next_checkpoint() as stop:
            saved += stop > trainer.instances_seen
            trainer.instances_seen = stop
    return saved


def make_study(folder: Path, seeds: int, max_size: str = "1TB") -> Study:
    """Return a study with 20 configurations of each system. The counting store has its checkpoints and its copy."""
    epsilon = [round(0.02 * number, 2) for number in range(1, 21)]
    places = [
        f"output.folder={folder / 'study'}",
        f"cache.folder={folder / 'cache'}",
        f"cache.checkpoints={PROTOCOL}://bucket/checkpoints",
        f"output.remote={PROTOCOL}://bucket/records",
        f"cache.max_size={max_size}",
    ]
    counts = [f"search.n_configurations.{name}=20" for name in ("LS", "WSLS", "T-LS", "T-WSLS")]
    more = ["search.round_size=10", f"search.epsilon={epsilon}", f"seeds={[*range(1, seeds + 1)]}"]
    return load_study("quick", ["training.precision=fp32", "confirm.seeds=[]", *places, *counts, *more])


def _record(folder: Path, request: TrialRequest, scores: bytes) -> None:
    run, split = request.trial.specification, request.split
    value = int(run.id[:8], 16) / 2**32
    summary = {"state": "finished", f"{split}/{request.trial.metric}": value}
    entry = {"id": run.id, "state": "finished", "config": request.labels, "summary": summary}
    curve = {"history": [{"instances": 32, "train/loss": 0.5}]} if split == "dev" else {}
    record.write_run_record(folder, split, entry | curve, scores)


def _make_scores() -> bytes:
    row = {"split": "dev", "query_id": "q", "document_id": "d", "relevant": 1, "score": 0.5}
    return encode_scores(pd.DataFrame([row]))


class Requests(dict[str, Counter[str]]):
    """Requests of the steps of a study: start, train, test, evict, copy, end."""

    def add(self, step: str, work: Callable[[], object]) -> None:
        """Do some work and add its requests to those of a step."""
        with count_requests() as requests:
            work()
        self.setdefault(step, Counter()).update(requests)


class Driven:
    """A study that was driven to its end.

    Attributes:
        requests: requests by step.
        n_trials: number of trials, finished ones included.
        n_saved: number of checkpoints that the trials saved.
    """

    def __init__(self, study: Study) -> None:
        self.requests, self.n_saved = Requests(), 0
        records, scores = RemoteRecords(study.records_url or "", study.folder, print), _make_scores()
        self.requests.add("start", lambda: records.download(study.name))
        self.requests.add("start", lambda: records.upload_all("offline"))
        scheduler = StudyScheduler(study, RESOLVED, RunStore(study.folder), "plan-hash")
        evictor = CheckpointEvictor([scheduler], print)
        self.n_trials = 0

        def run(request: TrialRequest) -> None:
            self.n_saved += run_trial(request)

        while not scheduler.is_finished:
            request = scheduler.pop_request()
            self.requests.add(request.trial.action, partial(run, request))
            _record(study.folder, request, scores)
            self.requests.add("copy", partial(records.upload_evaluation, request.trial.specification.id, request.split))
            scheduler.mark_ended(request)
            self.requests.add("evict", partial(evictor.on_trial_end, request))
            self.n_trials += 1
        self.requests.add("evict", evictor.evict_unneeded)
        self.requests.add("end", lambda: records.upload_rest("offline"))


def fill(url: str, count: int) -> None:
    """Store checkpoints of other runs."""
    storage = open_storage(url)
    for number in range(count):
        with storage.write_folder(f"{number:016x}") as folder:
            (folder / MANIFEST).write_text("{}")
            (folder / "state.safetensors").write_bytes(b"0")
