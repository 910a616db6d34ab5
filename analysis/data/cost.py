"""What a study cost, by what its runs say of themselves."""

from typing import NamedTuple

from analysis.data.results import Results
from analysis.data.run import Run


class Cost(NamedTuple):
    """Sums over the runs of a study that ended; runs that it shares with other studies count in full.

    Attributes:
        runs: how many ended.
        failed: how many of them failed.
        seconds: of training and evaluation, one trial after the other.
        trained: instances that were trained on.
        shared: instances that were not, because another run had already been trained so far.
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


def compute_cost(results: Results) -> Cost:
    """Of a whole study."""
    runs = results.runs
    return Cost(
        runs=len(runs),
        failed=sum(not run.is_finished for run in runs),
        seconds=sum(compute_run_seconds(run, results.plan.test_split) or 0.0 for run in runs),
        trained=sum(int(run.summary.get("instances_trained", 0)) for run in runs),
        shared=sum(int(run.summary.get("instances_reused", 0)) for run in runs),
    )


def compute_run_seconds(run: Run, test_split: str) -> float | None:
    """Of a run and its test evaluation; None where it does not tell."""
    durations = [run.summary[key] for key in ("seconds", f"{test_split}/seconds") if key in run.summary]
    return float(sum(durations)) if durations else None
