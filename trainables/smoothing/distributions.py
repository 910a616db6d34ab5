"""Label smoothing for pointwise rankers: a smoothing distribution times a schedule of its strength.

The distributions are here, the schedules in `trainables.smoothing.schedules`. Penha and Hauff (2021), "Weakly
Supervised Label Smoothing", sections 2 and 3.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from trainables.smoothing.schedules import SCHEDULES as SCHEDULES
from trainables.utils.arrays import Floats


def _none(labels: Floats, weak_labels: Floats) -> Floats:
    return labels


def _uniform(labels: Floats, weak_labels: Floats) -> Floats:
    return np.full_like(labels, 0.5)


def _weak_supervision(labels: Floats, weak_labels: Floats) -> Floats:
    missing = np.isnan(weak_labels) & (labels == 0)
    if missing.any():
        raise ValueError(
            f"weak supervision needs a weak label for each non-relevant document; {missing.sum()} lack one"
        )
    return np.where(labels == 1, 0.5, np.nan_to_num(weak_labels))


DISTRIBUTIONS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "none": _none,
    "uniform": _uniform,
    "weak_supervision": _weak_supervision,
}
"""Name -> (labels, weak labels) -> probability of "relevant" that the label is mixed with; all of shape (n,)."""


def target_distribution(
    labels: npt.ArrayLike, weak_labels: npt.ArrayLike | None, epsilon: float, distribution: str
) -> Floats:
    """The distribution over (not relevant, relevant) that cross-entropy is computed against.

    q'(k | x) = (1 - epsilon) delta(k, y) + epsilon u(k | x), Penha and Hauff (2021), sections 2 and 3. The weak
    supervision distribution is (1 - s, s) for a non-relevant document and uniform for a relevant one.

    Args:
        labels: (n,), 1 relevant, 0 not.
        weak_labels: (n,), the normalised sampler score s in [0, 1]; NaN where relevant. None where not needed.
        epsilon: strength of the smoothing, in [0, 1].
        distribution: a key of DISTRIBUTIONS.

    Returns:
        (n, 2), rows sum to 1, columns (not relevant, relevant).

    Raises:
        ValueError: epsilon outside [0, 1], or a non-relevant document without a weak label where one is needed.
    """
    if not 0 <= epsilon <= 1:
        raise ValueError(f"epsilon must be in [0, 1] but got {epsilon}")
    hard = np.asarray(labels, dtype=np.float64)
    weak = np.full_like(hard, np.nan) if weak_labels is None else np.asarray(weak_labels, dtype=np.float64)
    if epsilon == 0:
        return np.stack([1 - hard, hard], axis=1)
    relevant = (1 - epsilon) * hard + epsilon * DISTRIBUTIONS[distribution](hard, weak)
    return np.stack([1 - relevant, relevant], axis=1)
