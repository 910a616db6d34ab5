"""In-memory store of the run records of a study.

Each record is read once, because the scheduler needs it thousands of times. After a trial has ended, `refresh` reads
its record again. Other changes on the disk are not noticed.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from records.run_record import READER_THREADS, SPLITS, Split, get_scores_path, read_run_record
from records.scores import Evaluator
from trainables.metrics import get_measure
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

State = Literal["finished", "failed"]


class _Evaluation(NamedTuple):
    """Parts of a record that the store keeps."""

    state: State
    summary: dict[str, Any]
    gpu: bool


class RunStore:
    """Store of all evaluations that are recorded in the folder of a study.

    Args:
        folder: folder of the study; it need not exist yet.

    Raises:
        UserError: if a record is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._entries: dict[tuple[str, Split], _Evaluation] = {}
        self._values: dict[tuple[str, Split], dict[str, Floats]] = {}
        self._evaluator = Evaluator()
        runs = folder / "runs"
        ids = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir()) if runs.is_dir() else []
        with ThreadPoolExecutor(READER_THREADS) as readers:
            for entries in readers.map(self._read_run, ids, chunksize=64):
                self._entries.update(entries)

    def is_finished(self, run_id: str, split: Split = "dev") -> bool:
        """Return whether this evaluation is finished and recorded."""
        return self.get_state(run_id, split) == "finished"

    def get_state(self, run_id: str, split: Split = "dev") -> State | None:
        """Return the state of an evaluation; None if nothing is recorded."""
        entry = self._entries.get((run_id, split))
        return entry.state if entry else None

    def get_summary(self, run_id: str, split: Split = "dev") -> dict[str, Any] | None:
        """Return the summary of the record; None if nothing is recorded."""
        entry = self._entries.get((run_id, split))
        return entry.summary if entry else None

    def get_metric(self, run_id: str, split: Split, name: str) -> float | None:
        """Return a metric of a finished evaluation by its name without the split; None if it is not recorded."""
        entry = self._entries.get((run_id, split))
        value = entry.summary.get(f"{split}/{name}") if entry and entry.state == "finished" else None
        return None if value is None else float(value)

    def compute_values(self, run_id: str, metric: str, split: Split = "dev") -> Floats:
        """Compute a metric of each query of a finished evaluation from its scores. Their mean is that of the run.

        Returns:
            (queries,) values in the sorted order of the queries, read-only. For a metric of sentence pairs, (distinct
            pairs,); see `records.scores.Evaluator`. For one that has a value over all queries alone, (1,).

        Raises:
            UserError: if the scores are damaged, or the number of candidates per query is not what the metric requires.
        """
        known = self._values.setdefault((run_id, split), {})
        if metric not in known:
            path = get_scores_path(self.folder, run_id, split)
            if get_measure(metric).per_query:
                found: Any = self._evaluator.evaluate_queries(path, split, metric, str(path))
            else:
                found = self._evaluator.evaluate_overall(path, split, metric, str(path))
            values = np.atleast_1d(np.array(found, np.float64))
            if np.isnan(values).any():
                expected = "the scores of a finished run; rerun the study to recreate damaged scores"
                raise UserError(str(path), "a score that is not a number", expected)
            values.setflags(write=False)
            known[metric] = values
        return known[metric]

    def list_run_ids(self, split: Split = "dev") -> list[str]:
        """Return the sorted ids of the runs with a record of this split, finished or failed."""
        return sorted(run_id for run_id, known in self._entries if known == split)

    @property
    def gpu_seconds(self) -> float:
        """Seconds of all recorded evaluations on a GPU, each with the share `resources.gpu` of the GPU."""
        summaries = [entry.summary for entry in self._entries.values() if entry.gpu]
        return sum(float(each.get("seconds", 0.0)) + float(each.get("test/seconds", 0.0)) for each in summaries)

    def refresh(self, run_id: str, split: Split) -> State | None:
        """Read the record of an ended trial again and return its state."""
        self._entries.pop((run_id, split), None)
        self._values.pop((run_id, split), None)
        self._entries.update(self._read_evaluation(run_id, split))
        return self.get_state(run_id, split)

    def _read_run(self, run_id: str) -> dict[tuple[str, Split], _Evaluation]:
        return dict(pair for split in SPLITS for pair in self._read_evaluation(run_id, split))

    def _read_evaluation(self, run_id: str, split: Split) -> Iterator[tuple[tuple[str, Split], _Evaluation]]:
        record = read_run_record(self.folder, run_id, split)
        if record is not None:
            state: State = "finished" if record["state"] == "finished" else "failed"
            yield (run_id, split), _Evaluation(state, record["summary"], _ran_on_gpu(record))


def _ran_on_gpu(record: dict[str, Any]) -> bool:
    environment = record.get("config", {}).get("specification", {}).get("environment") or {}  # BM25 has none
    return bool(environment.get("device", "cpu") != "cpu")
