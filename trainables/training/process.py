"""Settings of a process that trains or scores: torch computes the same bits every time, and freed memory is kept."""

import os

import torch

from trainables.utils.memory import keep_freed_memory


def prepare_process(threads: int) -> None:
    """Make torch compute the same bits every time, and keep the memory of freed tensors for the next ones.

    The number of threads is fixed, and kernels that add in an undefined order are not used.

    Args:
        threads: number of threads that torch computes with.
    """
    os.environ.setdefault(
        "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
    )  # read when CUDA starts; needed for deterministic matrix products
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # Deterministic algorithms also fill every new tensor by default. No tensor is read before it is written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    keep_freed_memory()
