"""Checks and measures this project on a GPU; without one, runs the same code with tiny models on a pretend GPU.

Prints a table, and one JSON object in the last line. The status is 0 if all checks passed, and 1 otherwise, with the
names of the parts.

python -m benchmarks.gpu [--parts NAME,NAME] [--seconds S] [--rounds N] [--out FILE]
"""

import argparse
import gc
import json
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks.gpu.packages import describe_missing
from benchmarks.gpu.parts import PARTS, Place
from benchmarks.gpu.report import Row, format_table, list_failed
from trainables.utils.cli import Parser, print_error

_VERSIONS = ("torch", "transformers", "numpy", "sentence-transformers", "ray")


def parse_parts(text: str) -> list[str]:
    """The named parts in their usual order.

    Raises:
        argparse.ArgumentTypeError: if a name is none.
    """
    names = {name.strip() for name in text.split(",")}
    if wrong := sorted(names - PARTS.keys()):
        raise argparse.ArgumentTypeError(f"no part {wrong[0]!r}; expected some of {','.join(PARTS)}")
    return [name for name in PARTS if name in names]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the parts and returns the status."""
    start = time.monotonic()
    parser = Parser("benchmarks.gpu", "Checks and measures this project on a GPU.")
    parser.add_argument("--parts", type=parse_parts, default=list(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--seconds", type=float, default=840.0, metavar="S", help="end of all parts, 840 by default")
    parser.add_argument("--rounds", type=int, choices=range(1, 21), default=5, metavar="N", help="rounds, 1 to 20")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the JSON to this file after every part")
    options = parser.parse_args(argv)
    if options.out is not None and not options.out.parent.is_dir():
        parser.error(f"argument --out: no folder {options.out.parent}")
    if missing := describe_missing(dict.fromkeys(name for part in options.parts for name in PARTS[part].packages)):
        print_error("benchmarks.gpu", missing)
        return 2
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # One GPU: transformers' trainer would take all of them.
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    try:
        is_real = find_gpu()
    except RuntimeError as error:
        print_error("benchmarks.gpu", f"no GPU here, and {error}")
        return 2
    from benchmarks.contenders import quiet
    from trainables.training.process import prepare_process

    quiet()
    prepare_process(threads=2)
    print("on a CUDA GPU" if is_real else "on a pretend GPU: the code runs with tiny models, and no speed is measured")
    rows, seconds, result = dict[str, list[Row]](), dict[str, float](), dict[str, Any]()
    for number, name in enumerate(options.parts):
        begin, weights = time.monotonic(), [PARTS[each].weight for each in options.parts[number:]]
        end = begin + max(0.0, start + options.seconds - begin) * weights[0] / sum(weights)
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = run_part(name, Place(is_real, Path(folder), options.rounds if is_real else 1, end))
        free_memory()
        seconds[name] = round(time.monotonic() - begin, 1)
        print(f"{name} ({PARTS[name].text}): {seconds[name]:.0f} s", flush=True)
        result = describe(is_real, rows, seconds)
        if options.out is not None:
            options.out.write_text(f"{json.dumps(result)}\n", "utf-8")
    print(format_table(rows))
    for name in result["failed"]:
        print(f"failed: {name}")
    print(json.dumps(result))
    return 1 if result["failed"] else 0


def find_gpu() -> bool:
    """Return whether there is a GPU; without one, this process and its children get a pretend one."""
    import torch

    if torch.cuda.is_available() and "PRETEND_GPU" not in os.environ:
        return True
    from tests.pretend_gpu import make_environment
    from tests.pretend_gpu.cuda import install

    os.environ.update(make_environment())
    install()
    return False


def free_memory() -> None:
    """Give the memory of a part back, for the processes of the next one."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def describe(is_real: bool, rows: dict[str, list[Row]], seconds: dict[str, float]) -> dict[str, Any]:
    """Return the results so far, for JSON."""
    import torch

    failed = list_failed(rows)
    return {
        "gpu": torch.cuda.get_device_name(),
        "is_pretend": not is_real,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {name: _find_version(name) for name in _VERSIONS},
        "failed": failed,
        "parts": {
            name: {"failed": name in failed, "seconds": seconds[name], "rows": [row.as_dict() for row in own]}
            for name, own in rows.items()
        },
    }


def run_part(name: str, place: Place) -> list[Row]:
    """The rows of a part; one that raises an error has failed, and the others still run."""
    rows = list[Row]()
    try:
        rows.extend(PARTS[name].run(name, place))
    except Exception as error:
        traceback.print_exc()
        lines = str(error).splitlines() or [""]
        rows.append(Row("the rest of the part", "failed", note=f"{type(error).__name__}: {lines[0][:120]}"))
    return rows


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
