"""The loss is the paper's formula term by term, and its noise is drawn once a batch."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from trainables.contrastive.loss import draw_noise, info_nce


def cosine(one: Tensor, other: Tensor) -> Tensor:
    return (one * other).sum() / (one.square().sum().sqrt() * other.square().sum().sqrt())


def plain(first: Tensor, second: Tensor, temperature: float, strange: Tensor, weight: float) -> Tensor:
    """Equations 4 and 5 in loops."""
    total = torch.zeros((), dtype=first.dtype)
    for i in range(len(first)):
        positive = (cosine(first[i], second[i]) / temperature).exp()
        below = torch.zeros((), dtype=first.dtype)
        for j in range(len(second)):
            below = below + (cosine(first[i], second[j]) / temperature).exp()
        for k in range(len(strange)):
            below = below + weight * (cosine(first[i], strange[k]) / temperature).exp()
        total = total - (positive / below).log()
    return total / len(first)


def views(seed: int, count: int, hidden: int = 7, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(count, hidden, generator=draw, dtype=dtype, requires_grad=True) for _ in range(2)]


@given(st.integers(0, 99), st.integers(1, 6), st.integers(0, 9), st.floats(0.05, 2), st.floats(0, 5))
def test_loss_and_gradients_are_those_of_the_formula(
    seed: int, count: int, vectors: int, temperature: float, weight: float
) -> None:
    strange = draw_noise(seed, 3, vectors, 7).double()
    found, expected = views(seed, count), views(seed, count)
    loss = info_nce(*found, temperature, strange, weight)
    wanted = plain(*expected, temperature, strange, weight)
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-6)
    loss.backward()
    wanted.backward()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=1e-6)


@given(st.integers(0, 99), st.integers(2, 64))
def test_without_weight_or_vectors_it_is_info_nce_bit_for_bit(seed: int, count: int) -> None:
    first, second = views(seed, count, dtype=torch.float32)
    expected = info_nce(first, second, 0.05)
    strange = draw_noise(seed, 0, 3 * count, 7)
    assert torch.equal(info_nce(first, second, 0.05, strange, 0.0), expected)
    assert torch.equal(info_nce(first, second, 0.05, strange[:0], 1.0), expected)
    assert info_nce(first, second, 0.05, strange, 1e-3) > expected


@pytest.mark.parametrize("temperature", [1e-3, 0.05])
@pytest.mark.parametrize("weight", [1e-30, 1.0, 1e30])
def test_it_is_finite_where_exponentials_are_not(temperature: float, weight: float) -> None:
    first, second = views(2, 8, dtype=torch.float32)
    loss = info_nce(first, -second, temperature, draw_noise(2, 0, 8, 7), weight)
    loss.backward()
    assert math.isfinite(loss.item())
    assert first.grad is not None
    assert torch.isfinite(first.grad).all()


def test_the_gradient_reaches_no_noise_vector() -> None:
    first, second = views(1, 5)
    strange = draw_noise(1, 0, 4, 7).double().requires_grad_()
    info_nce(first, second, 0.05, strange).backward()
    assert strange.grad is None
    assert first.grad is not None
    assert second.grad is not None


def test_noise_is_named_by_seed_and_step() -> None:
    own: dict[str, Any] = {"count": 6, "hidden": 5}
    first = draw_noise(1, 2, **own)
    torch.rand(17)
    assert torch.equal(first, draw_noise(1, 2, **own))
    assert not torch.equal(first, draw_noise(1, 3, **own))
    assert not torch.equal(first, draw_noise(2, 2, **own))
    assert (first.shape, first.dtype) == ((6, 5), torch.float32)
    assert len(draw_noise(1, 2, 0, 5)) == 0


def test_noise_is_standard_normal_and_independent() -> None:
    drawn = draw_noise(1, 0, 2000, 50).double().numpy()
    spread = drawn.size**-0.5
    assert abs(drawn.mean()) < 5 * spread
    assert abs(drawn.std() - 1) < 5 * spread
    rows = drawn - drawn.mean()
    assert abs(np.mean(rows[1:] * rows[:-1])) < 5 * spread
