"""The pretend GPU refuses, counts and computes what a real one does."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn

from tests.pretend_gpu import make_environment
from tests.pretend_gpu.counting import Counts, count

pytestmark = pytest.mark.usefixtures("pretend_gpu")


def on_device(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to("cuda", dtype)


def count_of(work: Callable[[], Any]) -> Counts:
    with count() as counts:
        work()
    return counts


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda x: x + torch.ones(3, 4), "on the same device"),
        (lambda x: torch.addmm(torch.ones(()), x, x.T), "on the same device"),
        (lambda x: torch.cat([x, torch.ones(3, 4)]), "on the same device"),
        (lambda x: functional.embedding(torch.tensor([1]), x), "on the same device"),
        (lambda x: x.numpy(), "numpy.* is not supported"),
        (lambda x: x.bernoulli_(0.5, generator=torch.Generator()), "Expected a 'cuda' device type for generator"),
        (
            lambda x: torch.ones(3).bernoulli_(0.5, generator=torch.Generator("cuda")),
            "Expected a 'cpu' device type for generator",
        ),
        (lambda x: torch.ones(3, device="cuda:1"), "second pretend GPU"),
    ],
)
def test_what_mixes_devices_is_an_error(work: Callable[[Tensor], Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        work(on_device(3, 4))


@pytest.mark.parametrize(
    ("work", "kernels", "copies", "waits"),
    [
        (lambda x: x + torch.tensor(2.0), 1, 0, 0),
        (lambda x: x.T[1].unsqueeze(0), 0, 0, 0),
        (lambda x: x.sum().item(), 1, 0, 1),
        (lambda x: x[torch.tensor([0, 2])], 1, 1, 1),
        (lambda x: x[x > 0], 2, 0, 1),
        (lambda x: x.cpu(), 0, 1, 1),
        (lambda x: x.tolist(), 0, 1, 1),
        (lambda x: x.to(torch.bfloat16), 1, 0, 0),
        (lambda x: torch.ones(2).to("cuda", non_blocking=True), 0, 1, 1),
        (lambda x: torch.ones(2).pin_memory().to("cuda", non_blocking=True), 0, 1, 0),
        (lambda x: torch.ones(2).pin_memory().to("cuda"), 0, 1, 1),
        (lambda x: torch.empty(9, pin_memory=True)[3:].to("cuda", non_blocking=True), 0, 1, 0),
        (lambda x: functional.dropout(x, 0.5), 1, 0, 0),
        (lambda x: torch._foreach_mul([x, x, x], 2.0), 1, 0, 0),
        (lambda x: torch.cuda.synchronize(), 0, 0, 1),
    ],
)
def test_kernels_copies_and_waits_are_counted(
    work: Callable[[Tensor], Any], kernels: int, copies: int, waits: int
) -> None:
    x = on_device(3, 4)
    counts = count_of(lambda: work(x))
    assert (counts.kernels, counts.copies, counts.waits) == (kernels, copies, waits)
    assert all("test_device.py" in place for place in counts.places)


def test_waits_can_be_errors() -> None:
    torch.cuda.set_sync_debug_mode("error")
    try:
        x = torch.ones(2, device="cuda") * 2
        torch.cuda.synchronize()
        with pytest.raises(RuntimeError, match="synchronizing"):
            x.sum().item()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_pinned_memory_must_keep_its_values_until_its_copy_is_done() -> None:
    torch.full((2,), torch.nan).pin_memory().to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    memory, event = torch.zeros(4, pin_memory=True), torch.cuda.Event()
    memory.to("cuda", non_blocking=True)
    event.record()
    event.synchronize()
    memory[0] = 1
    memory.to("cuda", non_blocking=True)
    memory[0] = 2
    event.synchronize()
    with pytest.raises(RuntimeError, match="pinned memory changed"):
        torch.cuda.synchronize()


def test_a_copy_that_nobody_waited_for_has_no_values() -> None:
    copied = torch.ones(3, device="cuda").to("cpu", non_blocking=True)
    assert copied.isnan().all()
    torch.cuda.synchronize()
    assert copied.tolist() == [1, 1, 1]


def test_a_model_on_the_device_is_trained_as_on_the_processor() -> None:
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
        parameters = list(model.parameters())
        model.to(device)
        assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(5, 4, device=device)).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
        results.append([each.detach().cpu() for each in model.parameters()])
    torch.testing.assert_close(*results)
    assert count_of(optimizer.step).operations == {"aten._foreach_add_.Scalar": 1, "aten._fused_adamw_.default": 1}


@pytest.mark.parametrize("kind", ["padded", "packed", "varlen"])
def test_attention_is_one_kernel_forward_and_one_backward(kind: str) -> None:
    lengths, dtype = [3, 5, 1], torch.bfloat16
    arrays = [on_device(9, 2, 8, dtype=dtype).requires_grad_() for _ in range(3)]
    copies = [own.detach().cpu().double().requires_grad_() for own in arrays]
    offsets = torch.tensor([0, 3, 8, 9], dtype=torch.int32, device="cuda")
    parts = [
        functional.scaled_dot_product_attention(*(own[None].transpose(1, 2) for own in text))[0].transpose(0, 1)
        for text in zip(*(own.split(lengths) for own in copies), strict=True)
    ]
    expected = torch.cat(parts)
    expected.square().sum().backward()
    with count() as counts:
        if kind == "varlen":
            found = varlen_attn(*arrays, offsets, offsets, 5, 5)
        elif kind == "packed":
            found = torch.ops.aten._flash_attention_forward(*arrays, offsets, offsets, 5, 5, 0.0, False, False)[0]
        else:
            texts = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 2], device="cuda")
            query, key, value = (own[None].transpose(1, 2) for own in arrays)
            mask = texts[:, None] == texts
            found = functional.scaled_dot_product_attention(query, key, value, mask)[0].transpose(0, 1)
        found.float().square().sum().backward()
    torch.testing.assert_close(found.detach().cpu().double(), expected, rtol=0, atol=0.02)
    for own, other in zip(arrays, copies, strict=True):
        torch.testing.assert_close(own.grad.cpu().double(), other.grad, rtol=0, atol=0.1)
    assert sum(number for name, number in counts.operations.items() if "attention" in name) == 2


def test_dropout_of_attention_has_the_same_mask_backward() -> None:
    """The output is linear in the values, so that their gradient is found from the outputs for unit vectors."""
    offsets = torch.tensor([0, 4], dtype=torch.int32, device="cuda")
    query, key = on_device(4, 1, 8, dtype=torch.float16), on_device(4, 1, 8, dtype=torch.float16)
    value = torch.eye(4, 8, dtype=torch.float16).view(4, 1, 8).to("cuda").requires_grad_()
    given = (offsets, offsets, 4, 4, 0.5, False, False)
    found = torch.ops.aten._flash_attention_forward(query, key, value, *given)[0]
    weights = found[:, 0, :4].detach().cpu().float()
    assert (weights == 0).any()
    found[2].sum().backward()
    torch.testing.assert_close(value.grad[:, 0, 0].cpu().float(), weights[2], rtol=0, atol=1e-3)


def test_the_generators_of_the_devices_are_apart() -> None:
    torch.manual_seed(3)
    state, first = torch.get_rng_state(), functional.dropout(torch.ones(99, device="cuda"), 0.5).cpu()
    assert torch.equal(torch.get_rng_state(), state)
    second = functional.dropout(torch.ones(99, device="cuda"), 0.5).cpu()
    torch.cuda.manual_seed(3)
    again = functional.dropout(torch.ones(99, device="cuda"), 0.5).cpu()
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_a_graph_computes_again_what_its_capture_only_recorded() -> None:
    x, total, draw = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda"), functional.dropout
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with count() as counts, torch.cuda.graph(graph, stream=stream):
        result = draw(x + total, 0.5)
        total.add_(1)
        assert torch.cuda.is_current_stream_capturing()
    assert (counts.kernels, graph.kernels.total()) == (0, 3)
    assert result.isnan().all()
    assert total.tolist() == [0, 0, 0]
    for step in range(3):
        torch.cuda.manual_seed(step)
        assert count_of(graph.replay).kernels == 3
        assert total.tolist() == [step + 1] * 3
        torch.cuda.manual_seed(step)
        assert torch.equal(result, draw(x * (step + 1), 0.5))


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda x: x.sum().item(), "operation failed due to a previous error during capture"),
        (lambda x: torch.ones(2).to("cuda", non_blocking=True), "operation failed due to a previous error"),
        (lambda x: torch.cuda.manual_seed(1), "Cannot call"),
        (lambda x: torch.cuda.get_rng_state(), "Cannot call"),
        (lambda x: step_of_adamw(x), "capturable is False"),
    ],
)
def test_what_a_capture_does_not_take_is_an_error(work: Callable[[Tensor], Any], message: str) -> None:
    x, stream = on_device(3, 4), torch.cuda.Stream()
    with pytest.raises(RuntimeError, match=message), torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
        work(x)
    with pytest.raises(RuntimeError, match="non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()
    assert not torch.cuda.is_current_stream_capturing()


def step_of_adamw(x: Tensor) -> None:
    weight = nn.Parameter(x)
    weight.grad = x
    torch.optim.AdamW([weight], fused=True).step()


def test_threads_have_the_device() -> None:
    found = list[Tensor]()
    thread = threading.Thread(target=lambda: found.append(torch.ones(3, device="cuda")))
    thread.start()
    thread.join()
    assert found[0].is_cuda


def test_every_process_sees_its_visible_gpus() -> None:
    code = "import torch; print([torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())])"
    for visible, names in (("1,0,2", ["B", "A", "A"]), ("", [])):
        environment = {**os.environ, **make_environment("A,B"), "CUDA_VISIBLE_DEVICES": visible}
        found = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert found.stdout.strip() == str(names)


def test_a_share_of_the_memory_runs_out() -> None:
    torch.cuda.set_per_process_memory_fraction(0.25)
    try:
        held = torch.empty(10 << 30, dtype=torch.uint8, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(11 << 30, dtype=torch.uint8, device="cuda")
        del held
        torch.empty(11 << 30, dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
