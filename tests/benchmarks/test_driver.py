"""The benchmark of the driver runs a real study: all its trials run at once, and each has its records."""

import pytest

from benchmarks.driver import measure
from benchmarks.measure import run_apart


@pytest.mark.long  # it starts Ray
def test_all_trials_of_the_measured_driver_run_at_once_and_have_their_records():
    found = run_apart(measure, 6, 2.0)
    assert (found.most_at_once, found.complete, found.trials) == (6, 9, 18)  # a third is of the untrained ranking
