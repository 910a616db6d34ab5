"""The statistics at size: 20 systems, 10 seeds, 50,000 queries from a Parquet file, all 190 pairs.

python -m benchmarks.compare [SYSTEMS SEEDS QUERIES]
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def write(path: Path, systems: int, seeds: int, queries: int) -> None:
    """Scores of systems that are alike: deviations .2 between queries, .006 between seeds, .12 in the rest."""
    rng = np.random.default_rng(0)
    values = rng.normal(0.5, 0.2, queries) + rng.normal(0, 0.12, (systems, seeds, queries))
    values += rng.normal(0, 0.006, (systems, seeds, 1))
    names = np.repeat([f"system {number:02}" for number in range(systems)], seeds * queries)
    columns = {
        "system": pa.array(names).dictionary_encode(),
        "seed": np.tile(np.repeat(np.arange(seeds), queries), systems),
        "query": pa.array(
            np.tile([f"query {number}" for number in range(queries)], systems * seeds)
        ).dictionary_encode(),
        "value": values.ravel(),
    }
    pq.write_table(pa.table(columns), path)


def main(systems: int, seeds: int, queries: int) -> None:
    """Prints seconds and memory of the command."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scores.parquet")
        write(path, systems, seeds, queries)
        started = time.perf_counter()
        command = [sys.executable, "-m", "analysis.compare", str(path), "--json", str(Path(folder, "compared.json"))]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pairs = systems * (systems - 1) // 2
    print(
        f"{systems} systems x {seeds} seeds x {queries:,} queries, {pairs} pairs: "
        f"{seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of a core, {used.ru_maxrss / 2**20:.2f} GiB; "
        "the bars are 120 s and 4 GiB"
    )


if __name__ == "__main__":
    main(*([int(value) for value in sys.argv[1:4]] or [20, 10, 50_000]))
