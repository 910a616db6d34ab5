"""Packages that the benchmark needs beyond torch and transformers: which are missing, and a folder to carry.

The folder is for a machine without a network, and is packed into one archive. Uses the standard library alone.

python -m benchmarks.gpu.packages FOLDER [--python 3.12] [--only-missing]
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-bench.lock")
_OLDEST = {"torch": (2, 11), "transformers": (5, 15)}
_ESSENTIAL = ("annotated-types", "pydantic", "pydantic_core", "typing-inspection", "datasets", "dill", "multiprocess")
"""What a machine lacks that has sentence-transformers and pandas, and what they can use."""
CARRIED = (
    *("annotated-types", "pydantic", "pydantic_core", "typing-inspection", "typing_extensions"),
    *("pandas", "pyarrow", "python-dateutil", "scipy", "tzdata"),
    # sentence-transformers, the contender, with what its trainer imports
    *("accelerate", "cloudpickle", "datasets", "dill", "joblib", "multiprocess", "narwhals", "psutil"),
    *("scikit-learn", "sentence-transformers", "threadpoolctl", "xxhash"),
)
"""Distributions in the folder; all others come with torch and transformers."""
_INSIDE = "site-packages"
"""Name of the folder inside, by which dill, which datasets uses, knows modules that it need not save."""


def describe_missing(names: Iterable[str]) -> str | None:
    """One line that names the missing and too old packages and the remedy, or None if there are none."""
    missing = [name for name in names if find_spec(name) is None]
    old = [
        f"{name} {version(name)} (needed: {'.'.join(map(str, least))})"
        for name, least in _OLDEST.items()
        if name not in missing and _is_older(name, least)
    ]
    if not missing and not old:
        return None
    reasons = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"too old: {', '.join(old)}"] * bool(old)
    remedy = "install what belongs to torch and transformers, and carry the rest: run `make gpu-packages` on a machine "
    return f"{sys.executable}: {'; '.join(reasons)}; {remedy}with a network and copy build/gpu-packages.tar.xz here"


def _is_older(name: str, least: tuple[int, ...]) -> bool:
    try:
        found = tuple(int(number) for number in re.findall(r"\d+", version(name))[: len(least)])
    except PackageNotFoundError:
        return False
    return found < least


def list_requirements(names: Iterable[str] = CARRIED) -> list[str]:
    """The carried distributions with the locked versions."""
    locked = dict(
        line.lower().split("==")
        for name in _LOCKS
        for line in (_ROOT / name).read_text("utf-8").split()
        if "==" in line
    )
    return [f"{name}=={locked[name.lower()]}" for name in names]


def collect(folder: Path, python: str, names: Iterable[str]) -> None:
    """Installs the distributions into a new folder, for this version of Python."""
    shutil.rmtree(folder, ignore_errors=True)
    target = str(folder / _INSIDE)
    options = ["--no-deps", "--no-compile", "--only-binary=:all:", "--python-version", python, "--target", target]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *options, *list_requirements(names)], check=True)


def main() -> None:
    """Collects, packs and says how large both are."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.packages", description="Collects packages to carry."
    )
    parser.add_argument("folder", type=Path)
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", default=this, help=f"version of Python that will use them, by default {this}")
    only = "leave out what a machine with torch, transformers, sentence-transformers and pandas has"
    parser.add_argument("--only-missing", action="store_true", help=only)
    options = parser.parse_args()
    collect(options.folder, options.python, _ESSENTIAL if options.only_missing else CARRIED)
    archive = shutil.make_archive(str(options.folder), "xztar", options.folder.parent, options.folder.name)
    print(f"{archive}: {Path(archive).stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
