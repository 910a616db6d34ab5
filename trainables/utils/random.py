"""Counter-based randomness: every draw is named by (seed, purpose, step), never by what was drawn before."""

import hashlib

import numpy as np


def derive_seed(seed: int, purpose: str, step: int) -> int:
    """A 63-bit integer that is a pure function of its name."""
    name = f"{seed}/{purpose}/{step}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1


def make_generator(seed: int, purpose: str, step: int) -> np.random.Generator:
    """A fresh Philox generator for one purpose at one step."""
    return np.random.Generator(np.random.Philox(key=derive_seed(seed, purpose, step)))
