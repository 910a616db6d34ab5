"""What the bits depend on beside the settings: device, instruction set, versions. Loads no torch but for a GPU."""

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from trainables.specs.base import BaseTrainingSettings, Environment
from trainables.utils.errors import UserError

DeviceType = Literal["cpu", "cuda"]

_EXTENSIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")


def read_processor_info() -> dict[str, str]:
    """What the system tells of the processor, by the system's names; empty where it tells nothing."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in fields.items()}


def _read_vendor_and_flags() -> tuple[str, set[str]]:
    """Vendor and flags of the processor, as far as the system tells."""
    named = read_processor_info()
    if not named:
        return platform.processor() or "unknown", set()
    return named.get("vendor_id", "unknown"), set((named.get("flags") or named.get("Features", "")).split())


def detect_environment(device: DeviceType = "cpu") -> Environment:
    """The environment of a trial on this machine's processor or GPU; the latter loads torch.

    Raises:
        UserError: there is no GPU.
    """
    vendor, flags = _read_vendor_and_flags()
    return Environment(
        device="cpu" if device == "cpu" else f"cuda:{_get_gpu_name()}",
        instruction_set="-".join([platform.machine(), vendor, *(name for name in _EXTENSIONS if name in flags)]),
        torch=version("torch"),
        transformers=version("transformers"),
        numpy=version("numpy"),
    )


def _get_gpu_name() -> str:
    import torch

    if not torch.cuda.is_available():
        raise UserError("resources.gpu", "no GPU on this machine", "a CUDA GPU and a CUDA build of torch, or 0")
    return torch.cuda.get_device_name()


def has_bf16_units(device: DeviceType = "cpu") -> bool:
    """Whether this processor or GPU multiplies matrices in bf16 by instructions of its own."""
    if device == "cpu":
        return bool(_read_vendor_and_flags()[1] & {"amx_bf16", "avx512_bf16"})
    import torch

    return torch.cuda.get_device_capability() >= (8, 0)


def resolve_precision(training: BaseTrainingSettings, device: DeviceType = "cpu") -> BaseTrainingSettings:
    """`training` with precision `auto` turned into what this device has units for."""
    if training.precision != "auto":
        return training
    return training.model_copy(update={"precision": "bf16" if has_bf16_units(device) else "fp32"})
