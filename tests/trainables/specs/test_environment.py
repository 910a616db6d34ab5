"""Features of a processor are read from the flags that the system reports."""

from itertools import product

import pytest
import torch

from trainables.specs import environment
from trainables.specs.ranker import RankerTrainingSettings
from trainables.specs.run_spec import BaseTrainingSettings
from trainables.utils.errors import MachineError, UserError

_INTEL = "GenuineIntel"


@pytest.mark.parametrize(
    ("info", "bf16", "faster", "tiles"),
    [
        ({"vendor_id": _INTEL, "flags": "avx512f avx512_bf16 amx_bf16 amx_tile avx512_fp16"}, True, True, True),
        ({"vendor_id": _INTEL, "flags": "avx512f avx512_bf16 avx512_fp16"}, True, False, False),
        ({"vendor_id": _INTEL, "flags": "avx512f avx512_bf16"}, True, True, False),
        ({"vendor_id": "AuthenticAMD", "flags": "avx2 avx512f avx512_bf16"}, True, True, False),
        ({"vendor_id": "AuthenticAMD", "flags": "avx512f avx512_bf16 avx512_fp16"}, True, True, False),
        ({"vendor_id": _INTEL, "flags": "avx2"}, False, False, False),
        ({"Features": "asimd sve"}, False, False, False),
        ({}, False, False, False),
    ],
)
def test_units_are_those_of_the_flags(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, str], bf16: bool, faster: bool, tiles: bool
) -> None:
    monkeypatch.setattr(environment, "read_processor_info", lambda: info)
    assert environment.has_bf16_units() is bf16
    assert environment.is_bf16_faster() is faster
    assert environment.resolve_precision(BaseTrainingSettings()).precision == ("bf16" if faster else "fp32")
    assert environment.has_tile_units.__wrapped__() is tiles


def test_what_is_auto_is_resolved_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "has_bf16_units", lambda device="cpu": True)
    sizes = {"cpu": 2048, "cuda": 65_536}
    assert sizes == environment.TOKENS_AT_ONCE
    for device in ("cpu", "cuda"):
        found = environment.resolve_precision(RankerTrainingSettings(precision="fp32"), device)
        assert (found.precision, found.tokens_per_micro_batch) == ("fp32", sizes[device])
        chosen = RankerTrainingSettings(precision="bf16", tokens_per_micro_batch=100)
        assert environment.resolve_precision(chosen, device) == chosen


def show_gpus(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Lets torch see GPUs of these names."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: bool(names))
    monkeypatch.setattr("torch.cuda.device_count", lambda: len(names))
    monkeypatch.setattr("torch.cuda.get_device_name", lambda number=0: names[number])


def test_gpus_of_two_kinds_in_one_machine_are_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    show_gpus(monkeypatch, "A100", "A100")
    assert environment.detect_environment("cuda").device == "cuda:A100"
    show_gpus(monkeypatch, "H100", "A100", "H100")
    with pytest.raises(
        UserError, match=r"^resources\.gpu: this machine has A100 and H100; expected GPUs of one kind, .*"
    ):
        environment.detect_environment("cuda")


def test_a_run_finds_out_that_its_gpu_is_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    show_gpus(monkeypatch, "A100")
    expected = environment.detect_environment("cuda")
    environment.check_environment(expected)
    show_gpus(monkeypatch, "H100")
    with pytest.raises(MachineError, match="a GPU of another kind: cuda:H100 instead of cuda:A100"):
        environment.check_environment(expected)
    with pytest.raises(MachineError, match="the processor or the libraries differ"):
        environment.check_environment(environment.detect_environment().model_copy(update={"torch": "1"}))


@pytest.mark.parametrize(("capability", "precision"), [((7, 5), "fp32"), ((8, 0), "bf16"), ((9, 0), "bf16")])
def test_a_gpu_has_bf16_tf32_and_graphs_from_compute_capability_8(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], precision: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert environment.resolve_precision(BaseTrainingSettings(), "cuda").precision == precision
    messages = {
        BaseTrainingSettings(evaluation_precision="tf32"): "training.evaluation_precision: tf32; expected fp32 or bf16:"
        " TF32 needs a GPU of compute capability 8.0 or",
        BaseTrainingSettings(cuda_graphs=True): "training.cuda_graphs: true; expected false: CUDA graphs need bf16 on a"
        " GPU of compute capability 8.0 or",
    }
    for (training, message), device in product(messages.items(), ("cpu", "cuda")):
        if device == "cuda" and precision == "bf16":
            assert environment.resolve_precision(training, device).precision == "bf16"
            continue
        with pytest.raises(UserError) as caught:
            environment.resolve_precision(training, device)
        assert message in str(caught.value)
