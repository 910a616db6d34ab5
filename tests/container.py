"""The Dockerfile as a test reads it: its steps, and the files that `docker build` sends."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]


def read_steps(instruction: str) -> list[str]:
    """The arguments of each instruction of this name, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [" ".join(found.split()) for found in re.findall(rf"^{instruction} (.*)$", text, re.MULTILINE)]


def copy_context(folder: Path) -> None:
    """Copies what .dockerignore leaves: it names everything, and then what stays."""
    first, *rest = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()[1:]
    assert (first, rest[-1]) == ("*", "**/__pycache__")
    for line in rest[:-1]:
        source = ROOT / line.removeprefix("!")
        if source.is_dir():
            shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
