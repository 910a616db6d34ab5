"""A part of the quick study as a user would write it with Ray Tune, Optuna and sentence-transformers.

`benchmarks.savings` writes the pairs that it reads, and measures it.
"""

import logging
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import transformers
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import CrossEntropyLoss

from benchmarks import contenders
from study.execution.connect import configure_ray_start
from study.execution.tuner import open_session
from trainables.models.precision import Precision
from trainables.specs.environment import has_bf16_units

AT_ONCE = 2
"""Trials at once, of one thread each."""
_PROBED_BATCHES, _PROBED_PAIRS, _BATCHES_OF_SCORES = 12, 320, (8, 32)


class Recipe(NamedTuple):
    """Settings of the trainings.

    Attributes:
        folder: folder with train-SEED.parquet, with rows in the order of training, dev.parquet and test.parquet.
        model: folder of the weights.
        layers: layers that are kept.
        frozen: of these, the first ones that are not trained; nor are the embeddings.
        max_length: tokens of a pair, at most.
        arguments: arguments of training.
        evaluations: evaluations of dev in a training.
        strengths: strengths of label smoothing to choose from.
        training: precision of training.
        dev: precision of the dev scores; those of test are in fp32.
        batches: batch size of scores, by precision.
    """

    folder: Path
    model: str
    layers: int
    frozen: int
    max_length: int
    arguments: dict[str, Any]
    evaluations: int
    strengths: list[float]
    training: Precision = "fp32"
    dev: Precision = "fp32"
    batches: Mapping[str, int] = {"fp32": 32, "bf16": 32}


Times = np.ndarray
"""Seconds by the clock, and seconds of the processor, shape (2,)."""


class Outcome(NamedTuple):
    """A trained and tested model: its times, of loading and saving too, and R@1."""

    epsilon: float
    seed: int
    training: Times
    dev: Times
    loading: Times
    test: Times
    test_loading: Times
    dev_recall: float
    test_recall: float


class Round(NamedTuple):
    """Trials at once, and the times of everything else: Ray, processes, libraries."""

    trials: list[Outcome]
    start: Times


def read_clocks() -> Times:
    """The clock, and the processor seconds of this process."""
    return np.array([time.perf_counter(), time.process_time()])


@contextmanager
def watch_processor() -> Iterator[Callable[[], float]]:
    """Yield a function that returns the processor seconds of all processes that this one starts in the block."""
    import psutil

    spent, is_over = dict[tuple[int, float], float](), Event()

    def watch() -> None:
        while not is_over.wait(0.5):
            for each in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    spent[each.pid, each.create_time()] = sum(each.cpu_times()[:2])

    thread = Thread(target=watch)
    thread.start()
    try:
        yield lambda: sum(spent.values())
    finally:
        is_over.set()
        thread.join()


class RankingEvaluator(BaseEvaluator):
    """R@1 of a split, and the seconds of its evaluations."""

    def __init__(self, recipe: Recipe, split: str, precision: Precision, pairs: int | None = None) -> None:
        super().__init__()
        self.table = pd.read_parquet(recipe.folder / f"{split}.parquet")[:pairs]
        self.pairs = list(zip(self.table["query"], self.table["document"], strict=True))
        self.precision, self.batch = precision, recipe.batches[precision]
        self.times, self.recall = np.zeros(2), 0.0

    def __call__(self, model: CrossEncoder, *arguments: Any, **names: Any) -> dict[str, float]:
        started = read_clocks()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
            logits = model.predict(self.pairs, batch_size=self.batch, show_progress_bar=False)
        scores = pd.Series(logits[:, 1] - logits[:, 0], self.table.index)
        first = scores.groupby(self.table["query_id"]).idxmax()
        self.recall = float(self.table.loc[first, "label"].mean())
        self.times += read_clocks() - started
        return {"R@1": self.recall}


def load_model(recipe: Recipe, seed: int) -> CrossEncoder:
    """The pretrained layers with a fresh head."""
    transformers.set_seed(seed)
    layers = {"num_hidden_layers": recipe.layers}
    model = CrossEncoder(recipe.model, num_labels=2, max_length=recipe.max_length, device="cpu", config_kwargs=layers)
    body = model.model.base_model
    for part in (body.embeddings, *body.encoder.layer[: recipe.frozen]):
        part.requires_grad_(False)
    return model


def make_trainer(
    recipe: Recipe, model: CrossEncoder, seed: int, epsilon: float, folder: str, **changes: Any
) -> CrossEncoderTrainer:
    """The trainer of a run; `changes` are arguments of training."""
    from datasets import Dataset

    table = pd.read_parquet(recipe.folder / f"train-{seed}.parquet")
    steps = len(table) // recipe.arguments["per_device_train_batch_size"] // recipe.evaluations
    evaluations = {"eval_strategy": "steps", "eval_steps": steps}
    arguments = contenders.arguments(folder, recipe.training) | recipe.arguments | evaluations | changes
    trainer = CrossEncoderTrainer(
        model=model,
        args=CrossEncoderTrainingArguments(**arguments | {"seed": seed, "batch_sampler": take_in_order}),
        train_dataset=Dataset.from_pandas(table[["query", "document", "label"]], preserve_index=False),
        evaluator=RankingEvaluator(recipe, "dev", recipe.dev),
        loss=CrossEntropyLoss(model, label_smoothing=epsilon),
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def take_in_order(dataset: Any, batch_size: int, drop_last: bool, **names: Any) -> DefaultBatchSampler:
    """Batches of the pairs in the order of the file."""
    return DefaultBatchSampler(torch.utils.data.SequentialSampler(dataset), batch_size, drop_last)


def train_model(recipe: Recipe, seed: int, epsilon: float, folder: str) -> dict[str, Any]:
    """Train a model, evaluate it on dev, and save it to a folder."""
    started = read_clocks()
    trainer = make_trainer(recipe, load_model(recipe, seed), seed, epsilon, folder)
    loaded = read_clocks()
    trainer.train()
    trained = read_clocks()
    trainer.model.save_pretrained(folder, create_model_card=False)
    dev, loading = trainer.evaluator.times, loaded - started + read_clocks() - trained
    found = {"epsilon": epsilon, "seed": seed, "dev_recall": trainer.evaluator.recall}
    return found | {"training": trained - loaded - dev, "dev": dev, "loading": loading}


def evaluate_model(recipe: Recipe, folder: str) -> dict[str, Any]:
    """Evaluate a saved model on test."""
    started = read_clocks()
    evaluator = RankingEvaluator(recipe, "test", "fp32")
    evaluator(CrossEncoder(folder, max_length=recipe.max_length, device="cpu"))
    loading = read_clocks() - started - evaluator.times
    return {"test": evaluator.times, "test_loading": loading, "test_recall": evaluator.recall}


def search(recipe: Recipe, seeds: Sequence[int], place: Path) -> Round:
    """Train a configuration that Optuna proposes with each of the seeds, in trials of Ray Tune, and test it."""
    started = time.perf_counter()
    from optuna.distributions import CategoricalDistribution
    from ray import tune
    from ray.tune.search import Repeater
    from ray.tune.search.optuna import OptunaSearch

    def train(config: Mapping[str, Any]) -> None:
        prepare_process()
        with tempfile.TemporaryDirectory() as folder:
            found = train_model(recipe, seeds[config["__trial_index__"]], config["epsilon"], folder)
            tune.report(found, checkpoint=tune.Checkpoint.from_directory(folder))

    def test(config: Mapping[str, Any]) -> None:
        prepare_process()
        tune.report({**evaluate_model(recipe, config["model"]), "model": config["model"]})

    space = {"epsilon": CategoricalDistribution(recipe.strengths)}
    repeated = tune.TuneConfig(
        search_alg=Repeater(OptunaSearch(space, metric="dev_recall", mode="max", seed=seeds[0]), len(seeds)),
        metric="dev_recall",
        mode="max",
        num_samples=len(seeds),
    )
    kept = tune.RunConfig(storage_path=str(place), verbose=0)
    with watch_processor() as count_processor, start_ray():
        results = tune.Tuner(train, tune_config=repeated, run_config=kept).fit()
        seconds = time.perf_counter() - started
        trained = {each.checkpoint.path: each.metrics for each in results}
        models = {"model": tune.grid_search(list(trained))}
        tested = [each.metrics for each in tune.Tuner(test, param_space=models, run_config=kept).fit()]
    joined = [one | trained[one["model"]] for one in tested]
    trials = [Outcome(**{name: np.asarray(one[name]) for name in Outcome._fields}) for one in joined]
    of_training = [one.training + one.dev + one.loading for one in trials]
    of_all = sum(of_training) + sum(one.test + one.test_loading for one in trials)
    return Round(trials, np.array([seconds - max(own[0] for own in of_training), count_processor() - of_all[1]]))


@contextmanager
def start_ray() -> Iterator[None]:
    """A session of Ray with a core for each trial, which leaves no files."""
    import ray

    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with open_session() as folder, configure_ray_start():
        ray.init(
            address="local",
            num_cpus=AT_ONCE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=200_000_000,
            _temp_dir=str(folder / "r"),
        )
        yield


def prepare_process() -> None:
    """One thread, and no messages between the figures."""
    contenders.quiet()
    torch.set_num_threads(1)


def choose_precisions(recipe: Recipe) -> Recipe:
    """The recipe with the precisions and the batch sizes of scores that are fastest here; prints the seconds."""
    prepare_process()
    precisions: list[Precision] = ["fp32", "bf16"] if has_bf16_units() else ["fp32"]
    training, scores = dict[Precision, float](), dict[tuple[Precision, int], float]()
    for precision in precisions:
        own = recipe._replace(training=precision)
        with tempfile.TemporaryDirectory() as folder:
            changes = {"max_steps": _PROBED_BATCHES, "eval_strategy": "no"}
            trainer = make_trainer(own, load_model(own, 1), 1, 0.1, folder, **changes)
            started = read_clocks()
            trainer.train()
        training[precision] = (read_clocks() - started)[1]
    for precision, batch in product(precisions, _BATCHES_OF_SCORES):
        evaluator = RankingEvaluator(recipe._replace(batches={precision: batch}), "dev", precision, _PROBED_PAIRS)
        evaluator(trainer.model)
        scores[precision, batch] = evaluator.times[1]
    print(f"peer: {_PROBED_BATCHES} batches " + ", ".join(f"{own} {s:.1f} s" for own, s in training.items()), end="; ")
    print(f"{_PROBED_PAIRS} scores " + ", ".join(f"{own} by {n} {s:.2f} s" for (own, n), s in scores.items()))
    fastest = {own: min(_BATCHES_OF_SCORES, key=lambda batch: scores[own, batch]) for own in precisions}
    dev = min(precisions, key=lambda own: scores[own, fastest[own]])
    return recipe._replace(training=min(precisions, key=training.__getitem__), dev=dev, batches=fastest)
