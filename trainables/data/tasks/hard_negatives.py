"""Task hard-negatives: MS MARCO queries with the negatives that retrieval systems found.

The files contain JSON lines `{"qid": .., "pos": [..], "neg": {"bm25": [..], ..}}`. Both published forms are read: lists
of passage ids, and lists of objects `{"pid": .., "bm25-score": ..}`.
"""

import math
from pathlib import Path
from typing import Any

from trainables.data.files import readers
from trainables.data.files.candidates_run import select_needed_ids
from trainables.data.files.readers import get_member
from trainables.data.tasks import IRDataset, Task
from trainables.data.tasks.dataset_builder import DatasetBuilder
from trainables.data.tasks.splits import split_by_hash
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.text_files import FileLocation, quote_text
from trainables.utils.errors import UserError

SYSTEM = "bm25"
"""Name of the retrieval system that the negatives are read from."""
FIRST_GRADE = 2
"""Grade of the first positive of a query. That of the others is 1, so `relevant_from` = 2 leaves the first alone; the
others are then neither relevant nor sampled as negatives."""
_MAX_SCORE = 1e9
"""Bound on the absolute value of a score, far above any real BM25 score."""


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read the files in the folder `settings.path`.

    Each file may be plain or gzipped, with `.gz` appended to its name. The queries are split 80/10/10 % by the SHA-256
    of their id. The negatives of BM25 are the candidates, in the order of the file. All passages are kept, unless the
    pool is "judged": then only the judged passages and the candidates are kept.

    Raises:
        UserError: If a file is missing or not in this format, or if an id is unknown or has two texts.
    """
    negatives, queries, passages = _find_files(settings)
    seen, first = set[str](), dict[str, str]()
    builder = DatasetBuilder(select_needed_ids(settings, TASK.pool, judged=set()))
    for location, value in readers.read_json_lines(negatives):
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
            builder.keep_document(name)
            is_first = first.setdefault(query, name) == name
            builder.add_qrel(location, split, query, name, FIRST_GRADE if is_first else 1)
        lists = get_member(location, value, "neg", dict)
        for system in lists.keys() - {SYSTEM}:
            builder.skipped[f"list of negatives, {system}"] += 1
        for passage in get_member(location, lists, SYSTEM, list) if SYSTEM in lists else []:
            name, score = _parse_passage(location, passage)
            builder.keep_document(name)
            builder.add_candidate(location, split, query, name, score)
    for location, (name, text) in readers.read_rows(queries, ("id", "text")):
        builder.add_query(location, name, text)
    for location, (name, text) in readers.read_rows(passages, ("id", "text")):
        builder.add_document(location, name, text)
    return builder.build(settings)._replace(spared_from=1)


def _parse_passage(location: FileLocation, value: Any) -> tuple[str, float]:
    """Return the passage's id and its BM25 score, NaN if there is none."""
    if not isinstance(value, dict):
        return _parse_id(location, {"pid": value}, "pid"), math.nan
    score = value.get(f"{SYSTEM}-score", math.nan)
    if isinstance(score, bool) or not isinstance(score, int | float) or abs(score) > _MAX_SCORE:
        raise UserError(str(location), f"{SYSTEM}-score is {quote_text(str(score))}", "a number")
    return _parse_id(location, value, "pid"), float(score)


def _parse_id(location: FileLocation, value: dict[str, Any], name: str) -> str:
    identity = value.get(name)
    if isinstance(identity, bool) or not isinstance(identity, int | str):
        raise UserError(str(location), f"{name} is {quote_text(str(identity))}", "an id, number or text")
    return str(identity)


def _find_files(settings: RankerTaskSettings) -> list[Path]:
    return readers.find_files(settings, "*.jsonl", "queries.tsv", ("passages.tsv", "collection.tsv"))


TASK = Task(read_dataset, readers.make_source_version(_find_files), "all")
