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
"""Decimals of values of a usual size."""
_USUAL = (-6, 2)
"""Powers of ten that the largest value of a usual size is between."""


def count_decimals(*values: Floats) -> int:
    """Return how many decimals of a difference of these values are not rounding errors: 12 for values of a usual size.

    Larger values have fewer decimals and smaller ones more, so the unit of the values does not matter.

    Example:
        >>> import numpy as np
        >>> [count_decimals(np.array([size])) for size in (0.0, 0.5, 100.0, 1e6, 1e-10)]
        [12, 12, 12, 8, 16]
    """
    largest = max((float(np.abs(own).max()) for own in values if own.size), default=0.0)
    if not 0 < largest < math.inf:
        return _DECIMALS
    power = math.ceil(math.log10(largest))
    return _DECIMALS - (power - min(max(power, _USUAL[0]), _USUAL[1]))


def round_off(values: Floats) -> Floats:
    """Round values to the decimals of `count_decimals`."""
    rounded: Floats = np.round(values, count_decimals(values))
    return rounded
