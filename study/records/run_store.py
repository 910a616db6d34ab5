"""The records of a study, read once and then answered from memory: decisions ask for the same ones thousands of times.

Whoever knows that an errand ended says so with `refresh`; no other change on the disk is seen.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from analysis.data.scores import Evaluator
from study.records import run_record as record
from study.records.run_record import Split
from study.utils.error_text import is_recorded_machine_fault
from trainables.metrics import Measure, get_measure
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

State = Literal["finished", "failed"]


class _Entry(NamedTuple):
    """What is kept of a record."""

    state: State
    summary: dict[str, Any]
    gpu: bool


class RunStore:
    """All evaluations recorded in a study's folder.

    A failure by the machine's fault, as earlier versions recorded them, is none: the evaluation is still to be made.

    Args:
        folder: the study's folder; it need not exist yet.

    Raises:
        UserError: a record is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._entries: dict[tuple[str, Split], _Entry] = {}
        self._values: dict[tuple[str, Split], dict[str, Floats]] = {}
        self._evaluator = Evaluator()
        runs = folder / "runs"
        ids = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir()) if runs.is_dir() else []
        with ThreadPoolExecutor(record.READER_THREADS) as readers:
            for found in readers.map(self._read_run, ids, chunksize=64):
                self._entries.update(found)

    def is_finished(self, run_id: str, split: Split = "dev") -> bool:
        """Whether this evaluation is done and recorded."""
        return self.get_state(run_id, split) == "finished"

    def get_state(self, run_id: str, split: Split = "dev") -> State | None:
        """How it ended; None where nothing is recorded."""
        entry = self._entries.get((run_id, split))
        return entry.state if entry else None

    def get_summary(self, run_id: str, split: Split = "dev") -> dict[str, Any] | None:
        """The record's summary; None where nothing is recorded."""
        entry = self._entries.get((run_id, split))
        return entry.summary if entry else None

    def get_metric(self, run_id: str, split: Split, name: str) -> float | None:
        """A finished evaluation's metric, by the name it has without its split; None where there is none."""
        entry = self._entries.get((run_id, split))
        value = entry.summary.get(f"{split}/{name}") if entry and entry.state == "finished" else None
        return None if value is None else float(value)

    def compute_per_query(self, run_id: str, metric: str, split: Split = "dev") -> Floats:
        """(queries,) a metric of each query of a finished evaluation, the queries in sorted order; not to be changed.

        Of a metric of sentence pairs, (distinct pairs,); see `analysis.data.scores.Evaluator`.

        Raises:
            UserError: the scores are damaged, or not of as many candidates a query as the metric needs.
        """
        assert get_measure(metric).per_query
        return self._get_values(run_id, metric, split)

    def compute_overall(self, run_id: str, metric: str, split: Split = "dev") -> float:
        """Any metric of a finished evaluation, computed from its scores.

        Raises:
            UserError: as for `per_query`.
        """
        return float(self._get_values(run_id, metric, split).mean())

    def list_run_ids(self, split: Split = "dev") -> list[str]:
        """The runs with such a record, finished or failed, in sorted order."""
        return sorted(run_id for run_id, known in self._entries if known == split)

    @property
    def gpu_seconds(self) -> float:
        """Seconds of all recorded evaluations that ran on a GPU; each had the study's `resources.gpu` of it."""
        return sum(_sum_seconds(entry) for entry in self._entries.values() if entry.gpu)

    def refresh(self, run_id: str, split: Split) -> State | None:
        """Reads a record again: its errand has ended; returns its state."""
        self._entries.pop((run_id, split), None)
        self._values.pop((run_id, split), None)
        self._entries.update(self._read_evaluation(run_id, split))
        return self.get_state(run_id, split)

    def _get_values(self, run_id: str, metric: str, split: Split) -> Floats:
        """(queries,) or (distinct pairs,) a metric; (1,) where it is one of all queries together."""
        known = self._values.setdefault((run_id, split), {})
        if metric not in known:
            known[metric] = self._compute_values(record.get_scores_path(self.folder, run_id, split), metric, split)
        return known[metric]

    def _compute_values(self, path: Path, metric: str, split: Split) -> Floats:
        """As `_computed`, from the file."""
        judged = get_measure(metric)
        if judged.sts_correlation is None:
            return _compute_ranking_values(path, judged)
        values = np.asarray(self._evaluator.evaluate_queries(path, split, metric, str(path)), np.float64)
        values.setflags(write=False)
        return values

    def _read_run(self, run_id: str) -> dict[tuple[str, Split], _Entry]:
        return dict(pair for split in record.SPLITS for pair in self._read_evaluation(run_id, split))

    def _read_evaluation(self, run_id: str, split: Split) -> Iterator[tuple[tuple[str, Split], _Entry]]:
        found = record.read_run_record(self.folder, run_id, split)
        if found is not None and not is_recorded_machine_fault(found):
            state: State = "finished" if found["state"] == "finished" else "failed"
            yield (run_id, split), _Entry(state, found["summary"], _ran_on_gpu(found))


def _sum_seconds(entry: _Entry) -> float:
    return float(entry.summary.get("seconds", 0.0)) + float(entry.summary.get("test/seconds", 0.0))


def _ran_on_gpu(found: dict[str, Any]) -> bool:
    """A sampler's order has no environment."""
    environment = found.get("config", {}).get("specification", {}).get("environment") or {}
    return bool(environment.get("device", "cpu") != "cpu")


def _compute_ranking_values(path: Path, judged: Measure) -> Floats:
    """Which document a candidate is does not count: a tie is at its expectation."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, read_dictionary=["query_id"]) as file:
            table = file.read(columns=["query_id", "relevant", "score"], use_threads=False)
        queries = table["query_id"].unify_dictionaries().combine_chunks()
        names = queries.dictionary.to_pylist()
        places = np.empty(len(names), dtype=np.int64)  # (queries,) of each name when they are sorted
        places[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        place = places[queries.indices.to_numpy()]  # (pairs,)
        lengths = np.bincount(place, minlength=len(places))
        scores, relevant = (table[column].to_numpy() for column in ("score", "relevant"))
        if (np.diff(place) < 0).any():
            order = np.argsort(place, kind="stable")
            scores, relevant = scores[order], relevant[order]
        if judged.per_query:
            values = judged.compute_values(scores, relevant, lengths)
        else:
            values = np.array([judged.compute_overall(scores, relevant, lengths)])
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        needed = f", {judged.required_candidates} candidates a query" if judged.required_candidates else ""
        expected = f"the scores of a finished run{needed}; run again, the study makes damaged ones anew"
        raise UserError(str(path), error, expected) from error
    values.setflags(write=False)
    return values
