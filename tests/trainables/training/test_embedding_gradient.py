"""Rows of tokens are summed as torch sums them, to the bit, however often a token occurs and whatever came before."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.trainables.small import T_WSLS, Fresh, World, finish, job
from trainables.models.cross_encoder import CrossEncoder
from trainables.rankers.runner import RankerRun
from trainables.training.embedding_gradient import EmbeddingGradient

TOKENS, SIZE = 7, 5
BATCHES = st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=40).map(lambda ids: torch.tensor([ids]))


def embedding(padding: int | None) -> nn.Embedding:
    return nn.Embedding(TOKENS, SIZE, padding_idx=padding)


def backward(module: nn.Embedding, ids: Tensor, seed: int) -> None:
    given = torch.randn(*ids.shape, SIZE, generator=torch.Generator().manual_seed(seed))
    (module(ids) * given).sum().backward()


@given(st.lists(st.lists(BATCHES, min_size=1, max_size=3), min_size=1, max_size=3), st.sampled_from([None, 0, 3]))
def test_sums_are_those_of_torch(steps: list[list[Tensor]], padding: int | None) -> None:
    mine, plain = embedding(padding), embedding(padding)
    gradient = EmbeddingGradient(mine)
    for step in steps:
        mine.zero_grad()
        plain.zero_grad()
        with gradient.collect():
            for seed, ids in enumerate(step):
                backward(mine, ids, seed)
        for seed, ids in enumerate(step):
            backward(plain, ids, seed)
        assert mine.weight.grad is not None
        assert plain.weight.grad is not None
        assert torch.equal(mine.weight.grad, plain.weight.grad)
        mine.weight.grad.mul_(0.5)  # as a large gradient is clipped


def test_the_module_is_itself_in_evaluation_and_outside_the_block() -> None:
    module, ids = embedding(None), torch.tensor([[1, 2, 1]])
    with EmbeddingGradient(module).collect():
        assert torch.equal(module(ids), module.weight[ids])
        with torch.inference_mode():
            assert torch.equal(module(ids), module.weight[ids])
    module.zero_grad()
    module(ids).sum().backward()
    assert module.weight.grad is not None
    assert module.weight.grad.sum(dim=1).tolist() == [0.0, 10.0, 5.0, 0.0, 0.0, 0.0, 0.0]


def test_another_use_of_the_weights_is_an_error() -> None:
    module = embedding(None)
    with pytest.raises(AssertionError, match="are used elsewhere"), EmbeddingGradient(module).collect():
        (module(torch.tensor([[1, 2]])) @ module.weight.T).sum().backward()


def test_a_run_has_the_bits_of_torchs_own_gradient(world: World, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    specification = {"tokens_per_micro_batch": 64, "dropout": 0.1}
    run = RankerRun(job(world, fresh(), T_WSLS, **specification))
    assert run.trainer.model.trained_word_embedding is not None
    mine = finish(run)
    monkeypatch.setattr(CrossEncoder, "trained_word_embedding", None)
    plain = finish(job(world, fresh(), T_WSLS, **specification))
    assert mine.scores.tobytes() == plain.scores.tobytes()
    assert mine.history == plain.history
