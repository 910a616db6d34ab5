"""Random numbers of the device."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_on_device = dict[int, torch.Generator]()
"""Address of a generator of the device -> the generator."""
_make = torch.Generator


class Generator(torch.Generator):
    """Stands for torch.Generator; it makes plain generators, and remembers which of them are on the device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        made = _make()
        if torch.device(device).type == "cuda":
            _on_device[made._cdata] = made
        return made


default_generator = Generator("cuda")


def check_generator(generator: torch.Generator | None, device: str) -> None:
    if generator is not None and (generator._cdata in _on_device) != (device == "cuda"):
        raise RuntimeError(f"Expected a '{device}' device type for generator")


@contextmanager
def use_generator(generator: torch.Generator | None) -> Iterator[None]:
    """Let the processor draw from a generator of the device, inside the block."""
    used, kept = generator or default_generator, torch.default_generator.get_state()
    torch.default_generator.set_state(used.get_state())
    try:
        yield
    finally:
        used.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(kept)
