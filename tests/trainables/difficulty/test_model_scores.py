"""Against torch's cross-entropy and softmax, at the ends of the range, and the mistakes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainables.difficulty.model_scores import bert_loss, bert_pred

SCORES = (bert_pred, bert_loss)
logits = st.floats(-50, 50)


@st.composite
def instances(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """(queries, candidates) differences of logits, and a relevant and another candidate at least in each row."""
    queries, others = draw(st.integers(1, 4)), draw(st.integers(0, 3))
    rows = [[1, 0, *draw(st.lists(st.integers(0, 1), min_size=others, max_size=others))] for _ in range(queries)]
    relevant = np.array([draw(st.permutations(row)) for row in rows])
    return np.array([[draw(logits) for _ in row] for row in rows]), relevant


@given(instances())
def test_both_are_those_of_torch(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    scores, relevant = drawn
    for row, (margins, labels) in enumerate(zip(scores, relevant, strict=True)):
        both = torch.stack([torch.zeros(len(margins)).double(), torch.from_numpy(margins)], dim=1)
        wanted = torch.from_numpy(labels)
        losses = torch.nn.functional.cross_entropy(both, wanted, reduction="none")
        expected = (losses[wanted == 1].mean() + losses[wanted == 0].mean()) / 2
        assert bert_loss(scores, relevant)[row] == pytest.approx(expected.item(), rel=1e-12, abs=1e-15)
        probabilities = both.softmax(dim=1)[:, 1]
        expected = -(probabilities[wanted == 1].mean() - probabilities[wanted == 0].mean())
        assert bert_pred(scores, relevant)[row] == pytest.approx(expected.item(), abs=1e-12)


def test_no_score_overflows_and_small_losses_stay_apart() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert bert_loss([[1e4, -1e4], [-1e4, 1e4]], [[1, 0], [1, 0]]).tolist() == [0.0, 1e4]
        assert bert_pred([[1e4, -1e4], [-1e4, 1e4]], [[1, 0], [1, 0]]).tolist() == [-1.0, 1.0]
        small = bert_loss([[40.0, -40.0], [41.0, -41.0]], [[1, 0], [1, 0]])
    assert small.tolist() == pytest.approx([math.exp(-40), math.exp(-41)], rel=1e-12)
