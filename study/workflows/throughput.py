"""How fast this study's runs would be: real training, side by side on every place of this machine or of the cluster."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import fmean

from search_spaces.space import Point
from study.config.schema import Study
from study.execution.connect import address
from study.execution.resolve import resolve
from study.execution.slots import places, ready
from study.scheduling.trials import Maker
from trainables.specs.job import Job
from trainables.specs.plugin import Rates
from trainables.training.throughput import rates
from trainables.utils.system import deaf, end_with_parent

_SECONDS = 30.0
"""Of training; with the start, the loading of the model and the evaluation it is about a minute."""


def calibrate(study: Study, say: Callable[[str], None], seconds: float = _SECONDS) -> Rates:
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
    ready(study)
    study, resolved, prepared = resolve(study, say)
    maker = Maker(study.model_copy(update={"task": prepared.settings}), resolved, "")
    baseline = maker.system(study.kind.baseline, Point(), study.seeds, "baseline")
    job = maker.errand(baseline, baseline.runs[0], "train").job
    found = _side_by_side(study, job, seconds, say)
    frozen = [rate.frozen for rate in found if rate.frozen is not None]
    return Rates(
        loading=fmean(rate.loading for rate in found),
        frozen=fmean(frozen) if frozen else None,
        training=fmean(rate.training for rate in found),
        evaluation=fmean(rate.evaluation for rate in found),
    )


def _side_by_side(study: Study, job: Job, seconds: float, say: Callable[[str], None]) -> list[Rates]:
    if address(study) is not None:
        from study.execution import nodes  # it loads ray

        at_once = nodes.at_once(study)
        say(f"calibrating: {seconds:.0f} s of training, {at_once} at once on the cluster")
        return nodes.calls(study, rates, [(job, seconds)] * at_once)
    at_once = places(study)
    say(f"calibrating: {seconds:.0f} s of training, {at_once} at once")
    with ProcessPoolExecutor(at_once, get_context("spawn"), end_with_parent) as pool:
        with deaf():
            found = pool.map(rates, [job] * at_once, [seconds] * at_once)
        return list(found)
