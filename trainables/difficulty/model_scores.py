"""Difficulty by a trained model (Penha and Hauff 2020, section 3): what it finds easy is easy.

The paper has one relevant and one other response a context; here each side is the mean over its candidates.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from trainables.utils.arrays import Bools, Floats


def bert_pred(scores: npt.ArrayLike, relevant: npt.ArrayLike) -> Floats:
    """Minus (mean probability given to the relevant candidates minus mean probability given to the others).

    Args:
        scores: (queries, candidates) logit(relevant) - logit(not relevant).
        relevant: (queries, candidates) 0 or 1.

    Returns:
        (queries,) in [-1, 1], lowest where the model is surest and right.

    Raises:
        ValueError: a NaN, shapes that differ, a label other than 0 and 1, a query all or none of whose candidates are
            relevant.
    """
    margins, is_relevant = _compute_margins(scores, relevant)
    wrong = expit(-margins)  # probability of what is not so: 1 - p of the relevant, p of the others
    return _masked_mean(wrong, is_relevant) + _masked_mean(wrong, ~is_relevant) - 1


def bert_loss(scores: npt.ArrayLike, relevant: npt.ArrayLike) -> Floats:
    """Half the mean cross-entropy of the relevant candidates plus half that of the others, in nats.

    Args:
        scores: (queries, candidates) logit(relevant) - logit(not relevant).
        relevant: (queries, candidates) 0 or 1.

    Returns:
        (queries,) at least 0.

    Raises:
        ValueError: as for bert_pred.
    """
    margins, is_relevant = _compute_margins(scores, relevant)
    losses = np.logaddexp(0.0, -margins)
    return 0.5 * _masked_mean(losses, is_relevant) + 0.5 * _masked_mean(losses, ~is_relevant)


def _compute_margins(scores: npt.ArrayLike, relevant: npt.ArrayLike) -> tuple[Floats, Bools]:
    """(queries, candidates) how far the logits speak for what is so; and which candidates are relevant."""
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(relevant)
    if values.ndim != 2 or values.shape != labels.shape:
        raise ValueError(f"scores {values.shape} and relevant {labels.shape} must both be (queries, candidates)")
    if np.isnan(values).any():
        raise ValueError("a score is NaN")
    if not np.isin(labels, (0, 1)).all():
        raise ValueError("relevant must be 0 or 1")
    is_relevant = labels == 1
    if is_relevant.all(axis=1).any() or not is_relevant.any(axis=1).all():
        raise ValueError("each query must have a relevant candidate and another one")
    return np.where(is_relevant, values, -values), is_relevant


def _masked_mean(values: Floats, which: Bools) -> Floats:
    mean: Floats = np.mean(values, axis=1, where=which)
    return mean
