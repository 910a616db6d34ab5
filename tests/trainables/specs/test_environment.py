"""What a processor has is read from the flags that the system reports."""

import pytest

from trainables.specs import environment


@pytest.mark.parametrize(
    ("info", "bf16", "tiles"),
    [
        ({"flags": "avx2 avx512f avx512_bf16 amx_bf16 amx_tile"}, True, True),
        ({"flags": "avx2 avx512f avx512_bf16"}, True, False),
        ({"flags": "avx2"}, False, False),
        ({"Features": "asimd sve"}, False, False),
        ({}, False, False),
    ],
)
def test_units_are_those_of_the_flags(
    monkeypatch: pytest.MonkeyPatch, info: dict[str, str], bf16: bool, tiles: bool
) -> None:
    monkeypatch.setattr(environment, "read_processor_info", lambda: info)
    assert environment.has_bf16_units() is bf16
    assert environment.has_tile_units.__wrapped__() is tiles
