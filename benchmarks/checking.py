"""What checksums and syncs cost a study: its files digested and written again, beside the time that it took.

python -m benchmarks.checking [FOLDER] [CACHE] [REPEATS]

FOLDER is a finished study and CACHE what it was run with, by default results/quick and results/.cache. A cached file is
digested where it is written and in each trial's process, prepared data in the driver too. What must outlast a power cut
is written with and without waiting for the disk, in turn. States of training had their checksums before; of them only
the wait counts.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from study.records.run_record import set_aside_damaged_records
from trainables.utils.checksums import hash_file
from trainables.utils.files import write_atomically
from trainables.utils.system import count_cores


def seconds(work: Callable[[], object]) -> float:
    """Of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def files(folder: Path, pattern: str) -> list[Path]:
    """Those below a folder."""
    return [path for path in folder.glob(pattern) if path.is_file()]


def rewritten(contents: list[bytes], beside: Path, durable: bool) -> float:
    """Seconds to write each content to a file of its own."""
    with tempfile.TemporaryDirectory(dir=beside.parent) as name:
        began = time.perf_counter()
        for number, content in enumerate(contents):
            with write_atomically(Path(name, str(number)), durable=durable) as draft:
                draft.write_bytes(content)
        return time.perf_counter() - began


def main(study: Path, cache: Path, repeats: int) -> None:
    """Prints seconds and their share of the study's."""
    whole = json.loads((study / "clock.json").read_text("utf-8"))["seconds"]
    cached = {name: files(cache / name, "**/*") for name in ("prepared", "tokens", "features")}
    durable = [*files(study, "runs/*/*"), *files(study, "*.json"), *files(cache / "stages", "**/*")]
    contents, counts = [path.read_bytes() for path in durable], {"prepared": count_cores() + 2}
    size = sum(path.stat().st_size for paths in cached.values() for path in paths) / 1e6
    print(f"{study}: {whole:.0f} s; {size:.0f} MB of cached files; {len(durable)} files that are waited for")
    found: dict[str, list[float]] = {"digests of cached files": [], "records at a start": [], "waits": []}
    for _ in range(repeats):
        digests = [
            counts.get(name, count_cores() + 1) * seconds(lambda paths=paths: [hash_file(path) for path in paths])
            for name, paths in cached.items()
        ]
        found["digests of cached files"].append(sum(digests))
        found["records at a start"].append(seconds(lambda: set_aside_damaged_records(study, print)))
        found["waits"].append(rewritten(contents, study, durable=True) - rewritten(contents, study, durable=False))
    for title, values in found.items():
        print(f"{title:24} {median(values):6.2f} s ({min(values):.2f}-{max(values):.2f})  {median(values) / whole:.2%}")
    total = sum(map(median, found.values()))
    print(f"{'together':24} {total:6.2f} s  {total / whole:.2%}; the bar is 1 %")


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *("results/quick", "results/.cache", "5")[len(sys.argv) - 1 :]]
    main(Path(arguments[0]), Path(arguments[1]), int(arguments[2]))
