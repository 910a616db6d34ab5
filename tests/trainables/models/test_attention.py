"""All kernels of attention compute the same, text by text."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from trainables.models import attention, packing
from trainables.models.attention import PackedPass, attend_packed, choose_kernel, has_flash_operation
from trainables.models.dense_layers import JointProjection, join_projections
from trainables.models.dropout import NO_DROPOUT, Dropout, DropoutSource
from trainables.models.packing import PackedBatch, PackedLayout

LENGTHS, HEADS, SIZE, SCALING = [1, 2, 5, 5, 6, 19, 40, 41, 90], 3, 8, 0.4
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")


def make_layout(lengths: list[int], device: str = "cpu") -> PackedLayout:
    return PackedLayout(PackedBatch(torch.zeros(sum(lengths), device=device), np.array(lengths), np.array(lengths)))


def make_inputs(device: str = "cpu", dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Queries, keys and values as the layers of transformers give them, with strides of a projection."""
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(sum(LENGTHS), HEADS, SIZE, generator=generator) for _ in range(3)]
    return [own.to(device, dtype).requires_grad_() for own in rows]


def attend(inputs: list[Tensor], window: int | None, dropout: Dropout = NO_DROPOUT) -> Tensor:
    layout = make_layout(LENGTHS, str(inputs[0].device))
    query, key, value = (add_extra_rows(own, layout).transpose(0, 1)[None] for own in inputs)
    packed = PackedPass(layout, dropout)
    found, weights = attend_packed(
        nn.Identity(),
        query,
        key,
        value,
        None,
        scaling=SCALING,
        packed=packed,
        sliding_window=window,
        deterministic=True,
    )
    assert weights is None
    assert not found[0, sum(LENGTHS) :].any()
    return found[0, : sum(LENGTHS)]


def add_extra_rows(rows: Tensor, layout: PackedLayout) -> Tensor:
    """Adds rows as packed layers do; nothing may depend on what they contain."""
    return torch.cat([rows, torch.full((layout.n_extra, *rows.shape[1:]), 1e3).to(rows)])


def attend_alone(inputs: list[Tensor], window: int | None) -> Tensor:
    """The definition: each text by itself."""
    outputs = []
    for query, key, value in zip(*(torch.split(own.double(), LENGTHS) for own in inputs), strict=True):
        scores = torch.einsum("ihd,jhd->hij", query, key) * SCALING
        places = torch.arange(len(query))
        if window is not None:
            scores = scores.masked_fill((places[:, None] - places).abs() >= window, -torch.inf)
        outputs.append(torch.einsum("hij,jhd->ihd", scores.softmax(dim=2), value))
    return torch.cat(outputs)


def force(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setattr(attention, "choose_kernel", lambda *ignored: kernel)


@pytest.mark.parametrize("window", [None, 1, 7, 200])
@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_attention_stays_inside_a_text_and_its_window(
    monkeypatch: pytest.MonkeyPatch, kernel: str, window: int | None
) -> None:
    force(monkeypatch, kernel)
    inputs, copies = make_inputs(), make_inputs()
    found, expected = attend(inputs, window), attend_alone(copies, window)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
    weighting = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    (found * weighting).sum().backward()
    (expected * weighting).sum().backward()
    for own, other in zip(inputs, copies, strict=True):
        torch.testing.assert_close(own.grad, other.grad, rtol=0, atol=1e-5)


@pytest.mark.parametrize("window", [None, 7])
def test_flash_attention_gets_the_texts_and_the_window(monkeypatch: pytest.MonkeyPatch, window: int | None) -> None:
    """By its documentation; the function itself needs a GPU."""

    def by_definition(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seq_q: Tensor,
        cu_seq_k: Tensor,
        max_q: int,
        max_k: int,
        *,
        scale: float,
        window_size: tuple[int, int],
    ) -> Tensor:
        assert cu_seq_q.dtype == torch.int32
        assert torch.equal(cu_seq_q, cu_seq_k)
        assert max_q == max_k == max(LENGTHS)
        assert scale == SCALING
        assert window_size[0] == window_size[1]
        assert np.diff(cu_seq_q.numpy()).tolist() == LENGTHS
        reach = None if window_size[0] == -1 else window_size[0] + 1  # tokens to the left, and the token itself
        return attend_alone([query, key, value], reach).float()

    force(monkeypatch, "varlen")
    monkeypatch.setitem(packing._MULTIPLES, "cpu", packing._MULTIPLES["cuda"])
    inputs = make_inputs()
    monkeypatch.setattr(attention, "varlen_attn", by_definition)
    monkeypatch.setattr(attention, "has_flash_operation", lambda: False)
    torch.testing.assert_close(attend(inputs, window).double(), attend_alone(inputs, window), rtol=0, atol=1e-6)


class _Projections(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.query, self.key, self.value = (nn.Linear(HEADS * SIZE, HEADS * SIZE) for _ in range(3))


@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_first_token_alone_attends_as_with_the_others(rate: float, dtype: torch.dtype) -> None:
    module, rows = _Projections(), make_inputs()[0]
    expected_rows = rows.detach().clone().requires_grad_()
    projected = [layer(expected_rows.flatten(1)).view(rows.shape) for layer in module.children()]
    masks, expected, start = Dropout(rate, 5), list[Tensor](), 0
    layout = make_layout(LENGTHS)
    for group in layout.groups:  # dropout draws a mask for each group
        mask = masks(torch.ones(group.n_pairs, HEADS, group.max_length))
        for text in range(group.n_pairs):
            place = slice(layout.offsets[start], layout.offsets[start + 1])
            query, key, value = (own[place] for own in projected)
            scores = torch.einsum("hd,jhd->hj", query[0], key) * SCALING
            weights = scores.softmax(dim=1) * mask[text, :, : len(key)]
            expected.append(torch.einsum("hj,jhd->hd", weights, value))
            start += 1
    join_projections(module, ["query", "key", "value"])
    joint: JointProjection = module.query.joint
    given = add_extra_rows(rows, layout).transpose(0, 1)[None]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        found = attend_packed(
            module, given, given, given, None, scaling=SCALING, packed=PackedPass(layout, Dropout(rate, 5), joint)
        )[0][0]
    assert found.dtype == dtype
    is_first = torch.zeros(len(found), dtype=torch.bool)
    is_first[layout.first_tokens] = True
    assert not found[~is_first].any()
    tolerance = 1e-5 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(found[is_first].float(), torch.stack(expected), rtol=0, atol=tolerance)
    weighting = torch.randn(len(LENGTHS), HEADS, SIZE, generator=torch.Generator().manual_seed(1))
    (found[is_first].float() * weighting).sum().backward()
    (torch.stack(expected) * weighting).sum().backward()
    assert rows.grad is not None
    assert expected_rows.grad is not None
    torch.testing.assert_close(rows.grad, expected_rows.grad, rtol=0, atol=10 * tolerance)


def test_dropout_in_the_fused_kernel_keeps_the_expectation(monkeypatch: pytest.MonkeyPatch) -> None:
    force(monkeypatch, "fused")
    inputs, draws = make_inputs(), 400
    with torch.inference_mode(), torch.random.fork_rng():
        torch.manual_seed(0)
        found = torch.stack([attend(inputs, None, Dropout(0.3, 1)) for _ in range(draws)])
        torch.manual_seed(0)
        again = attend(inputs, None, Dropout(0.3, 1))
        plain = attend(inputs, None)
    assert torch.equal(found[0], again)
    assert not torch.equal(found[0], plain)
    error = (found.mean(dim=0) - plain).abs() / (found.std(dim=0) / draws**0.5 + 1e-6)
    assert error.max() < 5


def stand_in(cuda: bool, dtype: torch.dtype = torch.bfloat16, size: int = 64) -> Any:
    """Queries that may lie on a GPU that is not here."""
    return SimpleNamespace(is_cuda=cuda, dtype=dtype, shape=(1, 2, 3, size), device="cuda:0")


@pytest.mark.parametrize(("length", "rate", "kernel"), [(8, 0.0, "fused"), (8, 0.1, "explicit"), (600, 0.0, "fused")])
def test_tiles_make_the_fused_kernel_the_fastest(
    monkeypatch: pytest.MonkeyPatch, length: int, rate: float, kernel: str
) -> None:
    monkeypatch.setattr(attention, "has_tile_units", lambda: True)
    assert choose_kernel(stand_in(False), Dropout(rate, 1), length) == kernel


@pytest.mark.parametrize(
    ("query", "capability", "rate", "length", "kernel"),
    [
        (stand_in(False), None, 0.1, 100, "explicit"),
        (stand_in(False, torch.float32), None, 0.0, 64, "explicit"),
        (stand_in(False, torch.float32), None, 0.0, 65, "fused"),
        (stand_in(False, torch.bfloat16), None, 0.0, 512, "explicit"),
        (stand_in(False, torch.bfloat16), None, 0.0, 513, "fused"),
        (stand_in(True), (9, 0), 0.1, 8, "varlen"),
        (stand_in(True), (9, 0), 0.0, 8, "varlen"),
        (stand_in(True, torch.float32), (9, 0), 0.1, 8, "fused"),
        (stand_in(True), (7, 5), 0.0, 8, "fused"),
        (stand_in(True, size=12), (9, 0), 0.0, 8, "fused"),
        (stand_in(True, size=512), (9, 0), 0.0, 8, "fused"),
        (stand_in(True, torch.float32), (9, 0), 0.0, 8, "fused"),
    ],
)
def test_the_fastest_kernel_is_chosen(
    monkeypatch: pytest.MonkeyPatch, query: Any, capability: Any, rate: float, length: int, kernel: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(attention, "has_tile_units", lambda: False)
    assert choose_kernel(query, Dropout(rate, 1), length) == kernel


def test_without_the_operation_flash_attention_has_no_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(attention, "has_flash_operation", lambda: False)
    assert [choose_kernel(stand_in(True), Dropout(rate, 1), 8) for rate in (0.0, 0.1)] == ["varlen", "fused"]


def test_the_operation_is_known_by_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    has_flash_operation.cache_clear()
    assert has_flash_operation()
    for names in (["query", "key", "values"], []):
        schema = SimpleNamespace(arguments=[SimpleNamespace(name=name) for name in names])
        operations = SimpleNamespace(default=SimpleNamespace(_schema=schema)) if names else None
        found = SimpleNamespace(_flash_attention_forward=operations) if operations else SimpleNamespace()
        with monkeypatch.context() as patch:
            patch.setattr(torch.ops, "aten", found)
            assert not has_flash_operation.__wrapped__()


def test_a_pass_on_a_processor_leaves_the_generator_alone() -> None:
    source, before = DropoutSource(), torch.get_rng_state()
    dropout = Dropout(0.1, 3)
    with dropout.draw_on(torch.device("cpu")), source.use(dropout):
        assert source.current.rate == pytest.approx(0.1, abs=1e-5)
    assert source.current is NO_DROPOUT
    assert torch.equal(torch.get_rng_state(), before)


def test_the_dropout_ends_with_a_pass_that_fails() -> None:
    source = DropoutSource()
    with pytest.raises(ValueError, match="no"), source.use(Dropout(0.1, 3)):
        raise ValueError("no")
    assert source.current is NO_DROPOUT


@gpu
@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize(
    ("kernel", "has_operation"), [("explicit", True), ("fused", True), ("varlen", True), ("varlen", False)]
)
def test_a_gpu_computes_the_same(
    monkeypatch: pytest.MonkeyPatch, kernel: str, has_operation: bool, window: int | None
) -> None:
    force(monkeypatch, kernel)
    monkeypatch.setattr(attention, "has_flash_operation", lambda: has_operation)
    inputs, copies = make_inputs("cuda", torch.bfloat16), make_inputs()
    found, expected = attend(inputs, window), attend_alone(copies, window)
    torch.testing.assert_close(found.double().cpu(), expected, rtol=0, atol=0.05)
    found.float().square().sum().backward()
    expected.square().sum().backward()
    for own, other in zip(inputs, copies, strict=True):
        torch.testing.assert_close(own.grad.cpu().float(), other.grad.float(), rtol=0.05, atol=0.1)


@gpu
def test_dropout_on_a_gpu_is_named_and_leaves_the_generator_alone() -> None:
    device, before = torch.device("cuda", 0), torch.cuda.get_rng_state()
    ones, outputs = torch.ones(64, 64, device=device), []
    for seed in (1, 1, 2):
        dropout = Dropout(0.3, seed)
        with torch.inference_mode(), dropout.draw_on(device):
            passes = [(attend(make_inputs("cuda"), None, dropout).cpu(), dropout(ones).cpu()) for _ in range(2)]
        assert not any(torch.equal(one, other) for one, other in zip(*passes, strict=True))
        outputs.append(torch.cat([each.flatten() for own in passes for each in own]))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert torch.equal(torch.cuda.get_rng_state(), before)
    with pytest.raises(AssertionError, match="draw_on"):
        Dropout(0.3, 1)(ones)
