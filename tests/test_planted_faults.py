"""The planted faults fit the present code."""

import pytest

from tests.planted_faults import ROOT, read_faults


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: fault.file)
def test_text_of_each_fault_occurs_once(fault):
    """The text that a fault replaces occurs once in its file, and its tests exist."""
    assert (ROOT / fault.file).read_text(encoding="utf-8").count(fault.old) == 1
    assert (ROOT / fault.caught_by.partition("::")[0]).is_file()
