"""Features of a processor are read from the flags that the system reports."""

import pytest

from trainables.specs import environment
from trainables.specs.ranker import RankerTrainingSettings
from trainables.specs.run_spec import BaseTrainingSettings

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
