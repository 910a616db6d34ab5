"""Runs that look collapsed: their means are far from those of the same system's other seeds.

The tests of this package assume that such runs do not occur. The procedure is the generalised extreme studentised
deviate test of Rosner (1983), in its form for residuals of a linear model by Paul and Fung (1991). The model is that of
the paired tests: a mean for each system, an effect for each seed (with three systems or more), and one variance for
all. So three seeds of five systems give eight degrees of freedom.
"""

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from analysis.stats.two_way import two_way_anova
from trainables.utils.arrays import Bools, Floats

_LEVEL = 0.004
"""Level of the test at each step.

As there are several steps, more studies get a false alarm, but at most 1 % (`benchmarks.statistics.collapsed`).
"""
_MAX_SHARE = 1 / 4
"""Largest share of the runs that may be collapsed."""
_MIN_OWN_DEVIATIONS = 5.0
"""Smallest distance from the system's other seeds, in their standard deviations.

It is for systems with seeds that vary more than those of others.
"""
_MAX_SYSTEMS_WITHOUT_SEED_EFFECTS = 2
"""Largest number of systems for which the model has no effects of the seeds.

With two systems and such effects, a low run of one and a high run of the other could not be told apart.
"""
_SMALLEST = 1e-9
"""Singular values and shares of variance below it count as zero."""


class OutlyingRun(NamedTuple):
    """One run with a mean far from those of its system's other seeds.

    Attributes:
        seed: its seed; `find_outlying_runs` knows the index alone.
        others: smallest and largest mean of the system's other runs that are not outlying.
        is_worse: True if the run is worse than these, so that it looks collapsed. If it is better, they may have
            collapsed.
        metric: name of the metric; empty if it has none.
    """

    system: str
    seed: Any
    mean: float
    others: tuple[float, float]
    is_worse: bool
    metric: str = ""


def find_outlying_runs(
    means: Mapping[str, Floats], less_is_better: bool = False, noise: float = 0.0
) -> list[OutlyingRun]:
    """Return the runs with means far from those of the same system's other seeds.

    The run with the largest studentised residual is removed, then that of the rest, up to a quarter of all runs. Each
    is tested with the variance of the runs that are left, by Bonferroni for their number. All runs up to the last
    significant one are outlying, so two collapsed runs, also of one system, do not hide each other. A run must also be
    more than five standard deviations of its system's other seeds from their mean, if there are two, beyond what its
    seed does to all systems.

    Args:
        means: (seeds,) mean of each run, by system; NaN where there is no run. All systems have the same seeds, and
            none has copies of one run. Systems with one run are ignored.
        less_is_better: True if smaller values are better.
        noise: smallest variance that the means can have, see `estimate_noise`.

    Returns:
        The runs in order of systems and rows.

    References:
        Rosner, Percentage points for a generalized ESD many-outlier procedure, Technometrics 25 (1983). Paul and Fung,
        A generalized extreme studentized residual multiple-outlier-detection procedure in linear regression,
        Technometrics 33 (1991).

    Example:
        >>> import numpy as np
        >>> means = {"BERT": np.array([0.731, 0.738, 0.735]), "LS": np.array([0.74, 0.412, 0.744])}
        >>> find_outlying_runs(means)
        [OutlyingRun(system='LS', seed=1, mean=0.412, others=(0.74, 0.744), is_worse=True, metric='')]
    """
    names = [name for name, own in means.items() if np.isfinite(own).sum() > 1]
    if not names:
        return []
    values = np.stack([np.asarray(means[name], dtype=np.float64) for name in names])
    outlying = _mark_outliers(values, noise)
    found = []
    for place, row in np.argwhere(outlying):
        mean, rest = float(values[place, row]), values[place][~outlying[place] & np.isfinite(values[place])]
        is_worse = (mean > rest.mean()) == less_is_better
        found.append(OutlyingRun(names[place], int(row), mean, (float(rest.min()), float(rest.max())), bool(is_worse)))
    return found


def estimate_noise(values: Mapping[str, Floats]) -> float:
    """Return the part of the variance of a run's mean that comes from its queries.

    The means of runs vary at least that much. Few seeds may agree by chance, and means of few queries have few values.

    Args:
        values: (seeds, queries) metric of each run, by system. Systems with NaN, one seed or one query are ignored.

    Example:
        >>> import numpy as np
        >>> estimate_noise({"BERT": np.array([[1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0]])})
        0.0833...
    """
    whole = [own for own in values.values() if min(own.shape) > 1 and np.isfinite(own).all()]
    parts = [two_way_anova(own).ms_residual / own.shape[1] for own in whole]
    return float(np.mean(parts)) if parts else 0.0


def _mark_outliers(values: Floats, noise: float) -> Bools:
    """Return (systems, seeds) whether a mean is an outlier; NaN is never one."""
    kept, removed, significant = np.isfinite(values), list[tuple[np.intp, ...]](), 0
    for step in range(1, 1 + max(1, int(kept.sum() * _MAX_SHARE))):
        residuals, squares, df = _fit_residuals(values, kept)
        if df < 2:
            break
        worst = np.unravel_index(int(residuals.argmax()), residuals.shape)
        rest = max((squares - float(residuals[worst]) ** 2) / (df - 1), noise)
        candidates = int((residuals >= 0).sum())
        if residuals[worst] > np.sqrt(rest) * _critical_value(candidates, df - 1) > 0:
            significant = step
        kept[worst] = False
        removed.append(worst)
    outlying = np.zeros_like(kept)
    for worst in removed[:significant]:
        outlying[worst] = True
    adjusted = values - _estimate_seed_effects(values, np.isfinite(values) & ~outlying)
    return outlying & (_count_own_deviations(adjusted, outlying) > _MIN_OWN_DEVIATIONS)


def _fit_residuals(values: Floats, kept: Bools) -> tuple[Floats, float, int]:
    """Fit a mean for each system and an effect for each seed by least squares.

    Returns:
        (systems, seeds) distance of each run from the fit, divided by the standard deviation of its residual in units
        of the runs' own; -inf for a run that is not kept or that determines its own fit. Sum of squares of the
        residuals, and its degrees of freedom.
    """
    design = _build_design(kept)
    basis, sizes, _ = np.linalg.svd(design, full_matrices=False)
    basis = basis[:, sizes > _SMALLEST * sizes[0]]
    rest = values[kept] - basis @ (basis.T @ values[kept])
    free = 1 - (basis**2).sum(axis=1)  # 1 - leverage
    residuals = np.full(values.shape, -np.inf)
    residuals[kept] = np.where(free > _SMALLEST, np.abs(rest) / np.sqrt(np.maximum(free, _SMALLEST)), -np.inf)
    return residuals, float(rest @ rest), len(design) - basis.shape[1]


def _estimate_seed_effects(values: Floats, kept: Bools) -> Floats:
    """Return (seeds,) effects of the seeds on all systems, from the runs that are kept; 0 if the model has none."""
    effects = np.linalg.lstsq(_build_design(kept), values[kept])[0][kept.shape[0] :]
    return np.asarray(effects if len(effects) else np.zeros(kept.shape[1]))


def _build_design(kept: Bools) -> Floats:
    """Return (runs, effects): for each run that is kept, 1 for its system and, with enough systems, for its seed."""
    system, seed = np.nonzero(kept)
    has_seed_effects = kept.shape[0] > _MAX_SYSTEMS_WITHOUT_SEED_EFFECTS
    return np.hstack(
        [np.eye(kept.shape[0])[system], np.eye(kept.shape[1])[seed][:, : kept.shape[1] * has_seed_effects]]
    )


def _count_own_deviations(values: Floats, outlying: Bools) -> Floats:
    """Return (systems, seeds) how many standard deviations of its system's other seeds a run is from their mean.

    It is inf where fewer than two seeds are left.
    """
    rest = np.where(outlying, np.nan, values)
    counts = np.isfinite(rest).sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of systems with fewer than two seeds left
        distances = np.abs(values - np.nanmean(rest, axis=1, keepdims=True))
        distances /= np.nanstd(rest, axis=1, ddof=1, keepdims=True)
    return np.where(counts > 1, distances, np.inf)


@lru_cache(maxsize=4096)
def _critical_value(count: int, df: int) -> float:
    """Return the value that the largest of `count` externally studentised residuals must exceed, by Bonferroni."""
    from scipy import stats

    return float(stats.t.isf(_LEVEL / (2 * count), df))
