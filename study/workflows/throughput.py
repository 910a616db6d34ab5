"""How fast this study's runs would be: real training, side by side on every place of this machine or of the cluster."""

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
"""Of training; with the start, the loading of the model and the evaluation it is about a minute."""


def measure_study_throughput(
    study: Study, log: Callable[[str], None], seconds: float = _TRAINING_SECONDS
) -> Throughput:
    """Prepares the data if need be, then trains as many runs side by side as the study would.

    Args:
        study: what was asked for.
        say: told what is being done.
        seconds: of training.

    Returns:
        What one run of those did in a second, in the mean.

    Raises:
        UserError: the task or the model is not what the study says, or there is no way into its cluster.
    """
    connect_or_check(study)
    study, resolved, prepared = resolve_study(study, log)
    factory = ConfigurationFactory(study.model_copy(update={"task": prepared.settings}), resolved, "")
    baseline = factory.make_configuration(study.study_type.baseline, Params(), study.seeds, "baseline")
    job = factory.make_request(baseline, baseline.runs[0], "train").trial
    measured = _measure_in_parallel(study, job, seconds, log)
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
        from study.execution import nodes  # it loads ray

        max_concurrent = nodes.get_cluster_concurrency(study)
        log(f"calibrating: {seconds:.0f} s of training, {max_concurrent} at once on the cluster")
        return nodes.map_on_cluster(study, measure_throughput, [(trial, seconds)] * max_concurrent)
    max_concurrent = get_local_concurrency(study)
    log(f"calibrating: {seconds:.0f} s of training, {max_concurrent} at once")
    with ProcessPoolExecutor(max_concurrent, get_context("spawn"), exit_with_parent) as pool:
        with block_sigint():
            measured = pool.map(measure_throughput, [trial] * max_concurrent, [seconds] * max_concurrent)
        return list(measured)
