"""Task hard-negatives: MS MARCO queries with the negatives that retrieval systems found.

JSON lines `{"qid": .., "pos": [..], "neg": {"bm25": [..], ..}}`, in both published forms: lists of passage ids, or of
objects `{"pid": .., "bm25-score": ..}`.
"""

import math
from pathlib import Path
from typing import Any

from trainables.data.tasks import IRDataset, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.dataset_builder import DatasetBuilder
from trainables.data.tasks.readers import FileLocation, get_member
from trainables.data.tasks.splits import split_by_hash
from trainables.specs.ranker import RankerTaskSettings
from trainables.utils.errors import UserError

SYSTEM = "bm25"
"""The retrieval system whose negatives are read."""


_MAX_SCORE = 1e9
"""What no score of BM25 comes near."""


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Reads the files in the folder `settings.path`, each as it is or with `.gz` behind.

    Queries are split 80/10/10 % by the SHA-256 of their id. BM25's negatives are candidates, in the file's order. All
    passages are kept; where only judged ones are sampled, only those and the candidates.

    Raises:
        UserError: a file is missing or not in this format; an id is unknown, or has two texts.
    """
    negatives, queries, passages = _find_files(settings)
    needed, seen = set[str](), set[str]()
    builder = DatasetBuilder(needed if (settings.pool or TASK.pool) == "judged" else None)
    for location, value in reading.read_json_lines(negatives):
        query = _parse_id(location, value, "qid")
        split = split_by_hash(query)
        if query in seen:
            builder.repeated[query] += 1
        seen.add(query)
        positive = get_member(location, value, "pos", list)
        if not positive:
            builder.skipped["query without a positive"] += 1
            continue
        for passage in positive:
            name, _ = _parse_passage(location, passage)
            needed.add(name)
            builder.add_qrel(location, split, query, name)
        lists = get_member(location, value, "neg", dict)
        for system in lists.keys() - {SYSTEM}:
            builder.skipped[f"list of negatives, {system}"] += 1
        for passage in get_member(location, lists, SYSTEM, list) if SYSTEM in lists else []:
            name, score = _parse_passage(location, passage)
            needed.add(name)
            builder.add_candidate(location, split, query, name, score)
    for location, (name, text) in reading.read_rows(queries, ("id", "text")):
        builder.add_query(location, name, text)
    for location, (name, text) in reading.read_rows(passages, ("id", "text")):
        builder.add_document(location, name, text)
    return builder.build(settings)


def get_source_version(settings: RankerTaskSettings) -> str:
    """Changes with a file."""
    return reading.hash_file_stats(_find_files(settings))


def _parse_passage(location: FileLocation, value: Any) -> tuple[str, float]:
    """Id and BM25's score, NaN where it is not told."""
    if not isinstance(value, dict):
        return _parse_id(location, {"pid": value}, "pid"), math.nan
    score = value.get(f"{SYSTEM}-score", math.nan)
    if isinstance(score, bool) or not isinstance(score, int | float) or abs(score) > _MAX_SCORE:
        raise UserError(str(location), f"{SYSTEM}-score is {reading.quote_text(str(score))}", "a number")
    return _parse_id(location, value, "pid"), float(score)


def _parse_id(location: FileLocation, value: dict[str, Any], name: str) -> str:
    identity = value.get(name)
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        raise UserError(str(location), f"{name} is {reading.quote_text(str(identity))}", "an id, number or text")
    return str(identity)


def _find_files(settings: RankerTaskSettings) -> list[Path]:
    return reading.find_files(settings, "*.jsonl", "queries.tsv", ("passages.tsv", "collection.tsv"))


TASK = Task(read_dataset, get_source_version, "all")
