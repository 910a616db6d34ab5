"""Packages that add to the registries: the example, really installed, and small ones that are written for a test."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.study.command import environment

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_package"


def install_example(folder: Path) -> Path:
    """Builds the example with the installed setuptools, and installs it; returns the folder for PYTHONPATH."""
    shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    options = ("--no-build-isolation", "--no-deps", "--no-index", "--target", str(folder / "installed"))
    command = [sys.executable, "-m", "pip", "install", "-q", *options, str(folder / "source")]
    subprocess.run(command, check=True, timeout=120)
    return folder / "installed"


def write_package(
    folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], code: str = "", version: str = "1.0"
) -> Path:
    """Writes a package with one module as an installer leaves it; returns the folder for PYTHONPATH.

    Args:
        folder: the folder.
        name: name of the package and of its module.
        groups: group, without its prefix -> name of an entry point -> reference.
        code: content of the module.
        version: version of the package.
    """
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[ranker_studies.{group}]", *(f"{label} = {reference}" for label, reference in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return folder


def run_with(
    packages: Path, place: Path, *arguments: str, timeout: int = 120, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python in a folder, with the packages beside the project."""
    paths = os.pathsep.join([str(packages), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=place,
        env=environment(PYTHONPATH=paths, **variables),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
