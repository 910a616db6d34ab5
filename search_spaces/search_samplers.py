"""Optuna samplers that a study may search with."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from trainables.utils.registry import Entry, Registry

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


SAMPLERS: Registry[Callable[[int, int], "BaseSampler"]] = Registry(
    Entry(
        "tpe",
        make_tpe_sampler,
        "tree-structured Parzen estimator over all hyperparameters jointly",
        "Bergstra et al. (2011); optuna.samplers.TPESampler",
    ),
    Entry(
        "gp",
        make_gp_sampler,
        "Gaussian process that treats results as noisy",
        "Rasmussen and Williams (2006); optuna.samplers.GPSampler",
    ),
    Entry(
        "qmc",
        make_qmc_sampler,
        "scrambled Sobol points, evenly spread, which do not depend on results",
        "Sobol (1967), Owen (1998); optuna.samplers.QMCSampler",
    ),
    Entry(
        "grid",
        make_qmc_sampler,  # never asked, since the search takes the configurations in their order
        "every configuration of the grid, in its order",
        "enumeration, without a sampler of Optuna",
    ),
    options=("round_size",),
)
"""Name -> function of (seed, proposals before results are used) that returns a sampler."""
