"""Counts the runs of a study: of each system, with the seeds of the search and with fresh seeds."""

from collections.abc import Mapping
from typing import NamedTuple

from study.config.schema import UNTRAINED, Study
from study.config.spaces import count_proposals
from study.config.systems import get_baseline, list_trained_scores

SCORER = "scorer"
"""Name of the scoring run, which belongs to no system."""


class SystemRuns(NamedTuple):
    """Runs of one system.

    Attributes:
        configurations: configurations that are run in the search.
        seeds: runs of each of these configurations.
        confirmed: configurations that are run with fresh seeds, at most: the winner, and its default where the study
            chooses.
        fresh_seeds: runs of each of those.
        instances: training instances of one run; None if they are not known yet.

    Example:
        >>> runs = SystemRuns("LS", 2, 3, 2, 10, 10, instances=640)
        >>> runs.n_runs, runs.least_runs
        (26, 16)
    """

    system: str
    configurations: int
    seeds: int
    confirmed: int
    fresh_seeds: int
    tests: int
    instances: int | None

    @property
    def n_runs(self) -> int:
        """Number of runs, at most."""
        return self.configurations * self.seeds + self.confirmed * self.fresh_seeds

    @property
    def least_runs(self) -> int:
        """Number of runs if each winner is its default; a race or a budget may save more."""
        return self.configurations * self.seeds + min(1, self.confirmed) * self.fresh_seeds


def count_runs(study: Study, proposals: Mapping[str, int] | None = None) -> list[SystemRuns]:
    """Return the runs of the references, the systems and the scoring run, in this order.

    Args:
        study: the study.
        proposals: number of configurations that each searched system proposes. If None, as many as the study asks for.
    """
    proposals = count_proposals(study) if proposals is None else proposals
    n_seeds, n_fresh, n_tests = len(study.seeds), len(study.fresh_seeds), len(study.confirm.seeds or study.seeds)
    trainings = study.training, study.scorer_training
    length, scorer_length = (each.instances if each.epochs is None else None for each in trainings)
    untrained = SystemRuns(UNTRAINED, 1, n_seeds, 1, n_fresh, n_tests, 0)
    rows = [untrained if name == UNTRAINED else SystemRuns(name, 1, 1, 0, 0, 1, 0) for name in study.references]
    if (baseline := get_baseline(study)) not in proposals:
        rows.append(SystemRuns(baseline, 1, n_seeds, 1, n_fresh, n_tests, length))
    confirmed = 1 if study.reuses_search_seeds else 2
    rows += (SystemRuns(name, n, n_seeds, confirmed, n_fresh, n_tests, length) for name, n in proposals.items())
    if list_trained_scores(study):
        rows.append(SystemRuns(SCORER, 1, 1, 0, 0, 1, scorer_length))
    return rows
