"""Learning rate and length of training at which a system of a study ranks best, found before the study is run.

The last of the training queries are left out of training, and ranked. So no dev or test query is used, and no seed of
the study. With --held-out 0 the dev queries are ranked: for a study that chooses nothing by them. Each combination is
compared with BM25 and with the starting weights, by their cosine. Two processes of one thread each train one after
another.

python -m benchmarks.recipe STUDY [KEY=VALUE ...] --rates 2e-5 5e-5 --instances 4096 8192 --seeds 11 12 --held-out 600

STUDY can be a suite; --study KEY then names a study of it. Without --system, the baseline is trained. Another system
has its published configuration if the study searches that, or else the first of those that it searches, such as
search.epsilon=[0.4].
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cached_property, partial
from itertools import product
from multiprocessing import get_context
from statistics import fmean
from typing import NamedTuple

import pandas as pd

from analysis.compare import compare
from benchmarks.measure import machine
from search_spaces.space import Params
from study.config.schema import Study
from study.config.spaces import make_system_space
from study.config.systems import get_baseline
from study.scheduling.trials import ConfigurationFactory
from study.suites.suite_loader import load_one_study
from study.workflows.resolve import resolve_study
from trainables.metrics import recall_at
from trainables.rankers.cosine_ranking import compute_cosines
from trainables.rankers.ranker_backend import precompute
from trainables.rankers.ranker_run import RankerData, RankerRun
from trainables.rankers.ranker_trainer import Pairs
from trainables.specs.checkpoint_chain import get_run_segments
from trainables.specs.trial import TrialSpec
from trainables.utils.arrays import Floats
from trainables.utils.cli import Parser, report_errors

_LAST_BATCHES = 30
"""Batches over which the loss at the end of training is averaged."""


class Outcome(NamedTuple):
    """A training: its loss at the end, and R@1 of each query that is left out."""

    rate: float
    instances: int
    seed: int
    loss: float
    recalls: Floats
    seconds: float


class PilotRun(RankerRun):
    """A run that leaves the last of its training queries out and ranks them.

    Args:
        trial: the trial; its checkpoints are neither read nor written.
        held_out: number of queries that are left out. If 0, the dev queries are ranked.
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
        losses = [row["train/loss"] for row in self.trainer.history if "train/loss" in row]
        seed = self.trial.specification.seed
        assert seed is not None
        loss = fmean(losses[-_LAST_BATCHES:]) if losses else float("nan")
        return Outcome(training.learning_rate, training.instances, seed, loss, rank_first(pairs, scores), seconds)


def select_held_out(data: RankerData, held_out: int) -> Pairs:
    """Return the pairs of the last training queries, or of the dev queries."""
    if not held_out:
        return data.select_pairs("dev")
    pairs = data.select_pairs("train")
    return pairs.select_queries(len(pairs.rows) - held_out, len(pairs.rows))


def rank_first(pairs: Pairs, scores: Floats) -> Floats:
    """Return R@1 of each query, shape (queries,)."""
    return pairs.rows.reduce(partial(recall_at, 1), scores, pairs.relevant)


def rank_without_training(trial: TrialSpec, held_out: int) -> dict[str, Floats]:
    """Return R@1 of each query by BM25 (of training queries by their sampler), and by the starting weights' cosine."""
    data = RankerData(trial)
    pairs = select_held_out(data, held_out)
    candidates = data.frame.iloc[pairs.first_row : pairs.first_row + len(pairs.relevant)]
    first = {"sampler": pairs.scores} if held_out else {"BM25": candidates["bm25"].to_numpy(float)}
    scores = first | {"cosine": compute_cosines(trial, data.prepared, candidates)}
    return {name: rank_first(pairs, own) for name, own in scores.items()}


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
    print(", ".join([name, *(f"{key} {value}" for key, value in params.values.items())]))
    print(f"{machine()}, {resolved.environment.instruction_set}, {study.training.precision}")
    references = rank_without_training(trials[0], options.held_out)
    rows = [(system, None, *each) for system, own in references.items() for each in enumerate(own)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run_pilot, trial, options.held_out) for trial in trials]):
            one = done.result()
            system = f"{one.instances:,} at {one.rate:g}"
            rows += [(system, one.seed, *each) for each in enumerate(one.recalls)]
            print(
                f"  {system}, seed {one.seed}: loss {one.loss:.3f}, R@1 {one.recalls.mean():.4f}, {one.seconds:.0f} s",
                flush=True,
            )
    print(compare(pd.DataFrame(rows, columns=["system", "seed", "query", "value"]), [*references], metric="R@1"))


if __name__ == "__main__":
    sys.exit(main())
