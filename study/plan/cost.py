"""How long a study takes: from what its records say, or from a calibration. Loads neither torch nor ray."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from study.config.schema import Study

if TYPE_CHECKING:
    from trainables.specs.plugin import Throughput


class Cost(NamedTuple):
    """Seconds of a trial."""

    fixed: float  # a run's start and evaluation
    instance: float
    test: float  # a test evaluation
    once: float  # for the whole study, beside its runs
    source: str

    def estimate_hours(self, runs: int, tests: int, instances: int) -> float:
        """Trial hours of so many runs, test evaluations and instances."""
        return (self.once + runs * self.fixed + tests * self.test + instances * self.instance) / 3600


def estimate_cost_from_records(runs: Sequence[tuple[int, float]], tests: Sequence[float]) -> Cost | None:
    """What records tell.

    Args:
        trained: of finished runs, instances trained and seconds.
        tests: seconds of finished test evaluations.

    Returns:
        None without a run that trained. A run's cost is a line through the recorded ones (least squares), or in
        proportion to its instances where they have all trained the same number.
    """
    used = [(instances, seconds) for instances, seconds in runs if instances]
    if not used:
        return None
    counts, seconds = np.array(used, dtype=float).T
    test = float(np.mean(tests)) if len(tests) else 0.0
    source = f"{len(used)} recorded runs"
    if len(set(counts)) > 1:
        slope, fixed = np.polyfit(counts, seconds, 1)
        if slope > 0 and fixed >= 0:
            return Cost(float(fixed), float(slope), test or float(fixed), 0.0, source)
    return Cost(0.0, float(seconds.sum() / counts.sum()), test, 0.0, source)


def estimate_cost_from_rates(study: Study, rates: "Throughput", queries: dict[str, int], where: str) -> Cost:
    """What a calibration tells.

    Args:
        study: what was asked for.
        rates: as `study.workflows.throughput` found them.
        queries: of each split, by name.
        where: the calibration ran, in words.
    """
    scores = {split: count * study.task.scores_per_query(split) for split, count in queries.items()}
    fixed = rates.loading + study.training.evaluations * scores["dev"] / rates.evaluation
    test = rates.loading + scores["test"] / rates.evaluation
    once = sum(scores.values()) / rates.frozen if rates.frozen else 0.0
    return Cost(fixed, 1 / rates.training, test, once, f"a calibration on {where}")
