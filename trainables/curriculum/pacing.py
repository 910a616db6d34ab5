"""Pacing functions: the share of the training set, easiest first, that may be sampled at each step of training.

Penha and Hauff (2020), "Curriculum Learning Strategies for IR", section 3 and its table of pacing functions; linear and
root after Platanios et al. (2019). Loads no numpy.
"""

import re
from collections.abc import Callable
from functools import partial

PacingFunction = Callable[..., float]
"""(step, T, delta) -> share in (0, 1]: `step` the 0-based step, `T` the step at which all data is in, above 0, `delta`
the share at step 0, in (0, 1]."""

_ROOT = re.compile(r"root_([1-9]\d{0,5})")
_ALIASES = {"root": "root_2", "baseline": "standard", "geom_progression": "geometric_progression"}
"""Names of the paper and of its authors' code."""


def standard(step: float, T: float, delta: float = 0.33) -> float:
    """All data from the beginning: no curriculum."""
    _check_arguments(step, T, delta)
    return 1.0


def stepwise(step: float, T: float, delta: float = 0.33) -> float:
    """A third, two thirds, all; the thirds are .33 and .66 as in the paper, whatever delta."""
    _check_arguments(step, T, delta)
    return 0.33 if step <= 0.33 * T else 0.66 if step <= 0.66 * T else 1.0


def linear(step: float, T: float, delta: float = 0.33) -> float:
    """t (1 - delta) / T + delta."""
    _check_arguments(step, T, delta)
    return 1.0 if step >= T else min(1.0, step * (1 - delta) / T + delta)


def root(n: int, step: float, T: float, delta: float = 0.33) -> float:
    """(t (1 - delta^n) / T + delta^n)^(1/n): the slope falls as the data grows, the more so the larger n."""
    _check_arguments(step, T, delta)
    if step == 0:
        return delta  # delta^n is 0 in floating point where n is large
    return 1.0 if step >= T else min(1.0, (step * (1 - delta**n) / T + delta**n) ** (1 / n))


def geometric_progression(step: float, T: float, delta: float = 0.33) -> float:
    """2^(t (log2 1 - log2 delta) / T + log2 delta), which is delta^(1 - t/T): easy instances stay alone for longer."""
    _check_arguments(step, T, delta)
    return 1.0 if step >= T else min(1.0, delta ** (1 - step / T))


class _PacingRegistry(dict[str, PacingFunction]):
    """Finds root_n for every n, and the other names by which the paper calls a function."""

    def __missing__(self, name: str) -> PacingFunction:
        try:
            known = canonicalize_pacing(name)
        except ValueError as error:
            raise KeyError(str(error)) from None
        found = self.get(known)
        return partial(root, int(known.removeprefix("root_"))) if found is None else found


PACING: dict[str, PacingFunction] = _PacingRegistry(
    {
        "standard": standard,
        "step": stepwise,
        "linear": linear,
        **{f"root_{n}": partial(root, n) for n in (2, 5, 10, 20, 50)},
        "geometric_progression": geometric_progression,
    }
)
"""Name -> function; root_n is there for every n, the paper's are listed."""


def canonicalize_pacing(name: str) -> str:
    """The one name of a pacing function.

    Raises:
        ValueError: there is none of this name.
    """
    known = _ALIASES.get(name, name)
    if known not in PACING and not _ROOT.fullmatch(known):
        raise ValueError(f"no pacing function {name!r}; there are {', '.join(PACING)} and root_n for any n")
    return "linear" if known == "root_1" else known


def _check_arguments(step: float, T: float, delta: float) -> None:
    if step < 0 or T <= 0 or not 0 < delta <= 1:
        raise ValueError(f"expected step >= 0, T > 0 and delta in (0, 1], but got {step}, {T} and {delta}")
