"""Counter-based random numbers: a draw depends on (seed, purpose, step) only.

It does not depend on earlier draws, so a resumed run draws the same numbers as an uninterrupted one.
"""

import hashlib

import numpy as np


def derive_seed(seed: int, purpose: str, step: int) -> int:
    """Return a 63-bit seed that is a pure function of its arguments.

    Args:
        seed: seed of the run.
        purpose: name of the random stream.
        step: position in the stream.

    Example:
        >>> derive_seed(1, "dropout", 0) == derive_seed(1, "dropout", 0)
        True
        >>> derive_seed(1, "dropout", 0) == derive_seed(1, "dropout", 1)
        False
    """
    name = f"{seed}/{purpose}/{step}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1


def make_generator(seed: int, purpose: str, step: int) -> np.random.Generator:
    """Return a new Philox generator for one purpose at one step; the arguments are those of `derive_seed`.

    Example:
        >>> first, second = make_generator(1, "order", 0), make_generator(1, "order", 0)
        >>> bool((first.permutation(100) == second.permutation(100)).all())
        True
    """
    return np.random.Generator(np.random.Philox(key=derive_seed(seed, purpose, step)))
