"""Learning rate and length of training at which a system of a study ranks best, found before the study is run.

The last of the training queries are left out of training, and ranked. So no dev or test query is used, and no seed of
the study. Two processes of one thread each train one combination after another.

python -m benchmarks.recipe STUDY [KEY=VALUE ...] --rates 2e-5 5e-5 --instances 4096 8192 --seeds 11 12 --held-out 600

STUDY can be a suite; --study KEY then names a study of it. Without --system, the baseline is trained. Another system
has its published configuration if the study searches that, or else the first of those that it searches, such as
search.epsilon=[0.4].
"""

import argparse
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cached_property, partial
from itertools import product
from multiprocessing import get_context
from statistics import fmean
from typing import NamedTuple

from benchmarks.measure import machine
from search_spaces.space import Params
from study.config.schema import Study
from study.config.spaces import make_system_space
from study.config.systems import get_baseline
from study.scheduling.trials import ConfigurationFactory
from study.suites.suite_loader import load_one_study
from study.workflows.resolve import resolve_study
from trainables.metrics import recall_at
from trainables.rankers.ranker_backend import precompute
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.rankers.ranker_trainer import Pairs
from trainables.specs.checkpoint_chain import get_run_segments
from trainables.specs.trial import TrialSpec
from trainables.utils.cli import Parser, report_errors

_LAST_BATCHES = 30
"""Batches over which the loss at the end of training is averaged."""


class Outcome(NamedTuple):
    """A training: its loss at the end, and R@1 of the queries that are left out."""

    rate: float
    instances: int
    seed: int
    loss: float
    recall: float
    seconds: float


class PilotRun(RankerRun):
    """A run that leaves the last of its training queries out and ranks them.

    Args:
        trial: the trial; its checkpoints are neither read nor written.
        held_out: number of queries that are left out.
    """

    def __init__(self, trial: TrialSpec, held_out: int) -> None:
        self.held_out = held_out  # the pairs are read while the run is made
        super().__init__(trial)

    @cached_property
    def _train_pairs(self) -> Pairs:
        pairs = self.data.select_pairs("train")
        return pairs.select_queries(0, len(pairs.rows) - self.held_out)

    def rank_held_out(self) -> Outcome:
        """Train, and rank the queries that are left out."""
        start, training = time.monotonic(), self._training
        for segment in get_run_segments(self.trial.specification):
            self._train(segment, segment.stop, lambda: None)
        seconds = time.monotonic() - start
        pairs = select_held_out(self.data, self.held_out)
        scores = self.trainer.score_pairs(pairs, training.get_scoring_precision("dev"))
        recall = float(pairs.rows.reduce(partial(recall_at, 1), scores, pairs.relevant).mean())
        losses = [row["train/loss"] for row in self.trainer.history if "train/loss" in row]
        seed = self.trial.specification.seed
        assert seed is not None
        loss = fmean(losses[-_LAST_BATCHES:]) if losses else float("nan")
        return Outcome(training.learning_rate, training.instances, seed, loss, recall, seconds)


def select_held_out(data: RankerData, held_out: int) -> Pairs:
    """Return the pairs of the last training queries."""
    pairs = data.select_pairs("train")
    return pairs.select_queries(len(pairs.rows) - held_out, len(pairs.rows))


def choose_configuration(study: Study, system: str) -> Params:
    """Return the published configuration of a system if the study searches it, or else the first that it searches."""
    return make_system_space(study, system).list_configurations()[0]


def run_pilot(trial: TrialSpec, held_out: int) -> Outcome:
    """Train one combination, and rank; the outputs of frozen layers are computed before, if there are any."""
    for _ in precompute(trial):
        pass
    return PilotRun(trial, held_out).rank_held_out()


def main() -> int:
    """Run the command and return its exit status."""
    parser = Parser("benchmarks.recipe", "Finds a learning rate and a length.")
    parser.add_argument("study")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--rates", type=float, nargs="+", required=True)
    parser.add_argument("--instances", type=int, nargs="+", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12])
    parser.add_argument("--held-out", type=int, default=600)
    parser.add_argument("--system")
    parser.add_argument("--study", dest="key", metavar="KEY")
    options = parser.parse_intermixed_args()
    return report_errors(parser.prog, lambda: find_recipe(options))


def find_recipe(options: argparse.Namespace) -> None:
    """Train all combinations, the longest first, and print their means over seeds."""
    loaded = load_one_study(options.study, options.overrides, options.key)
    study, resolved, prepared = resolve_study(loaded, None, print)
    name = options.system or get_baseline(study)
    params = choose_configuration(study, name)
    trials = list[TrialSpec]()
    for instances, rate in sorted(product({0, *options.instances}, options.rates), reverse=True):
        if instances == 0 and rate != options.rates[0]:
            continue  # the untrained model has no learning rate
        training = study.training.model_copy(update={"instances": instances, "learning_rate": rate})
        factory = ConfigurationFactory(
            study.model_copy(update={"task": prepared.settings, "training": training}), resolved, ""
        )
        runs = factory.make_configuration(name, params, options.seeds, "baseline")
        trials += [factory.make_request(runs, run, "train").trial for run in runs.runs]
    pairs = select_held_out(RankerData(trials[0]), options.held_out)
    print(", ".join([name, *(f"{key} {value}" for key, value in params.values.items())]))
    print(f"{machine()}, {resolved.environment.instruction_set}, {study.training.precision}")
    bm25 = pairs.rows.reduce(partial(recall_at, 1), pairs.scores, pairs.relevant)
    print(f"{len(bm25)} training queries left out; R@1 of their candidates by the sampler's scores {bm25.mean():.4f}")
    outcomes = defaultdict[tuple[int, float], list[Outcome]](list)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run_pilot, trial, options.held_out) for trial in trials]):
            one = done.result()
            outcomes[one.instances, one.rate].append(one)
            print(
                f"  {one.instances:6} instances, rate {one.rate:g}, seed {one.seed}: loss {one.loss:.3f}, "
                f"R@1 {one.recall:.4f}, {one.seconds:.0f} s",
                flush=True,
            )
    print("| instances | learning rate | loss | R@1 |\n|---|---|---|---|")
    for (instances, rate), own in sorted(outcomes.items()):
        values = ", ".join(f"{one.recall:.4f}" for one in sorted(own, key=lambda one: one.seed))
        loss, recall = fmean(one.loss for one in own), fmean(one.recall for one in own)
        print(f"| {instances:,} | {rate:g} | {loss:.3f} | {recall:.4f} ({values}) |")


if __name__ == "__main__":
    sys.exit(main())
