"""Types of numpy arrays, and rounding that makes equal what differs by rounding errors alone.

The docstrings of the functions that use the types state the shapes.
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_DECIMALS = 12
"""Decimals of values up to 100."""


def count_decimals(*values: Floats) -> int:
    """Return how many decimals of a difference of these values are no rounding errors: 12 for values up to 100.

    Larger values have fewer.

    Example:
        >>> import numpy as np
        >>> [count_decimals(np.array([size])) for size in (0.0, 0.5, 100.0, 1e6)]
        [12, 12, 12, 8]
    """
    largest = max((float(np.abs(own).max()) for own in values if own.size), default=0.0)
    return _DECIMALS - math.ceil(math.log10(largest / 100)) if 100 < largest < math.inf else _DECIMALS


def round_off(values: Floats) -> Floats:
    """Round values to the decimals of `count_decimals`."""
    rounded: Floats = np.round(values, count_decimals(values))
    return rounded
