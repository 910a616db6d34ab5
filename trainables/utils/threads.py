"""Temporary limit on the number of threads of torch."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Run torch on one thread inside the block.

    The rounding of a sum depends on how many threads share it. With one thread it does not depend on the machine.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
