"""Prepared dense layers: the values of the layers that they replace, in either precision."""

import pytest
import torch
from torch import nn

from trainables.models.prepacked import PrepackedLinear, prepack_linear_layers
from trainables.models.projections import join_projections


@pytest.mark.parametrize("rows", [1, 7, 2048])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_values_are_those_of_the_layer(rows: int, bias: bool, dtype: torch.dtype) -> None:
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
        prepack_linear_layers(model, torch.float32)
        torch.testing.assert_close(model(values), expected)
    assert sizes == [16, 8]
