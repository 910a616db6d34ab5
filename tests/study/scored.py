"""Drives a scheduler with scores of every candidate, written by hand: each a pure function of run and query."""

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from records import run_record as record
from records.scores import encode_scores
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.folder.run_store import RunStore
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import TrialRequest
from tests.study.driving import RESOLVED, STUDY, Labels

QUERIES, CANDIDATES = 60, 10
Strength = Callable[[Labels], float]


def study(**changes: Any) -> Study:
    """STUDY with five seeds, some of its parts changed."""
    base = {**STUDY.model_dump(), "seeds": (1, 2, 3, 4, 5)}
    parts = {key: {**base[key], **value} if isinstance(value, dict) else value for key, value in changes.items()}
    return get_study_class().model_validate({**base, **parts})


def draw(*name: object) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(name).encode()).digest()[:8], "big"))


def strength(labels: Labels) -> float:
    """Better the nearer epsilon is to 0.3, by far more than noise."""
    return 2.0 - 12 * abs((labels["epsilon"] or 0.0) - 0.3)


def conduct(
    scheduler: StudyScheduler, quality: Strength = strength, order: random.Random | None = None, stop: int = -1
) -> list[TrialRequest]:
    """Runs requests three at a time, in an order drawn, until the scheduler or `stop` of them are over."""
    order, started, running = order or random.Random(0), list[TrialRequest](), list[TrialRequest]()
    while not scheduler.is_finished and len(started) != stop:
        while len(running) < 3 and (request := scheduler.pop_request()) is not None:
            running.append(request)
        ended = running.pop(order.randrange(len(running)))
        started.append(ended)
        write(scheduler.store.folder, ended, quality)
        scheduler.mark_ended(ended)
    return started


def write(folder: Path, request: TrialRequest, quality: Strength) -> None:
    """Writes the records of a trial: scores with a relevant document that stands out by the run's quality."""
    labels, split = request.labels, request.split
    queries = draw("queries", split).normal(0, 1, (QUERIES, 1))
    values = draw(labels["specification_id"], split).normal(0, 1, (QUERIES, CANDIDATES))
    values[:, 0] += quality(labels) + 0.5 * queries[:, 0]
    relevant = np.tile(np.eye(1, CANDIDATES, dtype=np.int8)[0], QUERIES)
    hits = float((values.argmax(axis=1) == 0).mean())
    names = {
        "split": split,
        "query_id": np.repeat([f"{split}{q:03}" for q in range(QUERIES)], CANDIDATES),
        "document_id": np.tile([f"d{d}" for d in range(CANDIDATES)], QUERIES),
    }
    frame = pd.DataFrame({**names, "relevant": relevant, "score": values.ravel()})
    summary = {f"{split}/R10@1": hits, f"{split}/ECE": abs((labels["epsilon"] or 0.0) - 0.1), "seconds": 36.0}
    entry = {"id": labels["specification_id"], "state": "finished", "config": labels, "summary": summary}
    record.write_run_record(folder, split, {**entry, "history": []}, encode_scores(frame))


def scheduler(made: Study, folder: Path, **more: Any) -> StudyScheduler:
    return StudyScheduler(made, RESOLVED, RunStore(folder), "plan-hash", **more)


def trained(requests: list[TrialRequest], name: str) -> dict[str, list[int]]:
    """Seeds trained, by configuration of a system."""
    found: dict[str, list[int]] = {}
    for request in requests:
        if request.trial.action == "train" and request.labels["variant"] == name:
            found.setdefault(request.labels["configuration_id"], []).append(request.labels["seed"])
    return found


def write_scores(path: Path) -> Path:
    """Writes a table of scores of BERT, LS and T-LS with four seeds, as another study may have left it."""
    rng, seeds, queries = np.random.default_rng(5), 4, 30
    rows = pd.MultiIndex.from_product(
        [("BERT", "LS", "T-LS"), range(seeds), range(queries)], names=["system", "seed", "query"]
    )
    pd.DataFrame({"value": rng.random(len(rows))}, index=rows).to_csv(path)
    return path
