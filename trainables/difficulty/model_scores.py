"""Difficulty scores by a trained model (Penha and Hauff 2020, section 3).

The paper has one relevant and one other response per context. Here, each side is the mean over its candidates.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from trainables.utils.arrays import Bools, Floats


def bert_pred(scores: npt.ArrayLike, relevant: npt.ArrayLike) -> Floats:
    """Compute BERT_pred: mean probability of the other candidates minus that of the relevant ones.

    A probability is the one that the model gives to "relevant".

    Args:
        scores: logit(relevant) - logit(not relevant), of shape (queries, candidates).
        relevant: 0 or 1, of shape (queries, candidates); each query has both.

    Returns:
        Difficulties of shape (queries,), in [-1, 1]. The lowest is that of a query for which the model is right and
        most certain.

    Example:
        >>> bert_pred([[4.0, -4.0, -4.0], [0.0, 0.0, 0.0]], [[1, 0, 0], [1, 0, 0]]).round(3).tolist()
        [-0.964, 0.0]
    """
    margins, is_relevant = _compute_margins(scores, relevant)
    wrong = expit(-margins)  # probability of the wrong label: 1 - p for relevant candidates, p for others
    return _masked_mean(wrong, is_relevant) + _masked_mean(wrong, ~is_relevant) - 1


def bert_loss(scores: npt.ArrayLike, relevant: npt.ArrayLike) -> Floats:
    """Compute BERT_loss: cross-entropy in nats, half of it by the relevant candidates, half by the others.

    It is half the mean cross-entropy of the relevant candidates plus half that of the other candidates.

    Args:
        scores: logit(relevant) - logit(not relevant), of shape (queries, candidates).
        relevant: 0 or 1, of shape (queries, candidates); each query has both.

    Returns:
        Difficulties of shape (queries,), at least 0.

    Example:
        >>> bert_loss([[4.0, -4.0, -4.0], [0.0, 0.0, 0.0]], [[1, 0, 0], [1, 0, 0]]).round(3).tolist()
        [0.018, 0.693]
    """
    margins, is_relevant = _compute_margins(scores, relevant)
    losses = np.logaddexp(0.0, -margins)
    return 0.5 * _masked_mean(losses, is_relevant) + 0.5 * _masked_mean(losses, ~is_relevant)


def _compute_margins(scores: npt.ArrayLike, relevant: npt.ArrayLike) -> tuple[Floats, Bools]:
    """Return the logit of the right label of each candidate, and which candidates are relevant.

    Both arrays are of shape (queries, candidates).
    """
    values, is_relevant = np.asarray(scores, dtype=np.float64), np.asarray(relevant) == 1
    return np.where(is_relevant, values, -values), is_relevant


def _masked_mean(values: Floats, mask: Bools) -> Floats:
    mean: Floats = np.mean(values, axis=1, where=mask)
    return mean
