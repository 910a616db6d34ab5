"""Provenance of a run: versions, the commit of the code, the hardware.

Nothing here identifies a machine or a user.
"""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trainables.metrics import METRICS
from trainables.specs.environment import read_processor_info
from trainables.specs.trial import TrialSpec
from trainables.utils.system import count_cores

_PACKAGES = ("torch", "transformers", "ray", "optuna", "wandb", "numpy", "scipy")
_ROOT = Path(__file__).resolve().parents[2]
_GIB = 2**30


def get_versions(trial: TrialSpec) -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on, and digests of plug-ins, by name."""
    plugins = {*trial.specification.plugins, METRICS.find_plugin(trial.metric)}
    model = trial.specification.model
    peft = {"peft": version("peft")} if model is not None and model.lora.rank is not None else {}
    return _get_library_versions() | peft | dict(label.split(" ") for label in sorted(filter(None, plugins)))


@cache
def _get_library_versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


@cache
def get_hardware() -> dict[str, Any]:
    """Return the processor, the usable cores, the memory in GiB, and the GPU if this process uses one."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    name = read_processor_info().get("model name", platform.machine())
    hardware: dict[str, Any] = {"processor": name, "cores": count_cores(), "memory": round(pages / _GIB)}
    torch = sys.modules.get("torch")  # a process that has not loaded torch uses no GPU
    return hardware | ({"gpu": torch.cuda.get_device_name()} if torch and torch.cuda.is_initialized() else {})


@cache
def get_commit() -> str | None:
    """Return the commit of the code, with a plus sign if tracked files differ; None outside a repository."""
    head = _run_git("rev-parse", "HEAD") if (_ROOT / ".git").exists() else None
    return head and head + ("+" if _run_git("status", "--porcelain", "--untracked-files=no") else "")


def describe_setup(model: str, data: str) -> dict[str, Any]:
    """Return what a plan is made with: the names of model and data for people, the date and the commit of the code."""
    return {"model": model, "data": data, "date": datetime.now(UTC).date().isoformat(), "commit": get_commit()}


def _run_git(*arguments: str) -> str | None:
    """Return the output of git in the repository of the code, or None if git fails."""
    try:
        process = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()
