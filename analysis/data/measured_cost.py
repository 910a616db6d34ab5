"""Cost of a study: runs, hours and instances, as its runs recorded them."""

from typing import NamedTuple

from analysis.data.recorded_run import Run
from analysis.data.study_results import Results


class MeasuredCost(NamedTuple):
    """Sums over the runs of a study that ended. Runs shared with other studies count in full.

    Attributes:
        runs: number of runs that ended.
        failed: number of those that failed.
        seconds: seconds of training and evaluation, as if the trials ran one after the other.
        trained: instances that were trained on.
        shared: instances that were not trained on again, because another run had the same start.
    """

    runs: int
    failed: int
    seconds: float
    trained: int
    shared: int

    @property
    def hours(self) -> float:
        """Trial hours."""
        return self.seconds / 3600


def compute_cost(results: Results) -> MeasuredCost:
    """Compute the cost of a whole study."""
    runs = results.runs
    return MeasuredCost(
        runs=len(runs),
        failed=sum(not run.is_finished for run in runs),
        seconds=sum(compute_run_seconds(run, results.plan.test_split) or 0.0 for run in runs),
        trained=sum(int(run.summary.get("instances_trained", 0)) for run in runs),
        shared=sum(int(run.summary.get("instances_reused", 0)) for run in runs),
    )


def compute_run_seconds(run: Run, test_split: str) -> float | None:
    """Return the seconds of a run and its test evaluation; None if they were not recorded."""
    durations = [run.summary[key] for key in ("seconds", f"{test_split}/seconds") if key in run.summary]
    return float(sum(durations)) if durations else None
