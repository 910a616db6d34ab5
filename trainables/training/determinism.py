"""Determinism of torch: the same computation gives the same bits."""

import os

import torch


def enable_determinism(threads: int) -> None:
    """Make torch compute the same bits every time.

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
