"""A whole small study, twice: both give the same scores.

With the packages of the command line, it is `python -m study.run` with Ray. Without them, the trainable's own backends
execute the same runs one after another in this process.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.gpu import models
from benchmarks.gpu.models import Size
from benchmarks.gpu.parts import Place
from benchmarks.gpu.report import Row, confirmed, measured, not_measured
from trainables.data.ranking_preparation import prepare_data
from trainables.models.pretrained import hash_model_files
from trainables.specs import environment
from trainables.specs.plugin import get_trainable
from trainables.specs.ranker import LabelSmoothing, RankerModelSettings, RankerRunSpec, RankerTrainingSettings
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.specs.trial import TrialResult, TrialSpec

_COMMAND_PACKAGES = ("jinja2", "matplotlib", "optuna", "ray", "rich", "sqlalchemy", "wandb", "yaml")
_METRIC, _SEEDS, _LENGTH, _LIMIT = "R10@1", (1, 2), 64, 300.0
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


def run(place: Place) -> list[Row]:
    """Runs the study twice, each time with checkpoints of its own, and compares all scores."""
    size: Size = "minilm" if place.is_gpu else "tiny"
    model, data = models.write_model(place.folder, "bert", size), write_collection(place.folder / "collection")
    missing = [name for name in _COMMAND_PACKAGES if find_spec(name) is None]
    started = time.monotonic()
    if missing:
        first, second = (run_in_process(place, model, data, number) for number in (1, 2))
    else:
        first, second = (run_command(place, model, data, number) for number in (1, 2))
    seconds = time.monotonic() - started
    way = f"in this process, without {', '.join(missing)}" if missing else "by study.run with Ray"
    note = f"{len(first)} evaluations of {len(_VARIANTS)} variants and {len(_SEEDS)} seeds, {way}"
    rows = [confirmed(f"bert-{size}: equal scores twice on {place.device}", is_equal(first, second), note)]
    title = "seconds of both studies"
    return [*rows, measured(title, [seconds], "s", way) if place.is_gpu else not_measured(title)]


def is_equal(first: Scores, second: Scores) -> bool:
    """Whether both have the same evaluations, and those of all variants and seeds, with the same bits."""
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


def make_training(place: Place) -> dict[str, Any]:
    """Settings of the training, as a study file has them."""
    settings = {"instances": 512 if place.is_gpu else 128, "batch_size": 16, "negatives": 3, "learning_rate": 1e-4}
    return {**settings, "evaluations": 2, "threads": 1}


def run_in_process(place: Place, model: Path, data: Path, number: int) -> Scores:
    """Trains and tests every variant with every seed; only the checkpoints are new each time."""
    cache = place.folder / "cache"
    prepared = prepare_data(RankerTaskSettings(name="beir", path=str(data)), cache)
    training = environment.resolve_precision(RankerTrainingSettings.model_validate(make_training(place)), place.device)
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
                environment=environment.detect_environment(place.device),
            )
            for action in _ACTIONS:
                trial = TrialSpec(
                    specification=specification,
                    action=action,
                    metric=_METRIC,
                    cache=cache,
                    stages=str(place.folder / f"checkpoints-{number}"),
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


def run_command(place: Place, model: Path, data: Path, number: int) -> Scores:
    """Runs the command line with a study file; results and cache are new each time."""
    folder = place.folder / f"study-{number}"
    folder.mkdir()
    (folder / "small.toml").write_text(format_study(place, model, data, folder), "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "study.run", str(folder / "small.toml")],
        cwd=root,
        env=kept | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return read_scores(folder / "results")


def read_scores(folder: Path) -> Scores:
    """Scores of every recorded evaluation of a study."""
    import pandas as pd  # a machine without it does the other parts

    files = sorted(folder.glob("runs/*/*scores.parquet"))
    return {f"{file.parent.name} {file.stem}": pd.read_parquet(file)["score"].to_numpy() for file in files}


def format_study(place: Place, model: Path, data: Path, folder: Path) -> str:
    """The study file: every smoothing has one configuration, so that nothing is searched."""
    smoothed = [name for name in _VARIANTS if name != "BERT"]
    sections: dict[str, dict[str, Any]] = {
        "task": {"name": "beir", "path": str(data)},
        "model": {"name": str(model), "max_length": _LENGTH},
        "training": make_training(place),
        "search": {"epsilon": [0.2], "switch": [0.5], "n_configurations": dict.fromkeys(smoothed, 1)},
        "analysis": {"metric": _METRIC},
        "resources": {"gpu": 0.5} if place.is_gpu else {},
        "tracking": {"mode": "disabled"},
        "output": {"folder": str(folder / "results")},
        "cache": {"folder": str(folder / "cache")},
    }
    lines = ['name = "small"', f"seeds = {list(_SEEDS)}", f"variants = {json.dumps(list(_VARIANTS))}"]
    for name, keys in sections.items():
        lines += [f"[{name}]", *(f"{key} = {format_value(value)}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"


def format_value(value: Any) -> str:
    """A value as TOML: a table in one line, or what is the same in JSON."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {format_value(own)}' for key, own in value.items())} }}"
    return json.dumps(value)
