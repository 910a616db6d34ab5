"""How many of the negatives of the paper on weakly supervised smoothing other settings of BM25 find.

python -m benchmarks.negatives FOLDER [TASK]    # TASK is qqp unless it is named
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from trainables.data.ranking_preparation import prepare_data
from trainables.specs.ranking_task import RankerTaskSettings

PAPER = {"preset": "wsls-paper"}
KEYS = ({"k1": 0.9, "b": 0.4}, {"words": "stemmed"}, {"paper_code": True}, {"idf": "lucene"}, {"keep_query_text": True})
"""The keys of the preset, in the order in which they are added to the default."""


def sample_negatives(task: str, path: str, sampler: dict[str, Any], cache: Path) -> pd.DataFrame:
    """Query id, document id and weak label of the training negatives."""
    settings = RankerTaskSettings.model_validate({"name": task, "path": path, "sampler": sampler})
    candidates = prepare_data(settings, cache).read_candidates("train")
    return candidates[candidates["relevant"] == 0][["query_id", "document_id", "weak_label"]]


def main(path: str, task: str = "qqp") -> None:
    """Prints the share of the preset's negatives by settings, each with the keys of the lines before."""
    with tempfile.TemporaryDirectory() as cache:
        expected = sample_negatives(task, path, PAPER, Path(cache))
        print(f"| settings | found, of {len(expected):,} negatives | mean weak label |\n|---|---|---|")
        sampler: dict[str, Any] = {}
        for keys in ({}, *KEYS):
            sampler |= keys
            found = sample_negatives(task, path, sampler, Path(cache))
            share = len(found.merge(expected, on=["query_id", "document_id"])) / len(expected)
            name = ", ".join(f"{key} = {value}" for key, value in keys.items()) or "default"
            print(f"| {name} | {share:.3f} | {found['weak_label'].mean():.3f} |", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
