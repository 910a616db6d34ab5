"""A run on a GPU computes there, and nowhere else."""

import pytest

from tests.pretend_gpu.counting import count
from tests.trainables import encoders as sentences
from tests.trainables.encoders import Encoders
from tests.trainables.small import LS, Fresh, World, finish, job
from tests.trainables.training.test_gpu import on_gpu, ready

pytestmark = pytest.mark.usefixtures("pretend_gpu")
KERNELS = 1000
"""Fewer than those of the runs, more than those of anything else."""


def test_a_ranker_is_trained_and_evaluated_on_the_gpu(world: World, fresh: Fresh) -> None:
    made = on_gpu(job(world, fresh(), LS))
    with count() as counts:
        finish(made)
    assert counts.kernels > KERNELS


def test_a_sentence_encoder_is_trained_and_evaluated_on_the_gpu(encoders: Encoders) -> None:
    made = ready(on_gpu(sentences.job(encoders, encoders.fresh(), sentences.GS)))
    with count() as counts:
        finish(made)
    assert counts.kernels > KERNELS
