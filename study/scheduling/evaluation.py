"""Evaluates the test scores of a study's records, for the looks of a sequential confirmation."""

from collections.abc import Mapping

import numpy as np

from analysis.comparisons.declared import Evaluate
from study.records.run_record import SPLITS
from study.records.run_store import RunStore
from study.scheduling.trials import Configuration
from trainables.utils.arrays import Floats


def make_test_evaluate(tested: Mapping[str, Configuration], store: RunStore) -> Evaluate:
    """Return a function that evaluates a system on the test set, as the analysis does from the same records.

    Args:
        tested: the configuration of each system, with the runs that count.
        store: the run records of the study.

    Returns:
        System, phase and metric -> (seeds, queries) values. None if a run is not finished or has a NaN score.
    """

    def evaluate(system: str, phase: str, metric: str) -> Floats | None:
        runs = tested[system].runs if system in tested else ()
        if not runs or not all(store.is_finished(run.id, split) for run in runs for split in SPLITS):
            return None
        values = np.stack([store.compute_per_query(run.id, metric, "test") for run in runs])
        return None if np.isnan(values).any() else values

    return evaluate
