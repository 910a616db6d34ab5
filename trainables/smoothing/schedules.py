"""Schedules of the smoothing strength, and the published smoothing variants.

A variant is a pair of distribution and schedule: LS, T-LS, WSLS and T-WSLS are four cells of the table distribution x
schedule (Penha and Hauff 2021, "Weakly Supervised Label Smoothing", sections 2 and 3; two-stage schedules after Xu et
al. 2020). A new idea is a new row or a new column. The module does not load numpy.

Example:
    >>> [SCHEDULES["two_stage"](0.4, seen, 100, switch=0.5) for seen in (0, 49, 50)]
    [0.4, 0.4, 0.0]
    >>> {name: round(schedule(0.4, 50, 100), 3) for name, schedule in SCHEDULES.items()}
    {'constant': 0.4, 'two_stage': 0.0, 'linear': 0.15, 'exponential': 0.033, 'cosine': 0.2, 'beta': 0.2}
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

from pydantic import Field

from trainables.smoothing.signatures import Searched, complete_schedule
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry, Registry


def compute_switch_instances(switch: float, total: int, batch_size: int) -> int:
    """Return the instance at which a two-stage schedule drops to 0.

    Args:
        switch: switch point as a share of training.
        total: instances of the whole training.
        batch_size: instances per batch.

    Returns:
        `switch` x `total`, rounded up to a whole batch.

    Example:
        >>> compute_switch_instances(0.5, total=100, batch_size=32)
        64
    """
    return math.ceil(round(switch * total / batch_size, 9)) * batch_size


def constant(epsilon: float, seen: int, total: int) -> float:
    """Return epsilon throughout training."""
    return epsilon


def two_stage(
    epsilon: float,
    seen: int,
    total: int,
    switch: Annotated[
        float,
        Field(ge=0, description="Switch points of the schedule two_stage, as share of training.", examples=[0.25, 0.5]),
        Searched((0.25, 0.5, 0.75), Field(gt=0, lt=1), "share of training"),
    ] = 0.5,
    batch_size: int = 1,
) -> float:
    """Return epsilon before the switch point and 0 after it (Penha and Hauff 2021, T-LS and T-WSLS).

    The switch is checked before every batch.

    Args:
        epsilon: strength of the smoothing at the start.
        seen: instances trained so far.
        total: instances of the whole training.
        switch: switch point as a share of training, default 0.5.
        batch_size: instances per batch; the switch point is rounded up to a whole batch. Default 1.

    Example:
        >>> [two_stage(0.2, seen, 100) for seen in (0, 49, 50)]
        [0.2, 0.2, 0.0]
    """
    return epsilon if seen < compute_switch_instances(switch, total, batch_size) else 0.0


def linear(
    epsilon: float,
    seen: int,
    total: int,
    end: Annotated[
        float,
        Field(
            gt=0,
            description="End points of the schedule linear, which reaches 0 there, as share of training.",
            examples=[0.5, 0.8],
        ),
        Searched(limits=Field(gt=0, le=1), unit="share of training"),
    ] = 0.8,
) -> float:
    """Return a strength that falls in a straight line to 0 at `end`, a share of training.

    Penha and Hauff (2021), footnote 3; their code ends at 0.8.

    Example:
        >>> [round(linear(0.2, seen, 100), 3) for seen in (0, 40, 80, 100)]
        [0.2, 0.1, 0.0, 0.0]
    """
    return epsilon * max(0.0, 1 - seen / (end * total))


def exponential(
    epsilon: float,
    seen: int,
    total: int,
    rate: Annotated[
        float,
        Field(
            gt=0,
            description="Rates of the schedule exponential; the strength falls by the factor exp(-rate) over the "
            "training.",
            examples=[2.0, 5.0],
        ),
    ] = 5.0,
) -> float:
    """Return a strength that falls as exp(-rate p), where p is the share of training that is done."""
    return epsilon * math.exp(-rate * seen / total)


def cosine(epsilon: float, seen: int, total: int) -> float:
    """Return a strength that falls along half a cosine: (1 + cos(pi p)) / 2.

    Here p is the share of training that is done.
    """
    return epsilon * (1 + math.cos(math.pi * seen / total)) / 2


def beta(
    epsilon: float,
    seen: int,
    total: int,
    a: Annotated[float, Field(gt=0, description="First parameter of the schedule beta.", examples=[1.0, 2.0])] = 2.0,
    b: Annotated[float, Field(gt=0, description="Second parameter of the schedule beta.", examples=[1.0, 2.0])] = 2.0,
) -> float:
    """Return a strength that falls as 1 - F(p), where F is the distribution function of Beta(a, b).

    Here p is the share of training that is done.
    """
    from scipy.special import betaincc  # imported here, because most command lines do not need it

    return epsilon * float(betaincc(a, b, seen / total))


SCHEDULES: Registry[Callable[..., float]] = Registry(
    Entry(
        "constant",
        constant,
        "the strength throughout training",
        "Penha and Hauff (2021), LS and WSLS",
    ),
    Entry(
        "two_stage",
        two_stage,
        "the strength until the switch point, then 0",
        "Xu et al. (2020); Penha and Hauff (2021), T-LS and T-WSLS",
    ),
    Entry(
        "linear",
        linear,
        "falls in a straight line to 0 at the end point",
        "Penha and Hauff (2021), footnote 3, and the code of its authors",
    ),
    Entry(
        "exponential",
        exponential,
        "falls as exp(-rate p), where p is the share of training that is done",
        "exponential decay, as of learning rates",
    ),
    Entry(
        "cosine",
        cosine,
        "falls along half a cosine, from the strength to 0",
        "Loshchilov and Hutter (2017), for learning rates",
    ),
    Entry(
        "beta",
        beta,
        "falls as 1 - F(p), where F is the distribution function of Beta(a, b)",
        "Beta distribution, as in scipy.stats.beta",
    ),
    group="schedules",
    complete=complete_schedule,
)
"""Name -> function of (epsilon, instances seen, total instances, **settings).

It returns the strength of the smoothing in the next batch. The options of an entry are its function's settings: see
`trainables.smoothing.signatures`."""


class Variant(NamedTuple):
    """One cell of the table: a smoothing distribution and a schedule of its strength, with the loss that is smoothed.

    Attributes:
        distribution: what the target is mixed with.
        schedule: how the strength changes during training.
        n_configurations: number of configurations that the search proposes, if the study file does not say.
        compared_with: variants that it is compared with, in addition to the baseline, if a study has both.
        loss: loss of a ranker; None if the trainable has one loss, or for every loss (`trainables.losses.variants`).
    """

    distribution: str
    schedule: str
    n_configurations: int = 2
    compared_with: tuple[str, ...] = ()
    loss: str | None = None


def _check_variant(entry: Entry, others: Sequence[Entry]) -> Entry:
    """Return the entry of a variant that is a row with a name that may be part of another one."""
    if not isinstance(entry.load_target(), Variant):
        raise UserError(entry.place, repr(entry.target), "a Variant of trainables.smoothing.schedules")
    if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", entry.name):
        raise UserError(entry.place, f"the name {entry.name!r}", "letters, digits and hyphens")
    return entry


VARIANTS: Registry[Variant] = Registry(
    Entry("BERT", Variant("none", "constant"), "no smoothing", "Nogueira and Cho (2019)"),
    Entry(
        "LS",
        Variant("uniform", "constant"),
        "label smoothing",
        "Szegedy et al. (2016); Penha and Hauff (2021)",
    ),
    Entry(
        "T-LS",
        Variant("uniform", "two_stage", n_configurations=3),
        "label smoothing until a switch point",
        "Xu et al. (2020); Penha and Hauff (2021)",
    ),
    Entry(
        "WSLS",
        Variant("weak_supervision", "constant"),
        "label smoothing by the scores of the negative sampler",
        "Penha and Hauff (2021)",
    ),
    Entry(
        "T-WSLS",
        Variant("weak_supervision", "two_stage", n_configurations=3, compared_with=("T-LS",)),
        "label smoothing by the scores of the negative sampler until a switch point",
        "Penha and Hauff (2021)",
    ),
    Entry(
        "LR",
        Variant("relaxation", "constant"),
        "label relaxation",
        "Lienen and Hüllermeier (2021); for rankers Sharma et al. (2025)",
    ),
    Entry(
        "T-LR",
        Variant("relaxation", "two_stage", n_configurations=3),
        "label relaxation until a switch point",
        "new here: the schedule of T-LS",
    ),
    group="variants",
    complete=_check_variant,
)
"""Name -> smoothing; `trainables.losses.variants` combines each with every loss."""
