"""The trials of a small study, twice, one after another in this process: both give the same scores."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.gpu import models
from benchmarks.gpu.models import Size
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, confirmed, measured
from trainables.data.ranking_preparation import prepare_data
from trainables.models.pretrained import hash_model_files
from trainables.specs import environment
from trainables.specs.plugin import get_trainable
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerRunSpec, RankerTrainingSettings
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.specs.trial import TrialResult, TrialSpec

_METRIC, _SEEDS, _LENGTH = "R10@1", (1, 2), 64
_ACTIONS: tuple[Literal["train", "test"], ...] = ("train", "test")
_VARIANTS = {
    "BERT": LabelSmoothing(),
    "LS": LabelSmoothing(distribution="uniform", epsilon=0.2),
    "T-LS": LabelSmoothing(distribution="uniform", schedule="two_stage", epsilon=0.2, switch=0.5),
    "T-WSLS": LabelSmoothing(distribution="weak_supervision", schedule="two_stage", epsilon=0.2, switch=0.5),
}
_QUERIES = {"train": 96, "dev": 24, "test": 48}

Scores = Mapping[str, np.ndarray]
"""Scores of the evaluated pairs by run and split."""


def run(place: Place) -> Iterator[Row]:
    """Runs all trials twice, each time with checkpoints of their own, and compares all scores."""
    size: Size = "minilm" if place.is_real else "tiny"
    model, data = models.write_model(place.folder, size), write_collection(place.folder / "collection")
    started = time.monotonic()
    first, second = (run_trials(place, model, data, number) for number in (1, 2))
    note = f"{len(first)} evaluations of {len(_VARIANTS)} variants and {len(_SEEDS)} seeds"
    yield confirmed("equal scores twice", is_equal(first, second), note)
    if place.is_real:
        yield measured("the small study, twice", [time.monotonic() - started], "s")


def is_equal(first: Scores, second: Scores) -> bool:
    """Return True if both have the same evaluations, and those of all variants and seeds, with the same bits."""
    is_whole = len(first) >= len(_VARIANTS) * len(_SEEDS) * len(_ACTIONS) and first.keys() == second.keys()
    return is_whole and all(np.array_equal(own, second[name]) for name, own in first.items())


def write_collection(folder: Path) -> Path:
    """A collection in the layout of BEIR; a query and its relevant document share words."""
    (folder / "qrels").mkdir(parents=True)
    queries, documents, number = list[dict[str, str]](), list[dict[str, str]](), 0
    for split, count in _QUERIES.items():
        qrels = ["query-id\tcorpus-id\tscore"]
        for _ in range(count):
            words = models.draw_words(8, 2 * number)
            queries.append({"_id": f"q{number}", "text": words})
            text = f"{' '.join(words.split()[:3])} {models.draw_words(20, 2 * number + 1)}"
            documents.append({"_id": f"d{number}", "title": "", "text": text})
            qrels.append(f"q{number}\td{number}\t1")
            number += 1
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(qrels) + "\n", "utf-8")
    for name, rows in (("queries", queries), ("corpus", documents)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def run_trials(place: Place, model: Path, data: Path, number: int) -> Scores:
    """Trains and tests every variant with every seed; only the checkpoints are new each time."""
    cache = place.folder / "cache"
    prepared = prepare_data(RankerTaskSettings(name="beir", path=str(data)), cache)
    settings = {"instances": 512 if place.is_real else 128, "batch_size": 16, "negatives": 3, "learning_rate": 1e-4}
    settings |= {"evaluations": 2, "threads": 1}
    training = environment.resolve_precision(RankerTrainingSettings.model_validate(settings), "cuda")
    scores = dict[str, np.ndarray]()
    for name, variant in _VARIANTS.items():
        for seed in _SEEDS:
            specification = RankerRunSpec(
                task=prepared.settings,
                data=prepared.fingerprint,
                model=RankerModelSettings(name=hash_model_files(model), max_length=_LENGTH),
                training=training,
                variant=variant,
                seed=seed,
                environment=environment.detect_environment("cuda"),
            )
            for action in _ACTIONS:
                trial = TrialSpec(
                    specification=specification,
                    action=action,
                    metric=_METRIC,
                    cache=cache,
                    checkpoints=str(place.folder / f"checkpoints-{number}"),
                    model_path=model,
                )
                scores[f"{name} seed {seed} {action}"] = finish(trial).scores
    return scores


def finish(trial: TrialSpec) -> TrialResult:
    """The result of a trial, as a worker computes it."""
    backend = get_trainable(trial.specification).training_backend
    for _ in backend.precompute(trial, lambda: None):
        pass
    run_ = backend.start_run(trial, lambda: None)
    while (result := run_.advance()) is None:
        pass
    return result
