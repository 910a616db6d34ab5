"""Cost of a study: runs, hours and instances, as its runs recorded them."""

from typing import NamedTuple

from analysis.data.recorded_run import Run
from analysis.data.study_results import Results


class MeasuredCost(NamedTuple):
    """Sums over the runs of a study that ended. Runs shared with other studies count in full.

    Attributes:
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


class RunSeconds(NamedTuple):
    """Seconds of the runs of a study.

    Attributes:
        train: seconds to train one run that shares nothing, with its evaluations on the development set.
        query: seconds to score one test query.
    """

    train: float
    query: float


def average_run_seconds(results: Results, queries: int) -> RunSeconds | None:
    """Average the seconds of the runs that train, over all instances that they train or share.

    Returns:
        None if no run of the study trained an instance itself, or none recorded the seconds of its test.
    """
    key = f"{results.plan.test_split}/seconds"
    training, lengths = list[tuple[float, int]](), list[tuple[float, int]]()
    for run in results.runs:
        own, shared = (int(run.summary.get(name, 0)) for name in ("instances_trained", "instances_reused"))
        if own:
            training.append((float(run.summary.get("seconds", 0)), own))
        if own + shared and key in run.summary:
            lengths.append((float(run.summary[key]), own + shared))
    if not training or not lengths or not queries:
        return None
    seconds, trained = map(sum, zip(*training, strict=True))
    test, length = map(sum, zip(*lengths, strict=True))
    train, query = seconds / trained * length / len(lengths), test / len(lengths) / queries
    return RunSeconds(train, query) if train > 0 and query > 0 else None


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
