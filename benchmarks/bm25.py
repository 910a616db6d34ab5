"""BM25 negatives for 10,000 queries over collections of up to a million documents, and rank_bm25 beside it.

python -m benchmarks.bm25 [DOCUMENTS ...]
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import psutil
from rank_bm25 import BM25Okapi

from benchmarks.measure import interleaved, machine, rate, show
from trainables.data.negatives.base import Query
from trainables.data.negatives.bm25 import Bm25Sampler
from trainables.data.negatives.selection import find_nearest
from trainables.data.ranking_sampling import CandidateSampler
from trainables.data.tasks import IRDataset, Qrel
from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings
from trainables.utils.random import make_generator
from trainables.utils.words import find_words

_SIZES = (10_000, 100_000, 1_000_000)
_QUERIES, _QUERY_WORDS = 10_000, 6
_WORDS, _LENGTH, _SPREAD = 300_000, 56, 0.45
"""Vocabulary; mean length of a passage of MS MARCO in words, and the standard deviation of its logarithm."""
_BESIDE = 100_000
_FEW = 20
"""Queries for which rank_bm25 is asked."""


def collection(size: int) -> IRDataset:
    """Documents of real lengths whose words follow Zipf's law; a query is some words of its relevant document."""
    draws = make_generator(1, "benchmark corpus", size)
    share = np.cumsum(1 / (np.arange(_WORDS) + 2.7))
    lengths = np.maximum(8, draws.lognormal(np.log(_LENGTH) - _SPREAD**2 / 2, _SPREAD, size).astype(int))
    words = np.searchsorted(share, draws.random(int(lengths.sum())) * share[-1])
    names = np.array([f"w{number}" for number in range(_WORDS)], dtype=object)
    parts = np.split(words, np.cumsum(lengths)[:-1])
    documents = {f"d{number}": " ".join(names[part]) for number, part in enumerate(parts)}
    queries = {f"q{i}": " ".join(names[draws.choice(parts[i], _QUERY_WORDS, replace=False)]) for i in range(_QUERIES)}
    judged = [Qrel("train", f"q{i}", f"d{i}") for i in range(_QUERIES)]
    return IRDataset(queries, documents, judged, [], {})


def one(size: int) -> dict[str, Any]:
    """Seconds and memory of indexing and sampling; to be called in a process of its own."""
    made, marks, peak = collection(size), [("", 0.0)], [0]
    threading.Thread(target=_watch, args=(peak,), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        preparation = CandidateSampler(
            Path(folder), RankerTaskSettings(pool="all"), made, lambda line: marks.append((line, time.perf_counter()))
        )
        before = time.perf_counter()
        _, counts = preparation.sample_split("train", list(made.queries))
        ended = time.perf_counter()
        sampling = next(at for line, at in marks if line.startswith("sampling"))
        index = sum(file.stat().st_size for file in Path(folder).rglob("00000/*"))
    return {
        "index": sampling - before,
        "sampling": ended - sampling,
        "index_bytes": index,
        "bytes": peak[0],
        "back_filled": counts["back_filled"],
    }


def _watch(peak: list[int]) -> None:
    """Keeps the most memory that this process and its workers held at once; what they share counts once."""
    while True:
        used = 0
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            with suppress(psutil.Error):
                used += process.memory_full_info().pss
        peak[0] = max(peak[0], used)
        time.sleep(0.5)


def beside(rounds: int = 3) -> None:
    """Queries a second of this index, of rank_bm25 and of bm25s, each with one thread, ten best documents."""
    made, settings = collection(_BESIDE), SamplerSettings()
    texts = list(made.documents.values())
    few = [Query(name, text, np.array([], dtype=np.int64), np.array([])) for name, text in made.queries.items()][:_FEW]
    many = few * 10
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "00000").mkdir()
        Bm25Sampler.build(Path(folder, "00000"), texts, settings)
        ours, tokens = Bm25Sampler(Path(folder), settings, len(texts)), [find_words(text) for text in texts]
        oracle, other = BM25Okapi(tokens), bm25s.BM25(method="atire", dtype="float64", backend="numba")
        other.index(tokens, show_progress=False)
        words = [find_words(query.text) for query in many]
        measures = {
            "rank_bm25": rate(lambda: [np.argsort(-oracle.get_scores(words[i]))[:10] for i in range(_FEW)], _FEW),
            "this index": rate(lambda: [find_nearest(scored.order, 10) for scored in ours.score_pool(many)], len(many)),
            "bm25s, numba": rate(
                lambda: other.retrieve(words, k=10, show_progress=False, n_threads=1, backend_selection="numba"),
                len(many),
            ),
        }
        show(f"{_BESIDE} documents, one thread", "queries/s", interleaved(measures, rounds))
        worst = max(np.abs(ours.score_text(q.text) - oracle.get_scores(find_words(q.text))).max() for q in few)
        print(f"  largest difference of a score to rank_bm25's: {worst:.1g}")


def main() -> None:
    """Prints a line a size, then the comparison."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(int(sys.argv[2]))))
        return
    print(f"{machine()}: {_QUERIES} queries, 9 negatives each")
    for size in map(int, sys.argv[1:] or _SIZES):
        command = [sys.executable, "-m", "benchmarks.bm25", "--one", str(size)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        index = f"index {found['index']:.0f} s, {found['index_bytes'] / 2**20:.0f} MiB on disk"
        sampling = f"sampling {found['sampling']:.0f} s, {_QUERIES / found['sampling']:.0f} queries/s"
        space = f"at most {found['bytes'] / 2**30:.1f} GiB in all processes"
        print(f"  {size:9} documents: {index}; {sampling}; {space}; {found['back_filled']} drawn", flush=True)
    beside()


if __name__ == "__main__":
    main()
