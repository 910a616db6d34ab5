"""Models that compute scores: the values of their layers, in either precision, and afterwards as they were before."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.trainables.models.architectures import TYPES, make_batch, write_model
from tests.trainables.training.test_gpu import gpu
from trainables.models import precision
from trainables.models.architectures import get_architecture
from trainables.models.dense_layers import join_projections
from trainables.models.dropout import NO_DROPOUT
from trainables.models.precision import (
    Bf16Weights,
    Precision,
    PrepackedLinear,
    prepack_linear_layers,
    prepare_for_scoring,
)
from trainables.models.transformer import Transformer, load_pretrained
from trainables.specs.run_spec import BaseModelSettings


@pytest.mark.parametrize(("rows", "bias"), [(1, True), (7, False), (2048, True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_private", [True, False])
def test_the_values_are_those_of_the_layer(
    rows: int, bias: bool, dtype: torch.dtype, is_private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where torch has no private operations for it."""
    monkeypatch.setattr(precision, "_CAN_PREPARE", is_private and precision._CAN_PREPARE)
    torch.manual_seed(0)
    layer, values = nn.Linear(48, 80, bias=bias), torch.randn(1, rows, 48)
    with torch.inference_mode():
        found = PrepackedLinear(layer.weight, layer.bias, dtype)(values)
        expected = layer.to(dtype)(values.to(dtype))
    assert found.dtype == dtype
    torch.testing.assert_close(found, expected, rtol=1e-5 if dtype == torch.float32 else 2e-2, atol=1e-5)


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.output = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.output(self.query(values) * self.key(values))
        return output


def test_joint_projections_stay_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, values, sizes = _Attention(), torch.randn(5, 8), list[int]()
    compute = PrepackedLinear.forward

    def count(self: PrepackedLinear, inputs: torch.Tensor) -> torch.Tensor:
        output = compute(self, inputs)
        sizes.append(output.shape[-1])
        return output

    monkeypatch.setattr(PrepackedLinear, "forward", count)
    with torch.inference_mode():
        expected = model(values)
        join_projections(model, ["query", "key"])
        with prepack_linear_layers(model, torch.float32):
            torch.testing.assert_close(model(values), expected)
    assert sizes == [16, 8]


@pytest.mark.parametrize(("precision", "first_only"), [("fp32", True), ("bf16", False)])
@pytest.mark.parametrize("kind", TYPES)
def test_every_type_scores_in_a_precision_and_trains_on_unchanged(
    tmp_path: Path, kind: str, precision: Precision, first_only: bool
) -> None:
    model = Transformer(load_pretrained(write_model(tmp_path, kind), 1), BaseModelSettings())
    batch = make_batch([3, 9, 9, 14, 40, 64, 65, 130])

    def step() -> tuple[torch.Tensor, list[torch.Tensor | None]]:
        model.zero_grad()
        output, _ = model.encode(batch, NO_DROPOUT, first_only)
        output.square().sum().backward()
        return output.detach(), [own.grad for own in model.parameters()]

    names, before, gradients = [*model.state_dict()], *step()
    with prepare_for_scoring(model, precision):
        found, _ = model.encode(batch, NO_DROPOUT, first_only)
        assert not found.requires_grad
    is_exact = precision == "fp32" or not model.architecture.supports_autocast
    torch.testing.assert_close(found.float(), before, rtol=0, atol=1e-5 if is_exact else 0.2)
    assert torch.allclose(found.float(), before, rtol=0, atol=1e-5) == is_exact
    assert [*model.state_dict()] == names
    after, gradients_after = step()
    assert torch.equal(after, before)
    assert all(
        torch.equal(own, other) if own is not None and other is not None else own is other
        for own, other in zip(gradients, gradients_after, strict=True)
    )


PACKED = [kind for kind in TYPES if get_architecture(kind).padding_mask is None]


@pytest.mark.parametrize("kind", PACKED)
def test_a_copy_in_bf16_computes_what_the_model_does_and_gives_its_gradients(tmp_path: Path, kind: str) -> None:
    model = Transformer(load_pretrained(write_model(tmp_path, kind), 1), BaseModelSettings())
    batch, copy = make_batch([3, 9, 9, 14, 40, 64]), Bf16Weights(model)
    weights = dict(model.named_parameters())
    expected, _ = model.encode(batch, NO_DROPOUT)
    weighting = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    (expected * weighting).sum().backward()
    gradients = {name: own.grad for name, own in weights.items()}
    model.zero_grad()
    for _ in range(2):
        with copy.use():
            found, _ = model.encode(batch, NO_DROPOUT)
            assert found.dtype == torch.float32
            (found * weighting).sum().backward()
            copy.move_gradients()
    assert dict(model.named_parameters()) == weights
    torch.testing.assert_close(found, expected, rtol=0, atol=0.1)
    for name, own in weights.items():
        gradient = gradients[name]
        assert (own.grad is None) == (gradient is None), name
        if gradient is not None and own.grad is not None:
            distance = (own.grad / 2 - gradient).norm()
            assert distance <= 0.1 * gradient.norm() + 0.2, name
    with torch.no_grad():
        for own in weights.values():
            own.mul_(1.1)
    with torch.inference_mode(), Bf16Weights(model).use():
        changed, _ = model.encode(batch, NO_DROPOUT)
    expected, _ = model.encode(batch, NO_DROPOUT)
    torch.testing.assert_close(changed, expected.detach(), rtol=0, atol=0.1)


def test_a_pass_that_fails_leaves_the_layers_as_they_were(tmp_path: Path) -> None:
    model = Transformer(load_pretrained(write_model(tmp_path, "bert"), 1), BaseModelSettings())
    kinds = [type(module) for module in model.modules()]
    with pytest.raises(AssertionError), prepare_for_scoring(model, "bf16"):
        assert [type(module) for module in model.modules()] == kinds
    assert [type(module) for module in model.modules()] == kinds


@gpu
def test_tf32_is_on_inside_the_block_and_off_afterwards(tmp_path: Path) -> None:
    model = Transformer(load_pretrained(write_model(tmp_path / "model", "bert"), 0), BaseModelSettings()).to("cuda")
    matmul, batch, found = torch.backends.cuda.matmul, make_batch([3, 9, 40]), dict[Precision, torch.Tensor]()
    before, precisions = matmul.fp32_precision, dict[Precision, str]()
    for name in ("fp32", "tf32"):
        with prepare_for_scoring(model, name):
            found[name], precisions[name] = model.encode(batch, NO_DROPOUT)[0].cpu(), matmul.fp32_precision
    assert (precisions, matmul.fp32_precision) == ({"fp32": before, "tf32": "tf32"}, before)
    torch.testing.assert_close(found["tf32"], found["fp32"], rtol=0, atol=2e-2)
