"""What a run was made with: versions, the code's commit, the hardware. Nothing that names a machine or a user."""

import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from trainables.specs.environment import read_processor_info
from trainables.utils.system import count_cores

_PACKAGES = ("torch", "transformers", "ray", "optuna", "wandb", "numpy", "scipy")
_ROOT = Path(__file__).resolve().parents[2]
_GIB = 2**30


@cache
def get_versions() -> dict[str, str]:
    """Of Python and of the libraries that results depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


@cache
def get_hardware() -> dict[str, Any]:
    """Processor, cores that this process may use, memory in GiB, and the GPU if one is in use."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    name = read_processor_info().get("model name", platform.machine())
    found: dict[str, Any] = {"processor": name, "cores": count_cores(), "memory": round(pages / _GIB)}
    torch = sys.modules.get("torch")  # a run that has not loaded it uses no GPU
    return found | ({"gpu": torch.cuda.get_device_name()} if torch and torch.cuda.is_initialized() else {})


@cache
def get_commit() -> str | None:
    """The code's commit, with a plus sign where tracked files differ from it; None where it lies in no repository."""
    head = _run_git("rev-parse", "HEAD") if (_ROOT / ".git").exists() else None
    return head and head + ("+" if _run_git("status", "--porcelain", "--untracked-files=no") else "")


def _run_git(*arguments: str) -> str | None:
    """What git says of the code's own repository; None where it says nothing."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
