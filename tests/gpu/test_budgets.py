"""A step and an evaluation take no more kernels, copies and waits than before."""

import pytest

from tests.gpu.budgets import CASES, KINDS, measure, read_budgets

pytestmark = pytest.mark.usefixtures("pretend_gpu")


@pytest.mark.parametrize("name", CASES)
def test_kernels_copies_and_waits_only_fall(name: str) -> None:
    counts, budget = measure(CASES[name]), read_budgets()[name]
    assert all(getattr(counts, kind) <= budget[kind] for kind in KINDS), f"more than {budget}: {counts}"
