"""Share of the negatives of the paper on weakly supervised smoothing that the default BM25 finds.

python -m benchmarks.negatives FOLDER [TASK]    # TASK is qqp unless it is named
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from trainables.data.ranking_preparation import prepare_data
from trainables.specs.ranking_task import RankerTaskSettings


def sample_negatives(task: str, path: str, sampler: dict[str, Any], cache: Path) -> pd.DataFrame:
    """Query id, document id and weak label of the training negatives."""
    settings = RankerTaskSettings.model_validate({"name": task, "path": path, "sampler": sampler})
    candidates = prepare_data(settings, cache).read_candidates("train")
    return candidates[candidates["relevant"] == 0][["query_id", "document_id", "weak_label"]]


def main(path: str, task: str = "qqp") -> None:
    """Prints the share of the preset's negatives that the default finds, and the mean weak label of both."""
    with tempfile.TemporaryDirectory() as cache:
        expected = sample_negatives(task, path, {"preset": "wsls-paper"}, Path(cache))
        print(f"| sampler | found, of {len(expected):,} negatives | mean weak label |\n|---|---|---|")
        for name, found in {"default": sample_negatives(task, path, {}, Path(cache)), "wsls-paper": expected}.items():
            share = len(found.merge(expected, on=["query_id", "document_id"])) / len(expected)
            print(f"| {name} | {share:.3f} | {found['weak_label'].mean():.3f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
