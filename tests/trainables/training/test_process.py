"""A process that trains keeps the memory of freed tensors: allocating them again takes no pages from the system."""

import platform
import subprocess
import sys

import pytest

_WORK = """
import resource, sys
import torch
from trainables.training.process import prepare_process
if sys.argv[1] == "kept":
    prepare_process(1)
def use():
    _ = [torch.empty(1 << 22).fill_(1.0) for _ in range(5)]
def count_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
use()
print(*(count_faults() for _ in range(5)))
"""


def count_faults(kind: str) -> list[int]:
    # Huge pages would take few faults for any amount of memory; torch does not ask for them unless it is told to.
    done = subprocess.run([sys.executable, "-c", _WORK, kind], capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not GNU's")
def test_freed_memory_is_kept() -> None:
    pages_of_one_tensor = (1 << 24) // 4096
    assert max(count_faults("given back")) > pages_of_one_tensor
    assert min(count_faults("kept")) < pages_of_one_tensor / 10  # a system short of memory takes pages back, too
