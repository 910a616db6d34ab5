"""Environment of a run: device, instruction set and library versions.

Torch is loaded only for a GPU.
"""

import ctypes
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeVar

from trainables.specs.run_spec import BaseTrainingSettings, Environment
from trainables.utils.errors import MachineError, UserError

DeviceType = Literal["cpu", "cuda"]
_Training = TypeVar("_Training", bound=BaseTrainingSettings)

TOKENS_AT_ONCE: dict[str, int] = {"cpu": 2048, "cuda": 65_536}
"""Type of device -> tokens that a model computes at once by default.

On a processor the activations of a small model then stay in its cache. A GPU waits for each kernel to start.
"""
ROCM_DEVICE = Path("/dev/kfd")
"""Exists where AMD's driver is loaded. Whether torch sees a GPU there is not known without torch."""
_EXTENSIONS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")


def read_processor_info() -> dict[str, str]:
    """Return the fields of /proc/cpuinfo for the first core; empty if the system has no such file."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in fields.items()}


def _read_vendor_and_flags() -> tuple[str, set[str]]:
    """Return vendor and flags of the processor, as far as the system reports them."""
    info = read_processor_info()
    if not info:
        return platform.processor() or "unknown", set()
    return info.get("vendor_id", "unknown"), set((info.get("flags") or info.get("Features", "")).split())


def detect_environment(device: DeviceType = "cpu") -> Environment:
    """Return the environment of a trial on the processor or GPU of this machine.

    Args:
        device: "cpu", or "cuda", which loads torch.

    Raises:
        UserError: the device is "cuda" but this machine has no GPU, or GPUs of several kinds.
    """
    vendor, flags = _read_vendor_and_flags()
    return Environment(
        device="cpu" if device == "cpu" else f"cuda:{_get_gpu_name()}",
        instruction_set="-".join([platform.machine(), vendor, *(name for name in _EXTENSIONS if name in flags)]),
        torch=version("torch"),
        transformers=version("transformers"),
        numpy=version("numpy"),
    )


def check_environment(environment: Environment) -> None:
    """Check that this process computes with the device and the libraries of a run.

    Raises:
        MachineError: they differ.
    """
    found = detect_environment(environment.device_type)
    if found.device != environment.device:
        raise MachineError(f"a GPU of another kind: {found.device} instead of {environment.device}")
    if found != environment:
        raise MachineError("the processor or the libraries differ from the specification, so results may differ")


def count_gpus() -> int:
    """Return the number of GPUs that the CUDA driver shows to this process; loads no torch."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:  # no driver
        return 0
    count = ctypes.c_int()
    return count.value if not driver.cuInit(0) and not driver.cuDeviceGetCount(ctypes.byref(count)) else 0


def _get_gpu_name() -> str:
    import torch

    if not torch.cuda.is_available():
        raise UserError("resources.gpu", "no GPU on this machine", "a CUDA GPU and a CUDA build of torch, or 0")
    names = sorted({torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())})
    if len(names) > 1:
        expected = "GPUs of one kind, because the bits of a run depend on it; set CUDA_VISIBLE_DEVICES to their numbers"
        raise UserError("resources.gpu", f"this machine has {' and '.join(names)}", expected)
    return names[0]


def has_bf16_units(device: DeviceType = "cpu") -> bool:
    """Return whether this processor or GPU has instructions for matrix products in bf16."""
    if device == "cpu":
        return bool(_read_vendor_and_flags()[1] & {"amx_bf16", "avx512_bf16"})
    import torch

    return torch.cuda.get_device_capability() >= (8, 0)


def is_bf16_faster(device: DeviceType = "cpu") -> bool:
    """Return whether this processor or GPU has units for bf16 that are faster than those for fp32.

    Intel's processors with `avx512_fp16` have AMX for that. Where a virtual machine hides it, products in bf16 take up
    to twice as long as in fp32 (docs/results/measurements.md).
    """
    if device != "cpu":
        return has_bf16_units(device)
    vendor, flags = _read_vendor_and_flags()
    hides_tiles = vendor == "GenuineIntel" and "avx512_fp16" in flags and "amx_bf16" not in flags
    return has_bf16_units() and not hides_tiles


@cache
def has_tile_units() -> bool:
    """Return whether this processor has instructions for products of tiles in bf16 (AMX)."""
    return "amx_bf16" in _read_vendor_and_flags()[1]


def resolve_precision(training: _Training, device: DeviceType = "cpu") -> _Training:
    """Return `training` with a value for every setting that is "auto".

    The precision is "bf16" if that is faster on the device, else "fp32"; `tokens_per_micro_batch` is `TOKENS_AT_ONCE`.

    Raises:
        UserError: test scores are to be computed in TF32, or training is to use CUDA graphs, and the device or the
            precision is another one.
    """
    if training.evaluation_precision == "tf32" and not (device == "cuda" and has_bf16_units(device)):
        expected = "fp32 or bf16: TF32 needs a GPU of compute capability 8.0 or higher (resources.gpu)"
        raise UserError("training.evaluation_precision", "tf32", expected)
    values = {
        "precision": "bf16" if is_bf16_faster(device) else "fp32",
        "tokens_per_micro_batch": TOKENS_AT_ONCE[device],
    }
    unset = [name for name in values if getattr(training, name, None) == "auto"]
    resolved = training.model_copy(update={name: values[name] for name in unset})
    if resolved.cuda_graphs and not (device == "cuda" and has_bf16_units(device) and resolved.precision == "bf16"):
        expected = "false: CUDA graphs need bf16 on a GPU of compute capability 8.0 or higher (resources.gpu)"
        raise UserError("training.cuda_graphs", "true", expected)
    return resolved
