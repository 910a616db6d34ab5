"""Throughput of a study's runs, measured by real training on this machine or on the cluster."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import fmean

from search_spaces.space import Params
from study.config.schema import Study
from study.execution.connect import get_cluster_address
from study.execution.resolve import resolve_study
from study.execution.slots import connect_or_check, get_local_concurrency
from study.scheduling.trials import ConfigurationFactory
from trainables.specs.plugin import Throughput
from trainables.specs.trial import TrialSpec
from trainables.training.throughput import measure_throughput
from trainables.utils.system import block_sigint, exit_with_parent

_TRAINING_SECONDS = 30.0
"""Seconds of training. With start-up, loading the model and the evaluation it takes about a minute."""


def measure_study_throughput(
    study: Study, log: Callable[[str], None], seconds: float = _TRAINING_SECONDS
) -> Throughput:
    """Prepare the data if necessary, then train as many runs concurrently as the study would.

    Args:
        study: the study as the command line describes it.
        log: called with a line for each step.
        seconds: seconds of training.

    Returns:
        The mean throughput of one of these runs. For its units see `Throughput`.

    Raises:
        UserError: the task or the model is not what the study says, or its cluster cannot be reached.
    """
    connect_or_check(study)
    study, resolved, prepared = resolve_study(study, log)
    factory = ConfigurationFactory(study.model_copy(update={"task": prepared.settings}), resolved, "")
    baseline = factory.make_configuration(study.study_type.baseline, Params(), study.seeds, "baseline")
    trial = factory.make_request(baseline, baseline.runs[0], "train").trial
    measured = _measure_in_parallel(study, trial, seconds, log)
    frozen = [rate.frozen for rate in measured if rate.frozen is not None]
    return Throughput(
        loading=fmean(rate.loading for rate in measured),
        frozen=fmean(frozen) if frozen else None,
        training=fmean(rate.training for rate in measured),
        evaluation=fmean(rate.evaluation for rate in measured),
    )


def _measure_in_parallel(
    study: Study, trial: TrialSpec, seconds: float, log: Callable[[str], None]
) -> list[Throughput]:
    if get_cluster_address(study) is not None:
        from study.execution.nodes import get_cluster_concurrency, map_on_cluster  # imports ray

        max_concurrent = get_cluster_concurrency(study)
        log(f"calibrating: {seconds:.0f} s of training, {max_concurrent} at once on the cluster")
        return map_on_cluster(study, measure_throughput, [(trial, seconds)] * max_concurrent)
    max_concurrent = get_local_concurrency(study)
    log(f"calibrating: {seconds:.0f} s of training, {max_concurrent} at once")
    with ProcessPoolExecutor(max_concurrent, get_context("spawn"), exit_with_parent) as pool:
        with block_sigint():
            measured = pool.map(measure_throughput, [trial] * max_concurrent, [seconds] * max_concurrent)
        return list(measured)
