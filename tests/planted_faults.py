"""Plants the faults of planted_faults.toml, each in a copy of the tree, and runs the tests that catch it.

Use: python -m tests.planted_faults [--only NUMBER ...]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
_NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info")


class Fault(NamedTuple):
    """A text that occurs once in a file, what a slip makes of it, and the file of tests, or the test, that then fails.

    `options` are further ones of pytest, with which these tests are also run by `make test`.
    """

    file: str
    old: str
    new: str
    caught_by: str
    options: str = ""


def read_faults() -> list[Fault]:
    """Return the faults in their order."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return [Fault(**fault) for fault in content["fault"]]


def is_caught(fault: Fault, tree: Path) -> bool:
    """Return whether the tests fail with a fault in a copy of the tree, which is as before afterwards."""
    path = tree / fault.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
    options = ["-x", "-q", "-m", "not long", "-p", "no:cacheprovider", *fault.options.split()]
    command = [sys.executable, "-m", "pytest", *options, fault.caught_by]
    try:
        return subprocess.run(command, cwd=tree, stdout=subprocess.DEVNULL).returncode == 1
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """Say of each fault whether it is caught, and return 1 if one is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="numbers of the faults, from 1")
    only, survived = parser.parse_args().only, 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        shutil.copytree(ROOT, tree, ignore=_NOT_COPIED)
        for number, fault in enumerate(read_faults(), 1):
            if only is None or number in only:
                caught = is_caught(fault, tree)
                survived += not caught
                print(f"{number:2} {'caught' if caught else 'SURVIVED'} {fault.file}: {fault.new!r}", flush=True)
    return min(survived, 1)


if __name__ == "__main__":
    sys.exit(main())
