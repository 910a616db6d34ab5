"""How the strength of smoothing moves over training, and the published cells of the table distribution x schedule.

LS, T-LS, WSLS and T-WSLS are four cells of that table (Penha and Hauff 2021, "Weakly Supervised Label Smoothing",
sections 2 and 3; two-stage schedules after Xu et al. 2020). A new idea is a new row or column. Loads no numpy.
"""

import math
from collections.abc import Callable
from typing import NamedTuple


def compute_switch_instances(switch: float, total: int, batch_size: int) -> int:
    """The instance at which a two-stage schedule turns to 0: `switch` x `total`, rounded up to a whole batch."""
    return math.ceil(round(switch * total / batch_size, 9)) * batch_size


def constant(epsilon: float, seen: int, total: int) -> float:
    """Epsilon throughout."""
    return epsilon


def two_stage(epsilon: float, seen: int, total: int, switch: float = 0.5, batch_size: int = 1) -> float:
    """Epsilon until the switch point, then 0; checked before every batch (Penha and Hauff 2021, T-LS and T-WSLS)."""
    return epsilon if seen < compute_switch_instances(switch, total, batch_size) else 0.0


def linear(epsilon: float, seen: int, total: int, end: float = 0.8) -> float:
    """Falls in a straight line to 0 at `end`, a share of training.

    Penha and Hauff (2021), footnote 3; their code ends at 0.8.
    """
    return epsilon * max(0.0, 1 - seen / (end * total))


def exponential(epsilon: float, seen: int, total: int, rate: float = 5.0) -> float:
    """Falls as exp(-rate p), p the share of training that is done."""
    return epsilon * math.exp(-rate * seen / total)


def cosine(epsilon: float, seen: int, total: int) -> float:
    """Falls along half a cosine: (1 + cos(pi p)) / 2, p the share of training that is done."""
    return epsilon * (1 + math.cos(math.pi * seen / total)) / 2


def beta(epsilon: float, seen: int, total: int, a: float = 2.0, b: float = 2.0) -> float:
    """Falls as 1 - F(p), F the distribution function of Beta(a, b), p the share of training that is done."""
    from scipy.special import betaincc  # here, because command lines that only list do not need it

    return epsilon * float(betaincc(a, b, seen / total))


SCHEDULES: dict[str, Callable[..., float]] = {
    "constant": constant,
    "two_stage": two_stage,
    "linear": linear,
    "exponential": exponential,
    "cosine": cosine,
    "beta": beta,
}
"""Name -> (epsilon, instances seen, total instances, **settings) -> epsilon in force."""
SCHEDULE_SETTINGS: dict[str, dict[str, float]] = {
    "constant": {},
    "two_stage": {"switch": 0.5},
    "linear": {"end": 0.8},
    "exponential": {"rate": 5.0},
    "cosine": {},
    "beta": {"a": 2.0, "b": 2.0},
}
"""Name -> the settings that a user may choose, with their published values."""


class Variant(NamedTuple):
    """One cell of the table."""

    distribution: str
    schedule: str


VARIANTS = {
    "BERT": Variant("none", "constant"),
    "LS": Variant("uniform", "constant"),
    "T-LS": Variant("uniform", "two_stage"),
    "WSLS": Variant("weak_supervision", "constant"),
    "T-WSLS": Variant("weak_supervision", "two_stage"),
}
"""Published names."""
