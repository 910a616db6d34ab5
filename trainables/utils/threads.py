"""Torch on one thread for a while."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def use_one_thread() -> Iterator[None]:
    """The bits of a sum depend on how many threads share it; on one they do not depend on the machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
