"""Small TREC runs and qrels, with ties, several grades and documents without judgements."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

DEPTH = 12
"""Documents of a query in a run."""


def write_qrels(folder: Path, queries: int = 8, irrelevant: int = 0) -> Path:
    """Judges five documents of each query, in grades from 0 to 3; the last queries have no relevant document."""
    rng = np.random.default_rng(0)
    lines = []
    for number in range(1, queries + 1):
        for document in range(5):
            grade = 0 if number > queries - irrelevant else max(int(rng.integers(0, 4)), int(document == 0))
            lines.append(f"q{number:02} 0 d{document} {grade}\n")
    (folder / "qrels.txt").write_text("".join(lines))
    return folder / "qrels.txt"


def write_runs(folder: Path, queries: int = 8, lacking: Mapping[str, int] | None = None) -> dict[str, list[Path]]:
    """Writes one run of bm25 and three of bert and of t5; `lacking` names the queries that a file begins after."""
    rng = np.random.default_rng(1)
    runs: dict[str, list[Path]] = {}
    for system, count in (("bm25", 1), ("bert", 3), ("t5", 3)):
        for seed in range(1, count + 1):
            path = folder / (f"{system}.{seed}.run" if count > 1 else f"{system}.run")
            lines = []
            for number in range(1 + (lacking or {}).get(path.name, 0), queries + 1):
                documents = rng.permutation(DEPTH)
                scores = np.round(rng.normal(-0.3 * documents, 1 + (system == "bm25")), 1)  # ties
                for rank, place in enumerate(np.argsort(-scores), 1):
                    lines.append(f"q{number:02} Q0 d{documents[place]} {rank} {scores[place]} {system}\n")
            path.write_text("".join(lines))
            runs.setdefault(system, []).append(path)
    return runs
