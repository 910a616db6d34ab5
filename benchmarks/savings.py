"""The whole quick study, and what it would take with Ray Tune, Optuna and sentence-transformers.

The peer (`benchmarks.peer_study`) runs some of its trials: the same pairs in the same batches, the same weights, layers
and frozen layers, the same rates of learning and the same evaluations, two trials at once of one thread each. Between
them the quick study runs from nothing. What the peer takes for all of it is extrapolated by the runs of the plan. Then
this engine trains and scores some batches with its savings switched off, to tell what they contribute.

python -m benchmarks.savings [ROUNDS [KEY=VALUE ...]]    # of two trials of the peer; 2, which take about 15 minutes
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from analysis.data.configurations import format_score, mean_and_std
from analysis.data.measured_cost import MeasuredCost, compute_cost
from analysis.readers.study_reader import read_records
from benchmarks import contenders, peer_study
from benchmarks.engine_savings import Rates, list_training_rows, measure_savings
from benchmarks.measure import machine, run_apart
from benchmarks.peer_study import AT_ONCE, Outcome, Recipe, Round, Times, read_clocks, watch_processor
from study.config.schema import Study
from study.config.spaces import make_system_space
from study.plan.run_counts import count_runs
from study.scheduling.trials import ConfigurationFactory
from study.suites.suite_loader import load_one_study
from study.workflows.resolve import resolve_study
from trainables.data.ranking_tokens import make_input_rules
from trainables.rankers.ranker_run import RankerData
from trainables.specs.environment import detect_environment
from trainables.specs.trial import TrialSpec

_SYSTEM = "LS"
"""System that the peer trains: its smoothing is an argument of torch's cross entropy."""
_PACKAGES = ("ray", "optuna", "transformers", "sentence-transformers")


def make_trial(study: Study, resolved: Any, prepared: Any) -> TrialSpec:
    """A training of the system with the first seed."""
    factory = ConfigurationFactory(study.model_copy(update={"task": prepared.settings}), resolved, "")
    params = make_system_space(study, _SYSTEM).list_configurations()[0]
    runs = factory.make_configuration(_SYSTEM, params, study.seeds, "search")
    return factory.make_request(runs, runs.runs[0], "train").trial


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
    return Recipe(
        folder,
        str(trial.model_path),
        layers=model.num_layers,
        frozen=model.frozen_layers,
        max_length=model.max_length,
        arguments={
            "per_device_train_batch_size": training.batch_size,
            "learning_rate": training.learning_rate,
            "weight_decay": training.weight_decay,
            "max_grad_norm": training.gradient_norm,
            "warmup_steps": training.warmup,
            "lr_scheduler_type": {"constant": "constant_with_warmup", "linear": "linear"}[training.decay],
        },
        evaluations=len(training.list_evaluation_points()),
        strengths=list(strengths),
    )


class Ours(NamedTuple):
    """The whole study by this project: its time, its instances, and R@1 of the runs of the system by split."""

    times: Times
    cost: MeasuredCost
    recalls: dict[str, list[float]]


def run_study(arguments: Sequence[str], metric: str) -> Ours:
    """Run the study by its command in a folder and a cache of its own, and read its records."""
    with tempfile.TemporaryDirectory() as place:
        folders = [f"output.folder={place}/results", f"cache.folder={place}/cache"]
        started = time.perf_counter()
        with watch_processor() as count_processor:
            command = [sys.executable, "-m", "study.run", *arguments, *folders]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times = np.array([time.perf_counter() - started, count_processor()])
        results = read_records(Path(place, "results"))
    own = [run.summary for run in results.runs if run.config["variant"] == _SYSTEM]
    recalls = {split: [one[key] for one in own if (key := f"{split}/{metric}") in one] for split in ("dev", "test")}
    return Ours(times, compute_cost(results), recalls)


class Work(NamedTuple):
    """Runs and test evaluations of a study, instances and dev evaluations of a training, and pairs of the splits."""

    trainings: int
    tests: int
    instances: int
    evaluations: int
    dev: int
    test: int

    @property
    def dev_evaluations(self) -> int:
        """Evaluations of dev by all runs."""
        return self.trainings * self.evaluations


def count_work(study: Study, data: RankerData) -> Work:
    """Count by the plan, as the dry run does."""
    rows = [row for row in count_runs(study) if row.system not in study.references]
    sizes, training = data.frame["split"].value_counts(), study.training
    return Work(
        trainings=sum(row.n_runs for row in rows),
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
    loading = work.trainings * mean["loading"] + work.tests * mean["test_loading"]
    return Total(work.trainings * mean["training"], scores, loading, measured.start + preparation)


def derive(work: Work, rates: Rates, share: float = 1.0) -> tuple[float, float]:
    """Processor seconds of training and of scores in the whole study at these rates, with a share of the training."""
    training = share * work.trainings * work.instances / rates.training
    return training, work.dev_evaluations * work.dev / rates.dev + work.tests * work.test / rates.test


def show_round(measured: Round) -> None:
    """Print the times of the peer's trials, and their R@1."""
    for one in measured.trials:
        cells = ["{:.0f} ({:.1f})".format(*value) if value.shape else f"{value:.4g}" for value in one]
        print(f"| {' | '.join(cells)} |", flush=True)


def show_recalls(rounds: Sequence[Round], ours: Ours) -> None:
    """Print what both reach."""
    trials = [one for each in rounds for one in each.trials]
    for split in ("dev", "test"):
        both = [getattr(one, f"{split}_recall") for one in trials], ours.recalls[split]
        peer, own = (
            f"{format_score(mean_and_std(np.reshape(values, (-1, 1))))} ({len(values)} runs)" for values in both
        )
        print(f"{split} R@1 of {_SYSTEM}: peer {peer}, this project {own}")


def show_ratio(work: Work, peer: Sequence[Total], ours: Ours) -> None:
    """Print what follows for the whole study."""
    middle = Total(*np.median(peer, axis=0))
    counts = f"{work.trainings} trainings, {work.tests} tests"
    print(f"\nextrapolated: the peer's {counts}:")
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
    trained = ours.cost.trained / (ours.cost.trained + ours.cost.shared)
    steps["shared beginnings"] = derive(work, [*rates.values()][-1], trained)
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
    count = int(number)
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
        recipe = run_apart(peer_study.choose_precisions, recipe)
        print(f"peer: training in {recipe.training}, dev in {recipe.dev}; ", end="")
        print(f"this project: both in {study.training.precision}; test in fp32", flush=True)
        names = [name.replace("_", " ") for name in Outcome._fields]
        print(f"\n| {' | '.join(names)} |\n{'|---' * len(names)}|")
        for each in range(count):
            seeds = [study.seeds[(each * AT_ONCE + one) % len(study.seeds)] for one in range(AT_ONCE)]
            rounds.append(run_apart(peer_study.search, recipe, seeds, place / f"tune-{each}"))
            show_round(rounds[-1])
            if each == (count - 1) // 2:
                ours = run_study(arguments, study.analysis.metric)
                print("\nthis project: the whole study in {:.0f} s ({:.0f}); ".format(*ours.times), end="")
                planned = ours.cost.trained + ours.cost.shared
                print(f"{ours.cost.trained:,} of {planned:,} instances trained\n", flush=True)
        show_load("after")
        rates = measure_savings(trial)
    peer = [extrapolate(work, each, preparation) for each in rounds]
    show_recalls(rounds, ours)
    show_ratio(work, peer, ours)
    show_savings(work, peer, ours, rates)


if __name__ == "__main__":
    main()
