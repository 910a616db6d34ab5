"""Schedules of the smoothing strength, and the published smoothing variants.

A variant is a pair of distribution and schedule: LS, T-LS, WSLS and T-WSLS are four cells of the table distribution x
schedule (Penha and Hauff 2021, "Weakly Supervised Label Smoothing", sections 2 and 3; two-stage schedules after Xu et
al. 2020). A new idea is a new row or a new column. The module does not load numpy.

Example:
    >>> [SCHEDULES["two_stage"](0.4, seen, 100, switch=0.5) for seen in (0, 49, 50)]
    [0.4, 0.4, 0.0]
    >>> {name: round(schedule(0.4, 50, 100, **get_defaults(name)), 3) for name, schedule in SCHEDULES.items()}
    {'constant': 0.4, 'two_stage': 0.0, 'linear': 0.15, 'exponential': 0.033, 'cosine': 0.2, 'beta': 0.2}
"""

import math
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from pydantic.fields import FieldInfo

from trainables.utils.base_settings import PositiveNumber, Settings
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


class TwoStageSettings(Settings):
    """Setting of the schedule two_stage."""

    switch: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Switch point, as share of training."""


def two_stage(epsilon: float, seen: int, total: int, switch: float) -> float:
    """Return epsilon before the switch point and 0 after it (Penha and Hauff 2021, T-LS and T-WSLS).

    Args:
        epsilon: strength of the smoothing at the start.
        seen: instances trained so far.
        total: instances of the whole training.
        switch: switch point as a share of training.

    Example:
        >>> [two_stage(0.2, seen, 100, switch=0.5) for seen in (0, 49, 50)]
        [0.2, 0.2, 0.0]
    """
    return epsilon if seen < compute_switch_instances(switch, total, 1) else 0.0


class LinearSettings(Settings):
    """Setting of the schedule linear."""

    end: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Point at which the strength reaches 0, as share of training."""


def linear(epsilon: float, seen: int, total: int, end: float) -> float:
    """Return a strength that falls in a straight line to 0 at `end`, a share of training.

    Penha and Hauff (2021), footnote 3; their code ends at 0.8.

    Example:
        >>> [round(linear(0.2, seen, 100, end=0.8), 3) for seen in (0, 40, 80, 100)]
        [0.2, 0.1, 0.0, 0.0]
    """
    return epsilon * max(0.0, 1 - seen / (end * total))


class ExponentialSettings(Settings):
    """Setting of the schedule exponential."""

    rate: PositiveNumber = 5.0
    """The strength falls by the factor exp(-rate) over the training."""


def exponential(epsilon: float, seen: int, total: int, rate: float) -> float:
    """Return a strength that falls as exp(-rate p), where p is the share of training that is done."""
    return epsilon * math.exp(-rate * seen / total)


def cosine(epsilon: float, seen: int, total: int) -> float:
    """Return a strength that falls along half a cosine: (1 + cos(pi p)) / 2.

    Here p is the share of training that is done.
    """
    return epsilon * (1 + math.cos(math.pi * seen / total)) / 2


class BetaSettings(Settings):
    """Settings of the schedule beta."""

    a: PositiveNumber = 2.0
    """First parameter of the distribution."""
    b: PositiveNumber = 2.0
    """Second parameter of the distribution."""


def beta(epsilon: float, seen: int, total: int, a: float, b: float) -> float:
    """Return a strength that falls as 1 - F(p), where F is the distribution function of Beta(a, b).

    Here p is the share of training that is done.
    """
    from scipy.special import betaincc  # imported here, because most command lines do not need it

    return epsilon * float(betaincc(a, b, seen / total))


def _check_schedule(entry: Entry, place: str) -> None:
    fields = entry.settings.model_fields if entry.settings else {}
    for name, field in fields.items():
        if field.is_required() or not isinstance(field.default, int | float):
            raise UserError(place, f"the setting {name}", "a number with a default")
        if name in SETTINGS and repr(SETTINGS[name]) != repr(field):
            raise UserError(
                place, f"the setting {name} of another schedule", "the same range and default, or a free name"
            )
    SETTINGS.update(fields)


SCHEDULES: Registry[Callable[..., float]] = Registry(
    Entry("constant", constant, "the strength throughout training", "Penha and Hauff (2021), LS and WSLS"),
    Entry(
        "two_stage",
        two_stage,
        "the strength until the switch point, then 0",
        "Xu et al. (2020); Penha and Hauff (2021), T-LS and T-WSLS",
        settings=TwoStageSettings,
    ),
    Entry(
        "linear",
        linear,
        "falls in a straight line to 0 at the end point",
        "Penha and Hauff (2021), footnote 3, and the code of its authors",
        settings=LinearSettings,
    ),
    Entry(
        "exponential",
        exponential,
        "falls as exp(-rate p), where p is the share of training that is done",
        "exponential decay, as of learning rates",
        settings=ExponentialSettings,
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
        settings=BetaSettings,
    ),
    check=_check_schedule,
)
"""Name -> function of (epsilon, instances seen, total instances, **settings).

It returns the strength of the smoothing in the next batch. The settings are numbers with a range and a default, fields
of `Entry.settings`."""
SETTINGS: dict[str, FieldInfo] = {}
"""Name -> setting of any schedule."""
for entry in SCHEDULES.entries:
    SETTINGS |= entry.settings.model_fields if entry.settings else {}


def get_defaults(schedule: str) -> dict[str, Any]:
    """Return the settings of a schedule with their defaults, which are the published values.

    Example:
        >>> get_defaults("beta")
        {'a': 2.0, 'b': 2.0}
    """
    settings = next(entry.settings for entry in SCHEDULES.entries if entry.name == schedule)
    return settings().model_dump() if settings else {}


def get_setting_type(name: str) -> Any:
    """Return the type of the values of a setting of a schedule, with its range."""
    field = SETTINGS[name]
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


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


def _check_variant(entry: Entry, place: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", entry.name):
        raise UserError(place, f"the name {entry.name!r}", "letters, digits and hyphens")


VARIANTS: Registry[Variant] = Registry(
    Entry("BERT", Variant("none", "constant"), "no smoothing", "Nogueira and Cho (2019)"),
    Entry("LS", Variant("uniform", "constant"), "label smoothing", "Szegedy et al. (2016); Penha and Hauff (2021)"),
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
    kind=Variant,
    check=_check_variant,
)
"""Name -> smoothing; `trainables.losses.variants` combines each with every loss."""
