"""A process that trains keeps the memory of freed tensors: allocating them again takes no pages from the system."""

import platform
import subprocess
import sys

import pytest

_WORK = """
import os, resource
import torch
from trainables.training.process import prepare_process
is_child = os.fork() == 0  # one keeps what is freed, the other gives it back
if is_child:
    prepare_process(1)
def use():
    _ = [torch.empty(1 << 22).fill_(1.0) for _ in range(5)]
def count_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
use()
counted = [count_faults() for _ in range(5)]
if not is_child:
    os.wait()
print(*counted, flush=True)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not GNU's")
def test_freed_memory_is_kept() -> None:
    # Huge pages would take few faults for any amount of memory; torch does not ask for them unless it is told to.
    done = subprocess.run([sys.executable, "-c", _WORK], capture_output=True, text=True, check=True)
    kept, given_back = ([int(number) for number in line.split()] for line in done.stdout.splitlines())
    pages_of_one_tensor = (1 << 24) // 4096
    assert max(given_back) > pages_of_one_tensor
    assert min(kept) < pages_of_one_tensor / 10  # a system short of memory takes pages back, too
