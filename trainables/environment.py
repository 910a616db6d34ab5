"""What the bits depend on beside the settings: device, instruction set, library versions. Loads no torch."""

import platform
from importlib.metadata import version
from pathlib import Path

from trainables.specification import Environment, TrainingSettings

_EXTENSIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")


def _processor() -> tuple[str, set[str]]:
    """Vendor and flags of the processor, as far as the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "unknown", set()
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    return named.get("vendor_id", "unknown"), set((named.get("flags") or named.get("Features", "")).split())


def current() -> Environment:
    """The environment of a trial on this machine's processor."""
    vendor, flags = _processor()
    return Environment(
        device="cpu",
        instruction_set="-".join([platform.machine(), vendor, *(name for name in _EXTENSIONS if name in flags)]),
        torch=version("torch"),
        transformers=version("transformers"),
        numpy=version("numpy"),
    )


def resolved(training: TrainingSettings) -> TrainingSettings:
    """`training` with precision `auto` turned into what this processor has units for."""
    if training.precision != "auto":
        return training
    bf16 = _processor()[1] & {"amx_bf16", "avx512_bf16"}
    return training.model_copy(update={"precision": "bf16" if bf16 else "fp32"})
