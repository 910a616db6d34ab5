"""Optuna samplers that a study may search with."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def make_tpe_sampler(seed: int, n_startup_trials: int) -> "BaseSampler":
    """Return a tree-structured Parzen estimator over all hyperparameters jointly.

    Each branch of a conditional space has its own estimator.
    """
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=n_startup_trials, multivariate=True, group=True, constant_liar=True)


def make_gp_sampler(seed: int, n_startup_trials: int) -> "BaseSampler":
    """Return a Gaussian process that treats results as noisy.

    Hyperparameters that only some schedules have are drawn at random.
    """
    from optuna.samplers import GPSampler

    return GPSampler(
        seed=seed, n_startup_trials=n_startup_trials, deterministic_objective=False, warn_independent_sampling=False
    )


def make_qmc_sampler(seed: int, n_startup_trials: int) -> "BaseSampler":
    """Return a sampler of scrambled Sobol points, which are evenly spread and do not depend on results."""
    from optuna.samplers import QMCSampler

    return QMCSampler(seed=seed, scramble=True, warn_asynchronous_seeding=False, warn_independent_sampling=False)


SAMPLERS: dict[str, Callable[[int, int], "BaseSampler"]] = {
    "tpe": make_tpe_sampler,
    "gp": make_gp_sampler,
    "qmc": make_qmc_sampler,
}
"""Name -> function of (seed, proposals before results are used) that returns a sampler.

The grid needs none, since it has an order."""
