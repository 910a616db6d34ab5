"""Optuna's samplers that a study may search with."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def tpe(seed: int, startup: int) -> "BaseSampler":
    """Tree-structured Parzen estimator over all hyperparameters jointly, each branch of a conditional space apart."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=startup, multivariate=True, group=True, constant_liar=True)


def gp(seed: int, startup: int) -> "BaseSampler":
    """Gaussian process that takes results as noisy; draws what only some schedules have at random."""
    from optuna.samplers import GPSampler

    return GPSampler(
        seed=seed, n_startup_trials=startup, deterministic_objective=False, warn_independent_sampling=False
    )


def qmc(seed: int, startup: int) -> "BaseSampler":
    """Scrambled Sobol points: evenly spread, blind to results."""
    from optuna.samplers import QMCSampler

    return QMCSampler(seed=seed, scramble=True, warn_asynchronous_seeding=False, warn_independent_sampling=False)


SAMPLERS: dict[str, Callable[[int, int], "BaseSampler"]] = {"tpe": tpe, "gp": gp, "qmc": qmc}
"""Name -> (seed, proposals before results are looked at) -> sampler. The grid needs none: it has an order."""
