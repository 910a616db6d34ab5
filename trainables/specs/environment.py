"""What the bits depend on beside the settings: device, instruction set, versions. Loads no torch but for a GPU."""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from trainables.specs.base import CommonTraining, Environment
from trainables.utils.errors import UserError

Device = Literal["cpu", "cuda"]

_EXTENSIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")


def processor() -> dict[str, str]:
    """What the system tells of the processor, by the system's names; empty where it tells nothing."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in fields.items()}


def _processor() -> tuple[str, set[str]]:
    """Vendor and flags of the processor, as far as the system tells."""
    named = processor()
    if not named:
        return platform.processor() or "unknown", set()
    return named.get("vendor_id", "unknown"), set((named.get("flags") or named.get("Features", "")).split())


def current(device: Device = "cpu") -> Environment:
    """The environment of a trial on this machine's processor or GPU; the latter loads torch.

    Raises:
        UserError: there is no GPU.
    """
    vendor, flags = _processor()
    return Environment(
        device="cpu" if device == "cpu" else f"cuda:{_gpu()}",
        instruction_set="-".join([platform.machine(), vendor, *(name for name in _EXTENSIONS if name in flags)]),
        torch=version("torch"),
        transformers=version("transformers"),
        numpy=version("numpy"),
    )


def _gpu() -> str:
    import torch

    if not torch.cuda.is_available():
        raise UserError("resources.gpu", "no GPU on this machine", "a CUDA GPU and a CUDA build of torch, or 0")
    return torch.cuda.get_device_name()


def has_bf16_units(device: Device = "cpu") -> bool:
    """Whether this processor or GPU multiplies matrices in bf16 by instructions of its own."""
    if device == "cpu":
        return bool(_processor()[1] & {"amx_bf16", "avx512_bf16"})
    import torch

    return torch.cuda.get_device_capability() >= (8, 0)


def resolved(training: CommonTraining, device: Device = "cpu") -> CommonTraining:
    """`training` with precision `auto` turned into what this device has units for."""
    if training.precision != "auto":
        return training
    return training.model_copy(update={"precision": "bf16" if has_bf16_units(device) else "fp32"})
