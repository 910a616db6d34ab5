"""The probe of a batch's neighbours, against plain loops."""

import math

import numpy as np
import pytest

from trainables.contrastive.loss import draw_noise
from trainables.contrastive.neighbours import N_NEIGHBOURS, compute_neighbour_similarity, compute_noise_similarity
from trainables.utils.random import make_generator

EMBEDDINGS = np.random.default_rng(0).normal(0.3, 1.0, (40, 8)).astype(np.float32)


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    a, b = one.astype(np.float64), other.astype(np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def test_cosines_to_the_nearest_others_are_those_of_plain_loops() -> None:
    found = compute_neighbour_similarity(EMBEDDINGS, (6, 12), seed=3, n_batches=4)
    for place, size in enumerate((6, 12)):
        batches = []
        for batch in range(4):
            rows = make_generator(3, f"probe {size}", batch).permutation(40)[:size]
            near = [
                sorted((cosine(EMBEDDINGS[i], EMBEDDINGS[j]) for j in rows if j != i), reverse=True)[:N_NEIGHBOURS]
                for i in rows
            ]
            batches.append(np.mean(near, axis=0))
        np.testing.assert_allclose(found[place], np.mean(batches, axis=0), rtol=0, atol=1e-12)


def test_what_noise_is_beside_sentences_is_that_of_plain_loops() -> None:
    found, batches = compute_noise_similarity(EMBEDDINGS, (6,), 2.5, 0.2, seed=3, n_batches=4), []
    for batch in range(4):
        rows = make_generator(3, "probe 6", batch).permutation(40)[:6]
        strange = draw_noise(3, batch, 15, 8, 0.0, 1.0).numpy()
        each = []
        for i in rows:
            far = [cosine(EMBEDDINGS[i], one) for one in strange]
            own, others = (sum(math.exp(one / 0.2) for one in part)
                           for part in (far, [cosine(EMBEDDINGS[i], EMBEDDINGS[j]) for j in rows]))  # fmt: skip
            each.append((max(far), own / (own + others)))
        batches.append(np.mean(each, axis=0))
    np.testing.assert_allclose(found, [np.mean(batches, axis=0)], rtol=0, atol=1e-12)


def test_the_larger_a_batch_the_nearer_the_nearest() -> None:
    found = compute_neighbour_similarity(EMBEDDINGS, (5, 10, 20, 40), n_batches=20)
    assert (np.diff(found, axis=0) > 0).all()
    assert (np.diff(found, axis=1) < 0).all()
    np.testing.assert_allclose(
        compute_neighbour_similarity(EMBEDDINGS * 7, (5,)),
        compute_neighbour_similarity(EMBEDDINGS, (5,)),
        rtol=0,
        atol=1e-6,
    )


@pytest.mark.parametrize("size", [N_NEIGHBOURS, 41])
def test_a_batch_must_have_enough_others_and_no_more_than_there_are(size: int) -> None:
    with pytest.raises(ValueError, match=f"batches of {size} sentences"):
        compute_neighbour_similarity(EMBEDDINGS, (8, size))
