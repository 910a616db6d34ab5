"""What may vary in label smoothing: the strength epsilon and, for two-stage schedules, the switch point."""

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise, product
from typing import TYPE_CHECKING, Literal, cast

from trainables.smoothing import VARIANTS
from trainables.specification import VariantSettings

if TYPE_CHECKING:
    from optuna import Trial

DEFAULTS = {"epsilon": 0.2, "switch": 0.5}
"""The papers' untuned values, always proposed first where the grid has them."""


def smoothing(trial: "Trial", variant: str, epsilons: Sequence[float], switches: Sequence[float]) -> VariantSettings:
    """Optuna's define-by-run space of one variant; a constant schedule has no switch point."""
    values = {"epsilon": _suggest(trial, "epsilon", epsilons)}
    if VARIANTS[variant].schedule == "two_stage":
        values["switch"] = _suggest(trial, "switch", switches)
    return settings(variant, values)


def _suggest(trial: "Trial", name: str, grid: Sequence[float]) -> float:
    """A value of the grid; where its values are evenly spaced, the sampler knows which of them are neighbours."""
    steps = {round(after - before, 9) for before, after in pairwise(grid)}
    if len(steps) != 1:
        return float(trial.suggest_categorical(name, list(grid)))
    low, step = round(grid[0], 9), steps.pop()
    high = Decimal(str(low)) + (len(grid) - 1) * Decimal(str(step))  # Optuna drops a last point that is off by a bit
    value = trial.suggest_float(name, low, float(high), step=step)
    return min(grid, key=lambda point: abs(point - value))


def settings(variant: str, values: dict[str, float]) -> VariantSettings:
    """The settings of a published variant at these values.

    Args:
        variant: a key of `trainables.smoothing.VARIANTS`.
        values: `epsilon`, and `switch` for a two-stage variant; the baseline takes none.
    """
    distribution, schedule = VARIANTS[variant]
    return VariantSettings(
        distribution=cast(Literal["none", "uniform", "weak_supervision"], distribution),
        schedule=cast(Literal["constant", "two_stage"], schedule),
        epsilon=values.get("epsilon", 0.0),
        switch=values.get("switch"),
    )


def size(variant: str, epsilons: Sequence[float], switches: Sequence[float]) -> int:
    """How many distinct configurations the grid of a variant holds."""
    if VARIANTS[variant].distribution == "none":
        return 1
    return len(list(product(epsilons, switches))) if VARIANTS[variant].schedule == "two_stage" else len(epsilons)
