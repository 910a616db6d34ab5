"""Reads the run of a first stage. Its documents are candidates of dev and test queries: `task.candidates_run`."""

from collections.abc import Callable, Iterator, Set
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainables.data.files.readers import require_path
from trainables.specs.ranking_task import PoolName, RankerTaskSettings
from trainables.text.trec_files import TrecRun, read_trec_run
from trainables.utils.arrays import Floats
from trainables.utils.errors import UserError

KEY = "task.candidates_run"
_SPARE = 10
"""Documents of a query that are read beyond the depth: the query itself and its copies are left out later."""


class Ranking(NamedTuple):
    """Documents that a first stage retrieved for a query, best first."""

    documents: list[str]
    """(documents,) Ids of the documents."""
    scores: Floats
    """(documents,) Scores that order them, higher is better."""


def read_candidates_run(settings: RankerTaskSettings, log: Callable[[str], object] | None = None) -> dict[str, Ranking]:
    """Return the first documents of each query, by query id: `settings.retrieval_depth` of them, and a few more.

    Raises:
        UserError: If a file cannot be read or is malformed, or if two files have the same query.
    """
    rankings, sources = dict[str, Ranking](), dict[str, Path]()
    for path, run in _read_files(settings, log):
        for query, rows in run.rows.items():
            if query in rankings:
                raise UserError(str(path), f"query {query}, which {sources[query]} has", "each query in one file")
            order = rows[np.argsort(-run.scores[rows], kind="stable")]
            rankings[query] = Ranking(run.get_document_ids(order), run.scores[order])
            sources[query] = path
    return rankings


def select_needed_ids(settings: RankerTaskSettings, default: PoolName, judged: Set[str]) -> set[str] | None:
    """Return the ids of the documents that a study needs of a collection, or None if it needs all.

    Raises:
        UserError: If a run cannot be read.
    """
    if settings.searches_collection or settings.get_pool("train", default) == "all":
        return None
    retrieved = (run.documents.to_pylist() for _, run in _read_files(settings))
    return set(judged).union(*retrieved)


def _read_files(
    settings: RankerTaskSettings, log: Callable[[str], object] | None = None
) -> Iterator[tuple[Path, TrecRun]]:
    depth = settings.retrieval_depth
    for name in settings.candidates_run:
        path = require_path(name, KEY, "a run, which may be gzipped").absolute()
        yield path, read_trec_run(path, depth and depth + _SPARE, log)
