"""The whole quick study, and what it would take with Ray Tune, Optuna and sentence-transformers.

The peer (`benchmarks.peer_study`) runs some of its trials: the same pairs in the same batches, the same weights, layers
and frozen layers, the same rates of learning and the same evaluations, two trials at once of one thread each. Between
them the quick study runs from nothing. What the peer takes for all of it is extrapolated by the runs of the plan. Then
this engine trains and scores some batches with its savings switched off, to tell what they contribute.

python -m benchmarks.savings [ROUNDS [KEY=VALUE ...]]    # of two trials of the peer; 2, which take about 15 minutes
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np
import torch

from analysis.readers.study_reader import read_records
from benchmarks import contenders, peer_study
from benchmarks.measure import machine
from benchmarks.peer_study import AT_ONCE, Outcome, Recipe, Round, Times, read_clocks, watch_processor
from study.config.schema import Study
from study.config.spaces import make_system_space
from study.execution.resolve import resolve_study
from study.plan.run_counts import count_runs
from study.scheduling.trials import ConfigurationFactory
from study.suites.suite_loader import load_one_study
from trainables.data.ranking_tokens import make_input_rules
from trainables.models.packing import PackedBatch
from trainables.models.scoring import Precision
from trainables.models.transformer import Transformer
from trainables.rankers.ranker_run import RankerData
from trainables.rankers.ranker_trainer import RankerTrainer
from trainables.specs.checkpoint_chain import Segment
from trainables.specs.environment import detect_environment
from trainables.specs.trial import TrialSpec
from trainables.text.tokens import TokenizedTexts
from trainables.training.batching import BatchSampler
from trainables.training.frozen_features import InMemoryFeatures, make_token_batch
from trainables.training.process import prepare_process
from trainables.utils.arrays import Ints

_SYSTEM = "LS"
"""System that the peer trains: its smoothing is an argument of torch's cross entropy."""
_WARM_UP, _BATCHES, _SCORED_QUERIES = 4, 16, 100
_PACKAGES = ("ray", "optuna", "transformers", "sentence-transformers")


def make_trial(study: Study, resolved: Any, prepared: Any) -> TrialSpec:
    """A training of the system with the first seed."""
    factory = ConfigurationFactory(study.model_copy(update={"task": prepared.settings}), resolved, "")
    params = make_system_space(study, _SYSTEM).list_configurations()[0]
    runs = factory.make_configuration(_SYSTEM, params, study.seeds, "search")
    return factory.make_request(runs, runs.runs[0], "train").trial


def list_training_rows(data: RankerData, trial: TrialSpec, seed: int) -> Ints:
    """Numbers of the pairs in the order in which a run of this seed trains on them."""
    pairs, training = data.select_pairs("train"), trial.specification.training
    sampler = BatchSampler(seed, training, pairs.rows)
    batches = [sampler.sample_rows(step) for step in range(training.instances // training.batch_size)]
    rows: Ints = pairs.first_row + np.concatenate(batches)
    return rows


def write_pairs(data: RankerData, trial: TrialSpec, seeds: Sequence[int], folder: Path) -> None:
    """Write the texts and labels of the pairs that the peer reads."""
    rules, prepared = make_input_rules(trial.specification.task), data.prepared
    queries = prepared.read_queries().set_index("query_id")["text"].map(rules.prepare_query)
    documents = prepared.read_documents().set_index("document_id")["text"].map(rules.prepare_document)
    table = data.frame[["split", "query_id", "document_id"]].assign(label=data.frame["relevant"])
    table["query"], table["document"] = table["query_id"].map(queries), table["document_id"].map(documents)
    for split in ("dev", "test"):
        table[table["split"] == split].to_parquet(folder / f"{split}.parquet")
    for seed in seeds:
        table.iloc[list_training_rows(data, trial, seed)].to_parquet(folder / f"train-{seed}.parquet")


def make_recipe(trial: TrialSpec, strengths: Sequence[float], folder: Path) -> Recipe:
    """The settings of the study as the peer takes them."""
    training, model = trial.specification.training, trial.specification.model
    arguments = {
        "per_device_train_batch_size": training.batch_size,
        "learning_rate": training.learning_rate,
        "weight_decay": training.weight_decay,
        "max_grad_norm": training.gradient_norm,
        "warmup_steps": training.warmup,
        "lr_scheduler_type": {"constant": "constant_with_warmup", "linear": "linear"}[training.decay],
    }
    layers = {"layers": model.num_layers, "frozen": model.frozen_layers, "max_length": model.max_length}
    return Recipe(
        folder,
        str(trial.model_path),
        **layers,
        arguments=arguments,
        evaluations=len(training.list_evaluation_points()),
        strengths=list(strengths),
    )


class Ours(NamedTuple):
    """The whole study by this project.

    Attributes:
        times: from the command to its end.
        trained: instances that were trained.
        planned: instances of all runs.
        recalls: R@1 of the runs of the system, by split.
    """

    times: Times
    trained: int
    planned: int
    recalls: dict[str, list[float]]


def run_study(arguments: Sequence[str], metric: str) -> Ours:
    """Run the study by its command in a folder and a cache of its own, and read its records."""
    place = Path(tempfile.mkdtemp())
    command = [sys.executable, "-m", "study.run", *arguments, f"output.folder={place}/results"]
    started = time.perf_counter()
    with watch_processor() as count_processor:
        subprocess.run([*command, f"cache.folder={place}/cache"], check=True, stdout=subprocess.DEVNULL)
    times = np.array([time.perf_counter() - started, count_processor()])
    runs = read_records(place / "results").runs
    shutil.rmtree(place)
    trained, reused = (sum(run.summary.get(f"instances_{name}", 0) for run in runs) for name in ("trained", "reused"))
    own = [run.summary for run in runs if run.config["variant"] == _SYSTEM]
    recalls = {split: [one[key] for one in own if (key := f"{split}/{metric}") in one] for split in ("dev", "test")}
    return Ours(times, trained, trained + reused, recalls)


class Rates(NamedTuple):
    """Pairs a processor second of one process."""

    training: float
    dev: float
    test: float


class FrozenEachTime:
    """Texts with outputs of the frozen layers that are computed at every read, in the precision of the pass.

    Unless `is_packed`, each has as many tokens as the longest that is read with it.
    """

    precision: Precision = "fp32"

    def __init__(self, texts: TokenizedTexts, model: Transformer, is_packed: bool) -> None:
        self.lengths, self._texts, self._model, self._is_packed = texts.lengths, texts, model, is_packed

    def read(self, rows: Ints) -> PackedBatch:
        batch = make_token_batch(self._texts, rows)
        batch = batch if self._is_packed else pad(batch)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16"):
            return batch._replace(inputs=self._model.run_frozen_layers(batch).float())


def pad(batch: PackedBatch) -> PackedBatch:
    """The texts of a batch with the length of the longest, as if what fills them were tokens."""
    longest = int(batch.lengths.max())
    inputs = torch.zeros(len(batch.lengths), longest, dtype=batch.inputs.dtype)
    inputs[torch.from_numpy(np.arange(longest) < batch.lengths[:, None])] = batch.inputs
    return batch._replace(inputs=inputs.reshape(-1), lengths=np.full_like(batch.lengths, longest))


def measure_engine(
    trial: TrialSpec, is_packed: bool, reads_first: bool, stores_frozen: bool, batches: int = _BATCHES
) -> Rates:
    """Rates of this engine on the first batches of a training and the first queries of dev, with some savings."""
    specification = trial.specification
    training, seed = specification.training, specification.seed
    prepare_process(training.threads)
    if not reads_first:
        settings = specification.model.model_copy(update={"pooling": "mean"})
        trial = trial.model_copy(update={"specification": specification.model_copy(update={"model": settings})})
    data = RankerData(trial)
    model, pairs = data.load_model(seed), data.select_pairs("train")
    scored = data.select_pairs("dev").select_queries(0, _SCORED_QUERIES)
    source: Any = FrozenEachTime(data.tokens, model, is_packed)
    if stores_frozen:
        trained = list_training_rows(data, trial, seed)[: (_WARM_UP + batches) * training.batch_size]
        rows = [*trained, *(scored.first_row + np.arange(len(scored.relevant)))]
        source = InMemoryFeatures(data.tokens, np.unique(rows), model)
    trainer, segment = (
        RankerTrainer(model, training, seed, source),
        Segment(0, training.instances, specification.variant),
    )

    def train(more: int) -> None:
        source.precision = training.precision
        trainer.train(segment, trainer.instances_seen + more * training.batch_size, pairs)

    def score(split: str) -> None:
        source.precision = training.get_scoring_precision(split)
        trainer.score_pairs(scored, source.precision)

    train(_WARM_UP)
    rates = [batches * training.batch_size / take_time(lambda: train(batches))]
    for split in ("dev", "test"):
        score(split)
        rates.append(len(scored.relevant) / take_time(lambda split=split: score(split)))
    return Rates(*rates)


_SAVINGS = {
    "this engine, padded, all tokens, frozen layers each time": (False, False, False),
    "no padding": (True, False, False),
    "last layer for [CLS] alone": (True, True, False),
    "frozen layers once": (True, True, True),
}
"""The switches of `measure_engine`: each has one saving more than the one before."""


def take_time(work: Callable[[], object]) -> float:
    """Processor seconds of some work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measure_savings(trial: TrialSpec) -> dict[str, Rates]:
    """Mean rates of as many processes as there are trials at once, by what is switched on."""
    found = dict[str, Rates]()
    with ProcessPoolExecutor(AT_ONCE, get_context("spawn")) as pool:
        for name, switches in _SAVINGS.items():
            both = [pool.submit(measure_engine, trial, *switches) for _ in range(AT_ONCE)]
            found[name] = Rates(*map(fmean, zip(*(each.result() for each in both), strict=True)))
    return found


class Work(NamedTuple):
    """Work of all trials of a study together.

    Attributes:
        trainings: runs that train.
        untrained: runs of the untrained model.
        tests: evaluations of test.
        instances: instances of a training.
        evaluations: evaluations of dev in a training.
        dev: pairs of dev.
        test: pairs of test.
    """

    trainings: int
    untrained: int
    tests: int
    instances: int
    evaluations: int
    dev: int
    test: int

    @property
    def dev_evaluations(self) -> int:
        """Evaluations of dev by all runs."""
        return self.trainings * self.evaluations + self.untrained


def count_work(study: Study, data: RankerData) -> Work:
    """Count by the plan, as the dry run does."""
    rows = [row for row in count_runs(study) if row.system not in study.reference_rankings]
    sizes, training = data.frame["split"].value_counts(), study.training
    return Work(
        trainings=sum(row.n_runs for row in rows if row.instances),
        untrained=sum(row.n_runs for row in rows if not row.instances),
        tests=sum(row.tests for row in rows),
        instances=training.instances,
        evaluations=len(training.list_evaluation_points()),
        dev=int(sizes["dev"]),
        test=int(sizes["test"]),
    )


class Total(NamedTuple):
    """Times of a whole study: of all its trials together, and of what happens once."""

    training: Times
    scores: Times
    loading: Times
    once: Times

    @property
    def times(self) -> Times:
        """From start to end: the trials run side by side, but each takes its own processor seconds."""
        return self.once + (self.training + self.scores + self.loading) / [AT_ONCE, 1]


def extrapolate(work: Work, measured: Round, preparation: Times) -> Total:
    """The whole study by the peer, with processes that start once and data that this project prepared."""
    mean = {name: np.mean([getattr(one, name) for one in measured.trials], axis=0) for name in Outcome._fields}
    scores = work.dev_evaluations * mean["dev"] / work.evaluations + work.tests * mean["test"]
    loading = (work.trainings + work.untrained) * mean["loading"] + work.tests * mean["test_loading"]
    return Total(work.trainings * mean["training"], scores, loading, measured.start + preparation)


def derive(work: Work, rates: Rates, share: float = 1.0) -> tuple[float, float]:
    """Processor seconds of training and of scores in the whole study at these rates, with a share of the training."""
    training = share * work.trainings * work.instances / rates.training
    return training, work.dev_evaluations * work.dev / rates.dev + work.tests * work.test / rates.test


def show_header() -> None:
    """Print the head of the table of the peer's trials."""
    print(f"\n| {' | '.join(name.replace('_', ' ') for name in Outcome._fields)} |\n{'|---' * len(Outcome._fields)}|")


def show_round(measured: Round) -> None:
    """Print the times of the peer's trials, and their R@1."""
    for one in measured.trials:
        cells = ["{:.0f} ({:.1f})".format(*value) if value.shape else f"{value:.4g}" for value in one]
        print(f"| {' | '.join(cells)} |", flush=True)


def show_ours(ours: Ours) -> None:
    """Print the times of this project's study."""
    print("\nthis project: the whole study in {:.0f} s ({:.0f}); ".format(*ours.times), end="")
    print(f"{ours.trained:,} of {ours.planned:,} instances trained\n", flush=True)


def show_recalls(rounds: Sequence[Round], ours: Ours) -> None:
    """Print what both reach."""
    trials = [one for each in rounds for one in each.trials]
    for split in ("dev", "test"):
        found = [getattr(one, f"{split}_recall") for one in trials]
        print(f"{split} R@1 of {_SYSTEM}: peer {describe(found)}, this project {describe(ours.recalls[split])}")


def describe(values: Sequence[float]) -> str:
    """Mean, standard deviation and number."""
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f} ({len(values)} runs)"


def show_ratio(work: Work, peer: Sequence[Total], ours: Ours) -> None:
    """Print what follows for the whole study."""
    middle = Total(*np.median(peer, axis=0))
    print(
        f"\nextrapolated: the peer's {work.trainings} trainings, {work.untrained} untrained runs, {work.tests} tests:"
    )
    for name, times in [*middle._asdict().items(), ("from start to end", middle.times)]:
        print("  {}: {:,.0f} s ({:,.0f})".format(name, *times))
    for place, name in enumerate(("by the clock", "by processor seconds")):
        ratios = [float(each.times[place] / ours.times[place]) for each in peer]
        print(f"ratio {name}: {median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})")


def show_savings(work: Work, peer: Sequence[Total], ours: Ours, rates: dict[str, Rates]) -> None:
    """Print the processor seconds of all trials with one saving after another, by the rates of some batches."""
    middle = Total(*np.median(peer, axis=0))
    steps = {"sentence-transformers": (middle.training[1], middle.scores[1])}
    steps |= {name: derive(work, each) for name, each in rates.items()}
    steps["shared beginnings"] = derive(work, [*rates.values()][-1], ours.trained / ours.planned)
    print("\nderived: processor seconds of all trials with one saving after another, and the factor of each")
    print("| | training | factor | scores | factor |\n|---|---|---|---|---|")
    before = steps["sentence-transformers"]
    for name, now in steps.items():
        print(f"| {name} | {now[0]:,.0f} | {before[0] / now[0]:.2f} | {now[1]:,.0f} | {before[1] / now[1]:.2f} |")
        before = now


def show_load(moment: str) -> None:
    """Print the time and the load of the machine."""
    print(f"{moment}: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Prints the ratio and its parts."""
    number, *overrides = sys.argv[1:] or ["2"]
    contenders.quiet()
    torch.set_num_threads(1)
    print(f"{machine()}, {detect_environment().instruction_set}, {AT_ONCE} trials at once of one thread each")
    print(", ".join(f"{name} {version(name)}" for name in _PACKAGES))
    arguments = ["quick", f"resources.concurrent={AT_ONCE}", "training.threads=1", *overrides]
    with tempfile.TemporaryDirectory() as folder:
        place, rounds, started = Path(folder), list[Round](), read_clocks()
        loaded = load_one_study("quick", [*arguments[1:], f"cache.folder={place}/cache"], None)
        study, resolved, prepared = resolve_study(loaded, None, lambda line: None)
        preparation, trial = read_clocks() - started, make_trial(study, resolved, prepared)
        data, strengths = RankerData(trial), study.search.smoothing_grid["epsilon"]
        write_pairs(data, trial, study.seeds, place)
        work, recipe = count_work(study, data), make_recipe(trial, strengths, place)
        show_load("before")
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            recipe = pool.submit(peer_study.choose_precisions, recipe).result()
        print(f"peer: training in {recipe.training}, dev in {recipe.dev}; ", end="")
        print(f"this project: both in {study.training.precision}; test in fp32", flush=True)
        show_header()
        for each in range(int(number)):
            seeds = [study.seeds[(each * AT_ONCE + one) % len(study.seeds)] for one in range(AT_ONCE)]
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                rounds.append(pool.submit(peer_study.search, recipe, seeds, place / f"tune-{each}").result())
            show_round(rounds[-1])
            if each == (int(number) - 1) // 2:
                ours = run_study(arguments, study.analysis.metric)
                show_ours(ours)
        show_load("after")
        rates = measure_savings(trial)
    peer = [extrapolate(work, each, preparation) for each in rounds]
    show_recalls(rounds, ours)
    show_ratio(work, peer, ours)
    show_savings(work, peer, ours, rates)


if __name__ == "__main__":
    main()
