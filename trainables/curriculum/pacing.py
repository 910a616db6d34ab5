"""Pacing functions: the share of the training queries that a batch may contain, by training step.

The share starts with the easiest queries. Penha and Hauff (2020), "Curriculum Learning Strategies for IR", section 3
and its table of pacing functions; linear and root after Platanios et al. (2019). Loads no numpy.

Example:
    >>> [PACING["linear"](step, T=100, delta=0.25) for step in (0, 50, 100)]
    [0.25, 0.625, 1.0]
    >>> PACING["root_137"](0, 10, 0.5)
    0.5
"""

from collections.abc import Callable
from functools import partial

from trainables.utils.registry import Entry, Registry

PacingFunction = Callable[..., float]
"""Function (step, T, delta) -> share in (0, 1].

`step` is the training step, from 0. `T` is the step from which on all data may be sampled, above 0. `delta` is the
share at step 0, in (0, 1].
"""


def standard(step: float, T: float, delta: float = 0.33) -> float:
    """Return 1: all data from the beginning, no curriculum."""
    _check_arguments(step, T, delta)
    return 1.0


def stepwise(step: float, T: float, delta: float = 0.33) -> float:
    """Return a third, two thirds, then 1; the thirds are .33 and .66 as in the paper, for every delta."""
    _check_arguments(step, T, delta)
    return 0.33 if step <= 0.33 * T else 0.66 if step <= 0.66 * T else 1.0


def linear(step: float, T: float, delta: float = 0.33) -> float:
    """Return t (1 - delta) / T + delta, the linear pacing at step t."""
    _check_arguments(step, T, delta)
    return 1.0 if step >= T else min(1.0, step * (1 - delta) / T + delta)


def root(n: int, step: float, T: float, delta: float = 0.33) -> float:
    """Return (t (1 - delta^n) / T + delta^n)^(1/n), the root pacing at step t.

    The slope decreases as the share grows; the larger n, the faster it decreases.

    Args:
        n: degree of the root.
        step: training step, from 0.
        T: step from which on all data may be sampled.
        delta: share at step 0.
    """
    _check_arguments(step, T, delta)
    if step == 0:
        return delta  # delta^n underflows to 0 if n is large
    return 1.0 if step >= T else min(1.0, (step * (1 - delta**n) / T + delta**n) ** (1 / n))


def geometric_progression(step: float, T: float, delta: float = 0.33) -> float:
    """Return 2^(t (log2 1 - log2 delta) / T + log2 delta) at step t, which equals delta^(1 - t/T).

    The easy queries are alone for longer than with linear pacing.
    """
    _check_arguments(step, T, delta)
    return 1.0 if step >= T else min(1.0, delta ** (1 - step / T))


def make_root(n: str) -> PacingFunction:
    """Return the root pacing of degree n, which is given as text."""
    return partial(root, int(n))


_PENHA = "Penha and Hauff (2020), section 3"
PACING: Registry[PacingFunction] = Registry(
    Entry("standard", standard, "all data from the beginning: no curriculum", _PENHA),
    Entry("step", stepwise, "a third of the data, two thirds, then all", _PENHA, ("duration",)),
    Entry("linear", linear, "grows by the same share in each step", "Platanios et al. (2019)", ("delta", "duration")),
    Entry(
        "root_n",
        make_root,
        "grows as an n-th root, n = 2, 3, 4, ...: the larger n, the faster at first",
        "Platanios et al. (2019), n = 2; Penha and Hauff (2020), n = 2, 5, 10, 20, 50",
        ("delta", "duration"),
        pattern=r"root_([2-9]|[1-9]\d{1,5})",
        examples=("root_2", "root_5", "root_10", "root_20", "root_50"),
    ),
    Entry(
        "geometric_progression",
        geometric_progression,
        "grows by the same factor in each step: slowly at first",
        _PENHA,
        ("delta", "duration"),
    ),
)
"""Pacing functions by name. root_n exists for every n; those of the paper are listed."""


def _check_arguments(step: float, T: float, delta: float) -> None:
    if step < 0 or T <= 0 or not 0 < delta <= 1:
        raise ValueError(f"expected step >= 0, T > 0 and delta in (0, 1], but got {step}, {T} and {delta}")
