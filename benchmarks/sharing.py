"""What remembered stages save: five switch points, LS and BERT at one epsilon, each run alone and with shared stages.

python -m benchmarks.sharing [SEEDS]
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch
import transformers

from benchmarks.measure import machine
from study.config.loader import load_study
from trainables.data.ranking_preparation import prepare_data
from trainables.models import pretrained as weights
from trainables.rankers.precompute import precompute_inputs
from trainables.rankers.runner import RankerRun
from trainables.smoothing.schedules import compute_switch_instances
from trainables.specs import environment
from trainables.specs.ranker import LabelSmoothing, RankerRunSpec
from trainables.specs.trial import TrialSpec

_INSTANCES, _EPSILON, _PARTS = 2880, 0.2, 6
"""Long enough that training, not the evaluation of 2,000 pairs, is most of a run, as in the papers' 50,000."""


class Total(NamedTuple):
    """What a study's runs came to."""

    trained: int
    seconds: float
    weights: list[str | None]


def variants() -> list[LabelSmoothing]:
    """BERT, LS, and T-LS at each switch point."""
    smoothed = LabelSmoothing(distribution="uniform", epsilon=_EPSILON)
    two_stage = smoothed.model_copy(update={"schedule": "two_stage"})
    switches = [part / _PARTS for part in range(1, _PARTS)]
    return [LabelSmoothing(), smoothed, *(two_stage.model_copy(update={"switch": part}) for part in switches)]


def jobs(seed: int) -> list[TrialSpec]:
    """Every run of one seed, on the quick study's data and model."""
    study = load_study("quick")
    training = environment.resolve_precision(study.training).model_copy(
        update={"instances": _INSTANCES, "evaluations": 1}
    )
    path = weights.resolve_model_path(study.model.name)
    cuts = tuple(compute_switch_instances(part / _PARTS, _INSTANCES, training.batch_size) for part in range(1, _PARTS))
    prepared = prepare_data(study.task, study.cache, print)
    base = RankerRunSpec(
        task=prepared.settings,
        data=prepared.fingerprint,
        model=study.model.model_copy(update={"name": weights.hash_model_files(path)}),
        training=training,
        environment=environment.detect_environment(),
    )
    return [
        TrialSpec(
            specification=base.model_copy(update={"variant": variant.canonicalize(), "seed": seed}),
            metric=study.analysis.metric,
            cache=study.cache,
            model_path=path,
            cuts=cuts,
        )
        for variant in variants()
    ]


def total(made: list[TrialSpec], shared: bool) -> Total:
    """Runs everything; stages in one folder, or in one for each run."""
    trained, hashes, started = 0, [], time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for number, job in enumerate(made):
            stages = str(Path(folder, "all" if shared else str(number)))
            run = RankerRun(job.model_copy(update={"stages": stages, "cuts": job.cuts if shared else ()}))
            while (outcome := run.advance()) is None:
                pass
            trained += outcome.instances_trained
            hashes.append(outcome.weights_hash)
    return Total(trained, time.perf_counter() - started, hashes)


def main() -> None:
    """Prints the ratios."""
    transformers.logging.disable_progress_bar()
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    made = jobs(1)
    for _ in precompute_inputs(made[0]):
        pass
    torch.set_num_threads(1)
    total(made[:1], shared=False)  # warm
    print(
        f"{machine()}, {environment.detect_environment().instruction_set}: "
        f"{len(made)} runs of {_INSTANCES} instances a seed"
    )
    for seed in range(1, seeds + 1):
        alone, shared = total(jobs(seed), shared=False), total(jobs(seed), shared=True)
        equal = sum(one == other for one, other in zip(alone.weights, shared.weights, strict=True))
        ratios = (
            f"{name} {one:.0f} alone, {other:.0f} shared, ratio {other / one:.3f}"
            for name, one, other in (
                ("instances trained", alone.trained, shared.trained),
                ("seconds", alone.seconds, shared.seconds),
            )
        )
        print(f"  seed {seed}: {'; '.join(ratios)}; {equal} of {len(made)} final weights equal", flush=True)
    print(f"  4.5 / 7 is {4.5 / 7:.3f}")


if __name__ == "__main__":
    main()
