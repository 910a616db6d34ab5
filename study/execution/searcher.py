"""The bridge between a campaign and Ray Tune's loop: errands out, their ends back in."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ray.tune import Callback
from ray.tune.experiment import Trial
from ray.tune.search import Searcher

from study.execution.failure import End, ended
from study.execution.trainable import failed_entry
from study.records import run_record as record
from study.records.provenance import commit, versions
from study.records.remote import download_result
from study.records.run_name import run_name
from study.scheduling.scheduler import Work
from study.scheduling.trials import Errand
from study.tracking import Scribe
from study.utils.error_text import unwritable
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import MachineError, NoDifficultiesError
from trainables.worker.crash_report import FILE
from trainables.worker.limits import Limits

TRIES = 3
"""Of an errand that the machine's faults end."""
_LOSSES = 10
"""Nodes that an errand may lose without being tried for it: those of a cloud are taken away at any time, but one that
loses ten has brought them down itself, as a run does that takes all of a node's memory."""

Report = Callable[[Errand, "dict[str, Any] | None"], None]


class _Try(NamedTuple):
    """One trial of Tune's."""

    errand: Errand
    limits: Limits
    before: dict[str, Any] | None  # the record of an earlier try
    first: bool
    faults: int = 0  # tries that the machine ended
    losses: int = 0  # nodes that were lost under it


class CampaignSearcher(Searcher):
    """Hands a campaign's errands to Tune as they become possible, and tells it which have ended.

    An errand whose trial fails is tried once more, in another process, unless it would only fail again. One that fails
    by the machine's fault is tried `TRIES` times in all and recorded as nothing; then the study stops, and the same
    command goes on.

    Args:
        campaign: decides what runs.
        scribe: writes to W&B.
        report: told of each errand that ended.
        parts: told how many parts of the frozen layers' outputs are there, and of how many.
        lost: whether the node of a trial that ended was lost: then it has not failed, up to `_LOSSES` times.
    """

    def __init__(
        self,
        campaign: Work,
        scribe: Scribe,
        report: Report,
        parts: Callable[[int, int], None],
        lost: Callable[[Trial], bool] | None = None,
    ) -> None:
        super().__init__(metric="metric", mode="max")
        self._campaign, self._report, self._parts, self._lost = campaign, report, parts, lost
        self._scribe, self._tracking = scribe, scribe.tracking
        self._tries: dict[str, _Try] = {}
        self._signs: dict[str, float] = {}
        self._again: deque[_Try] = deque()
        self._broken: Exception | None = None

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        """The next errand's configuration; None while it must wait; FINISHED at the end of the study.

        Raises:
            Exception: what went wrong when an errand's end was noted; raised there, Tune would make a text of it.
        """
        if self._broken is not None:
            raise self._broken
        if self._campaign.finished:
            return str(Searcher.FINISHED)
        repeated = self._again.popleft() if self._again else None
        errand = repeated.errand if repeated else self._campaign.next()
        if errand is None:
            return None
        run_id, study = errand.job.specification.id, self._campaign.study
        words = record.folder(self._tracking.folder, run_id) / FILE
        limits = Limits(minutes=study.trial.minutes, memory=study.trial.bytes, last_words=words)
        before = record.read(self._tracking.folder, run_id, errand.split)
        tried = repeated or _Try(errand, limits, before, first=True)
        self._tries[trial_id] = tried._replace(limits=limits, before=before)
        self._signs[trial_id] = time.monotonic()
        return {
            "job": errand.job.model_dump_json(),
            "limits": limits.model_dump_json(),
            "labels": json.dumps(errand.labels),
            "tracking": self._tracking.model_dump_json(),
            "commit": json.dumps(commit()),
            "shown": self._scribe.shown(run_id) or "",
        }

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """A step ended."""
        self._signs[trial_id] = time.monotonic()
        if "parts" in result:
            self._parts(result["parts"], result["total"])
        if "rows" in result:
            errand = self._tries[trial_id].errand
            self._scribe.rows(errand.labels, json.loads(result["rows"]), result["start"])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """An errand ended well. Of one that failed Tune tells more a moment later: `Failures`."""
        if not error:
            with self._noting():
                end = End("the trial ended without a record", again=True, machine=True)
                self._ended(self._tries.pop(trial_id), end)

    def failed(self, trial: Trial) -> None:
        """A try failed: there is a record of it, of the trial's own or else written here, and another try or an end."""
        with self._noting():
            tried = self._tries.pop(trial.trial_id)
            if self._lost is not None and self._lost(trial) and tried.losses < _LOSSES:
                self._again.append(tried._replace(losses=tried.losses + 1))
                return
            silent = time.monotonic() - self._signs[trial.trial_id]
            self._ended(tried, ended(trial, tried.limits, silent))

    def _ended(self, tried: _Try, end: End) -> None:
        errand, folder = tried.errand, self._tracking.folder
        download_result(self._tracking.folder, self._tracking.records, errand.job.specification.id, errand.split)
        entry = record.read(folder, errand.job.specification.id, errand.split)
        if entry is None or entry["state"] != "finished":
            if end.machine and not self._follows_from_the_scorer(end):
                self._stop_or_repeat(tried, end)
                return
            if entry is None or entry == tried.before:
                entry = failed_entry(errand.job, errand.labels, end.cause, {"versions": versions(), "commit": commit()})
                record.write(folder, errand.split, entry, None)
            if tried.first and end.again:
                self._again.append(tried._replace(first=False))
                return
        self._scribe.evaluation(errand.job.specification.id, errand.split)
        self._campaign.done(errand)
        self._report(errand, entry)

    def _stop_or_repeat(self, tried: _Try, end: End) -> None:
        """Tries an errand that the machine ended once more.

        Raises:
            Exception: the machine has ended too many tries: what the trial raised where that names a file, else a
                MachineError.
        """
        if tried.faults + 1 < TRIES:
            self._again.append(tried._replace(faults=tried.faults + 1))
            return
        if isinstance(end.error, OSError | DamagedError) or (end.error is not None and unwritable(end.error)):
            raise end.error
        raise MachineError(f"{run_name(tried.errand.labels)}: {end.cause}, {TRIES} times") from end.error

    def _follows_from_the_scorer(self, end: End) -> bool:
        """Whether there are no difficulties because the run that makes them failed by itself."""
        return isinstance(end.error, NoDifficultiesError) and self._campaign.scorer_failed

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._broken = error

    def save(self, checkpoint_path: str) -> None:
        """Nothing to save: a campaign is rebuilt from the study file and the records."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to restore."""


class Failures(Callback):
    """Hands the searcher what Tune tells only its callbacks: the trial that failed, and with it the reason."""

    def __init__(self, searcher: CampaignSearcher) -> None:
        self._searcher = searcher

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Tune gives a trial up."""
        self._searcher.failed(trial)
