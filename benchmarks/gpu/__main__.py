"""Checks and measures this project on a GPU; without one, a processor checks what it can and measures nothing.

Prints one table, and one JSON object in the last line. The status is 0 if all checks passed, and 1 otherwise, with the
names of the parts.

python -m benchmarks.gpu [--parts NAME,NAME] [--rounds N] [--out FILE]
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

from benchmarks.gpu.packages import describe_missing
from benchmarks.gpu.parts import PARTS, Place
from benchmarks.gpu.report import Row, format_table, list_failed
from trainables.utils.cli import Parser, print_error

_SECONDS = 15 * 60.0
"""Time of all parts. After its share of what is left, a part begins no further round, so that 20 minutes are enough."""
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
    parser = Parser("benchmarks.gpu", "Checks and measures this project on a GPU.")
    parser.add_argument("--parts", type=parse_parts, default=list(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--rounds", type=int, choices=range(1, 21), default=5, metavar="N", help="rounds, 1 to 20")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the JSON to this file")
    options = parser.parse_args(argv)
    if options.out is not None and not options.out.parent.is_dir():
        parser.error(f"argument --out: no folder {options.out.parent}")
    if missing := describe_missing(dict.fromkeys(name for part in options.parts for name in PARTS[part].packages)):
        print_error("benchmarks.gpu", missing)
        return 2
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # One GPU: transformers' trainer would take all of them.
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    import torch

    from benchmarks.contenders import quiet
    from trainables.training.process import prepare_process

    quiet()
    prepare_process(threads=2)
    is_gpu = torch.cuda.is_available()
    describe_parts(options.parts, is_gpu)
    rows, seconds = dict[str, list[Row]](), dict[str, float]()
    end = time.monotonic() + _SECONDS
    for number, name in enumerate(options.parts):
        started = time.monotonic()
        share = max(0.0, end - started) / (len(options.parts) - number)
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = run_part(name, Place("cuda" if is_gpu else "cpu", Path(folder), options.rounds, share))
        gc.collect()
        torch.cuda.empty_cache()  # for the processes of the next part
        seconds[name] = round(time.monotonic() - started, 1)
        print(f"{name}: {seconds[name]:.0f} s", flush=True)
    failed = list_failed(rows)
    print(format_table(rows))
    for name in failed:
        print(f"failed: {name}")
    result = {
        "device": "cuda" if is_gpu else "cpu",
        "gpu": torch.cuda.get_device_name() if is_gpu else None,
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "versions": {name: _find_version(name) for name in _VERSIONS},
        "failed": failed,
        "parts": {
            name: {"failed": name in failed, "seconds": seconds[name], "rows": [row.as_dict() for row in own]}
            for name, own in rows.items()
        },
    }
    text = json.dumps(result)
    if options.out is not None:
        options.out.write_text(f"{text}\n", "utf-8")
    print(text)
    return 1 if failed else 0


def describe_parts(names: Sequence[str], is_gpu: bool) -> None:
    """Prints what each part does here, and on a processor also what it would do on a GPU."""
    print("on a CUDA GPU" if is_gpu else "no CUDA GPU here: the processor checks what it can, and no speed is measured")
    for name in names:
        print(f"{name}: {PARTS[name].on_gpu}" + ("" if is_gpu else f"; here: {PARTS[name].on_cpu}"), flush=True)


def run_part(name: str, place: Place) -> list[Row]:
    """The rows of a part; one that raises an error has failed, and the others still run."""
    try:
        return PARTS[name].run(name, place)
    except Exception as error:
        traceback.print_exc()
        lines = str(error).splitlines() or [""]
        return [Row("the whole part", "failed", note=f"{type(error).__name__}: {lines[0][:120]}")]


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main())
