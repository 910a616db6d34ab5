"""What it takes to know where a study of ten thousand runs stands: its plan, and everything it has decided so far.

python -m benchmarks.resume [CONFIGURATIONS]

The real scheduler decides what runs; the records are made up, in the shape of the quick study's: 200 development
queries of 10 candidates, 5 seeds. They are written to a temporary folder and removed afterwards.
"""

import contextlib
import hashlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from study.config.loader import Study, load_study
from study.config.spaces import count_proposals
from study.records import run_record as record
from study.records import search_log as searchlog
from study.records.run_store import RunStore
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import ResolvedInputs, TrialRequest
from study.workflows.dry_run import print_preview
from trainables.specs.base import Environment
from trainables.utils.checksums import hash_file

_QUERIES, _CANDIDATES = 200, 10
_METRIC = "R10@1"
_HERE = Environment(device="cpu", instruction_set="any", torch="2.13.0", transformers="5.23.0", numpy="2.4.6")
_RESOLVED = ResolvedInputs("0" * 16, "sha256:0", Path("/nowhere"), _HERE)


def make_study(folder: Path, configurations: int) -> Study:
    """Searches of so many configurations in all: a twentieth of them of LS, as many of WSLS, the rest two-stage."""
    each = max(1, configurations // 20)
    ending = configurations // 2 - each
    grid = {"epsilon": each, "switch": -(-ending // each)}
    values = {name: [round(number / (count + 1), 6) for number in range(1, count + 1)] for name, count in grid.items()}
    trials = {"LS": each, "WSLS": each, "T-LS": ending, "T-WSLS": ending}
    parts = [f"search.{name}={found}" for name, found in values.items()]
    parts += [f"search.n_configurations.{name}={count}" for name, count in trials.items()]
    places = [f"output.folder={folder / 'study'}", f"cache.folder={folder / 'cache'}"]
    return load_study(
        "quick", [*parts, *places, "seeds=[1, 2, 3, 4, 5]", "search.round_size=50", "training.precision=fp32"]
    )


def _scores() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    pairs = _QUERIES * _CANDIDATES
    return pd.DataFrame(
        {
            "split": "dev",
            "query_id": np.repeat([f"library.module.function_{number:04}" for number in range(_QUERIES)], _CANDIDATES),
            "document_id": [f"library.module.other_{number:05}" for number in draw.permutation(pairs)],
            "relevant": np.tile(np.arange(_CANDIDATES) == 0, _QUERIES).astype("int8"),
            "score": draw.normal(size=pairs),
        }
    )


def _record(folder: Path, trial: TrialRequest, scores: Path) -> None:
    """As a trial records it; the scores are a link to one file, under a name of their own."""
    split, run_id = trial.split, trial.trial.specification.id
    value = int(hashlib.sha256(run_id.encode()).hexdigest()[:8], 16) / 2**32
    summary: dict[str, Any] = {"state": "finished", f"{split}/{_METRIC}": value, "instances_trained": 1024}
    summary |= {"seconds" if split == "dev" else "test/seconds": 30.5, f"{split}/states_damaged": 0}
    summary[f"{split}/scores_sha256"] = _digest(scores)
    versions = dict.fromkeys(("torch", "transformers", "ray", "optuna", "wandb", "numpy", "scipy"), "1.2.3")
    about = {"config": trial.labels, "versions": versions, "damaged": []}
    place = record.get_scores_path(folder, run_id, split)
    place.parent.mkdir(parents=True, exist_ok=True)
    os.link(scores, place)
    record.write_run_record(folder, split, {"id": run_id, "state": "finished", "summary": summary} | about, None)


@lru_cache(maxsize=1)
def _digest(scores: Path) -> str:
    return hash_file(scores)


def _conduct(study: Study, scores: Path) -> StudyScheduler:
    """Runs the scheduler to its end."""
    scheduler = StudyScheduler(study, _RESOLVED, RunStore(study.folder), "0" * 16)
    while not scheduler.is_finished:
        trial = scheduler.pop_request()
        assert trial is not None
        _record(study.folder, trial, scores)
        scheduler.mark_ended(trial)
    return scheduler


def _timed(name: str, work: Callable[[], object]) -> None:
    started = time.perf_counter()
    work()
    print(f"  {name:60} {time.perf_counter() - started:8.2f} s", flush=True)


def _quietly(work: Callable[[], object]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        work()


def main(configurations: int) -> None:
    """Prints seconds."""
    with tempfile.TemporaryDirectory() as name:
        study = make_study(Path(name), configurations)
        _scores().to_parquet(Path(name, "scores.parquet"), index=False)
        started = time.perf_counter()
        scheduler = _conduct(study, Path(name, "scores.parquet"))
        searchlog.write_search_log(study.folder, scheduler.build_search_log())
        runs = len(scheduler.store.list_run_ids())
        print(f"{runs} recorded runs of {sum(count_proposals(study).values())} searched configurations")
        print(f"  {'to decide them all, with records written':60} {time.perf_counter() - started:8.2f} s")
        before = searchlog.read_search_log(study.folder)
        for _ in range(3):
            _timed("resume: records and scores checked", lambda: record.set_aside_damaged_records(study.folder, print))
            _timed("run store", lambda: RunStore(study.folder))
            _timed("--dry-run", lambda: _quietly(lambda: print_preview(study, False, False)))
            _timed(
                "resume: run store, and the scheduler from its log",
                lambda: StudyScheduler(study, _RESOLVED, RunStore(study.folder), "0" * 16, previous_log=before),
            )
        _timed("resume without the log: all proposals asked again", lambda: _conduct(study, Path(name, "-")))
        run_store = RunStore(study.folder)
        ids = run_store.list_run_ids()
        _timed(
            f"every run's values of {_QUERIES} queries", lambda: [run_store.compute_per_query(i, _METRIC) for i in ids]
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
