"""Estimates how long a study takes, from its records or from a measurement.

Loads neither torch nor ray.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from study.config.schema import Study

if TYPE_CHECKING:
    from trainables.specs.plugin import Throughput


START_AND_REPORT = 30.0
"""Seconds of a study before its first trial and after its last one: Ray, libraries, report. An order of magnitude."""


class Cost(NamedTuple):
    """Estimated seconds of the parts of a study.

    Attributes:
        fixed: seconds of the start and the evaluations of one run.
        instance: seconds of training per instance.
        once: seconds for the whole study, in addition to its runs.
        source: origin of the estimate, in words.

    Example:
        >>> Cost(fixed=60, instance=0.5, test=30, once=0, source="").estimate_hours(runs=2, tests=1, instances=6900)
        1.0
    """

    fixed: float
    instance: float
    test: float
    once: float
    source: str

    def estimate_hours(self, runs: int, tests: int, instances: int) -> float:
        """Return the trial hours of so many runs, test evaluations and trained instances."""
        return sum(self.list_parts(runs, tests, instances).values()) / 3600

    def list_parts(self, runs: int, tests: int, instances: int) -> dict[str, float]:
        """Return the trial seconds of each part, by what is done in them."""
        return {
            "frozen layers": self.once,
            "starts and evaluations of runs": runs * self.fixed,
            "training": instances * self.instance,
            "test": tests * self.test,
        }


def estimate_cost_from_records(runs: Sequence[tuple[int, float]], tests: Sequence[float]) -> Cost | None:
    """Estimate the cost from recorded runs.

    The seconds of a run are a linear function of its instances, fitted to the recorded runs by least squares. They are
    proportional to the instances if all runs trained the same number, if the slope is not positive, or if the intercept
    is negative. Without recorded test evaluations, which the source then says, one takes as long as the intercept, or
    nothing if the seconds are proportional.

    Args:
        runs: for each finished run, the number of instances that it trained and its seconds.
        tests: seconds of the finished test evaluations.

    Returns:
        The cost, or None if no run trained anything.

    Example:
        >>> cost = estimate_cost_from_records([(100, 60.0), (200, 110.0)], [5.0])
        >>> round(cost.fixed, 3), round(cost.instance, 3), cost.test, cost.source
        (10.0, 0.5, 5.0, '2 recorded runs')
    """
    used = [(instances, seconds) for instances, seconds in runs if instances]
    if not used:
        return None
    counts, seconds = np.array(used, dtype=float).T
    test = float(np.mean(tests)) if len(tests) else 0.0
    source = f"{len(used)} recorded runs" + ("" if len(tests) else ", before any test score was timed")
    if len(set(counts)) > 1:
        slope, fixed = np.polyfit(counts, seconds, 1)
        if slope > 0 and fixed >= 0:
            return Cost(float(fixed), float(slope), test or float(fixed), 0.0, source)
    return Cost(0.0, float(seconds.sum() / counts.sum()), test, 0.0, source)


def estimate_cost_from_rates(
    study: Study, measured: "Sequence[Throughput]", queries: dict[str, int], where: str
) -> Cost:
    """Estimate the cost from the throughput of measured runs.

    Args:
        study: the study.
        measured: throughput of each run that was trained, as measured by `study.workflows.study_throughput`.
        queries: number of queries by split.
        where: the machine that measured, in words.
    """
    loading, training, evaluation = (
        fmean(getattr(each, name) for each in measured) for name in ("loading", "training", "evaluation")
    )
    frozen = [each.frozen for each in measured if each.frozen is not None]
    scores = {split: count * study.task.scores_per_query(split) for split, count in queries.items()}
    fixed = loading + len(study.training.list_evaluation_points()) * scores["dev"] / evaluation
    test = loading + scores["test"] / evaluation
    once = sum(scores.values()) / fmean(frozen) if frozen else 0.0
    return Cost(fixed, 1 / training, test, once, f"a measurement on {where}")
