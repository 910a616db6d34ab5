"""An embedding is trained as torch's AdamW trains it, to the bit, though only rows that had a gradient are touched."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.trainables.small import T_WSLS, Fresh, World, finish, job
from trainables.models.cross_encoder import CrossEncoder
from trainables.rankers.ranker_run import RankerRun
from trainables.training.embedding_optimizer import EmbeddingOptimizer

TOKENS, SIZE = 70, 16
"""Numbers of a whole vector: torch rounds those of an incomplete one otherwise."""
BETAS, EPS, RATE = (0.9, 0.999), 1e-8, 0.01
BATCHES = st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=40).map(lambda ids: torch.tensor([ids]))
STEPS = st.lists(st.lists(BATCHES, min_size=1, max_size=3), min_size=1, max_size=5)


def embedding(padding: int | None, size: int = SIZE) -> nn.Embedding:
    module = nn.Embedding(TOKENS, size, padding_idx=padding)
    with torch.no_grad():
        module.weight.copy_(torch.randn(TOKENS, size, generator=torch.Generator().manual_seed(3)))
    return module


def backward(module: nn.Embedding, ids: Tensor, seed: int) -> None:
    given = torch.randn(*ids.shape, module.embedding_dim, generator=torch.Generator().manual_seed(seed))
    (module(ids) * given).sum().backward()


def optimize(module: nn.Embedding, decay: float) -> EmbeddingOptimizer:
    return EmbeddingOptimizer(module, BETAS, EPS, decay)


@given(STEPS, st.sampled_from([None, 0, 3]), st.sampled_from([0.0, 0.1]), st.sampled_from([1.0, 0.5]))
def test_steps_are_those_of_torch(steps: list[list[Tensor]], padding: int | None, decay: float, scale: float) -> None:
    mine, plain = embedding(padding), embedding(padding)
    optimizer = optimize(mine, decay)
    oracle = torch.optim.AdamW([plain.weight], lr=RATE, betas=BETAS, eps=EPS, weight_decay=decay, fused=True)
    for step in steps:
        oracle.zero_grad()
        with optimizer.collect():
            for seed, ids in enumerate(step):
                backward(mine, ids, seed)
        for seed, ids in enumerate(step):
            backward(plain, ids, seed)
        rows = torch.unique(torch.cat([ids.flatten() for ids in step]))
        rows = rows[rows != padding] if padding is not None else rows
        assert torch.equal(optimizer.gradient, plain.weight.grad[rows])
        plain.weight.grad.mul_(scale)
        oracle.step()
        optimizer.step(RATE, scale)
        assert torch.equal(mine.weight, plain.weight)
    state = optimizer.get_state()
    assert all(torch.equal(state[name], value) for name, value in oracle.state[plain.weight].items())


@given(STEPS, st.integers(0, 4))
def test_a_step_does_not_depend_on_a_stop_before_it(steps: list[list[Tensor]], stop: int) -> None:
    """The rows then have other places."""
    whole, parts = embedding(None, size=5), embedding(None, size=5)
    optimizers = [optimize(whole, 0.0), optimize(parts, 0.0)]
    for number, step in enumerate(steps):
        if number == stop:
            state = optimizers[1].get_state()
            optimizers[1] = optimize(parts, 0.0)
            optimizers[1].load_state(state)
        for module, optimizer in zip((whole, parts), optimizers, strict=True):
            with optimizer.collect():
                for seed, ids in enumerate(step):
                    backward(module, ids, seed)
        assert torch.equal(optimizers[0].gradient, optimizers[1].gradient)
        for optimizer in optimizers:
            optimizer.step(RATE, 1.0)
    assert torch.equal(whole.weight, parts.weight)


def test_room_grows_with_the_rows_in_use() -> None:
    module, plain = nn.Embedding(20_000, SIZE), nn.Embedding(20_000, SIZE)
    plain.load_state_dict(module.state_dict())
    optimizer, oracle = optimize(module, 0.0), torch.optim.AdamW([plain.weight], lr=RATE, weight_decay=0.0, fused=True)
    for first, last in ((0, 10), (5, 6_000), (9_000, 20_000), (0, 1)):
        ids = torch.arange(first, last)[None]
        oracle.zero_grad()
        with optimizer.collect():
            (module(ids) ** 2).sum().backward()
        (plain(ids) ** 2).sum().backward()
        optimizer.step(RATE, 1.0)
        oracle.step()
        assert torch.equal(module.weight, plain.weight)


def test_an_empty_state_is_a_start() -> None:
    module, ids = embedding(None), torch.tensor([[1, 2, 1]])
    before, optimizer = module.weight.detach().clone(), optimize(module, 0.0)
    found = []
    for _ in range(2):
        with torch.no_grad():
            module.weight.copy_(before)
        optimizer.load_state({})
        with optimizer.collect():
            backward(module, ids, 1)
        optimizer.step(RATE, 1.0)
        found.append(module.weight.detach().clone())
    assert torch.equal(*found)
    assert (found[0] != before).any(dim=1).nonzero().flatten().tolist() == [1, 2]


def test_the_module_is_itself_in_evaluation_and_outside_the_block() -> None:
    module, ids = embedding(None), torch.tensor([[1, 2, 1]])
    with optimize(module, 0.0).collect():
        assert torch.equal(module(ids), module.weight[ids])
        with torch.inference_mode():
            assert torch.equal(module(ids), module.weight[ids])
    module.zero_grad()
    module(ids).sum().backward()
    assert module.weight.grad.sum(dim=1)[:4].tolist() == [0.0, 2.0 * SIZE, SIZE, 0.0]


def test_another_use_of_the_weights_is_an_error() -> None:
    module = embedding(None)
    with pytest.raises(AssertionError, match="are used elsewhere"), optimize(module, 0.0).collect():
        (module(torch.tensor([[1, 2]])) @ module.weight.T).sum().backward()


def test_a_run_has_the_bits_of_torchs_own_steps(world: World, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """No gradient is cut here, since the sum of its squares is in another order."""
    specification = {"tokens_per_micro_batch": 64, "dropout": 0.1, "gradient_norm": 1e6, "weight_decay": 0.01}
    run = RankerRun(job(world, fresh(), T_WSLS, **specification))
    assert run.trainer.model.trained_word_embedding is not None
    mine = finish(run)
    monkeypatch.setattr(CrossEncoder, "trained_word_embedding", None)
    plain = finish(job(world, fresh(), T_WSLS, **specification))
    assert mine.scores.tobytes() == plain.scores.tobytes()
    assert mine.history == plain.history


def test_a_gradient_is_cut_as_torch_cuts_it(world: World, fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    specification = {"tokens_per_micro_batch": 64, "gradient_norm": 0.01}
    mine = finish(job(world, fresh(), T_WSLS, **specification))
    monkeypatch.setattr(CrossEncoder, "trained_word_embedding", None)
    plain = finish(job(world, fresh(), T_WSLS, **specification))
    for own, other in zip(mine.history, plain.history, strict=True):
        assert own == pytest.approx(other, rel=1e-4, nan_ok=True)
