"""Task hard-negatives: MS MARCO queries with the negatives that retrieval systems found.

JSON lines `{"qid": .., "pos": [..], "neg": {"bm25": [..], ..}}`, in both published forms: lists of passage ids, or of
objects `{"pid": .., "bm25-score": ..}`.
"""

import math
from pathlib import Path
from typing import Any

from trainables.data.tasks import Collection, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.collection import Collector
from trainables.data.tasks.readers import Place, member
from trainables.data.tasks.splits import by_hash
from trainables.specs.ranker import TaskSettings
from trainables.utils.errors import UserError

SYSTEM = "bm25"
"""The retrieval system whose negatives are read."""


_LARGEST = 1e9
"""What no score of BM25 comes near."""


def read(settings: TaskSettings) -> Collection:
    """Reads the files in the folder `settings.path`, each as it is or with `.gz` behind.

    Queries are split 80/10/10 % by the SHA-256 of their id. BM25's negatives are candidates, in the file's order. All
    passages are kept; where only judged ones are sampled, only those and the candidates.

    Raises:
        UserError: a file is missing or not in this format; an id is unknown, or has two texts.
    """
    negatives, queries, passages = _files(settings)
    needed, named = set[str](), set[str]()
    collector = Collector(needed if (settings.pool or TASK.pool) == "judged" else None)
    for place, value in reading.objects(negatives):
        query = _identity(place, value, "qid")
        split = by_hash(query)
        if query in named:
            collector.repeated[query] += 1
        named.add(query)
        positive = member(place, value, "pos", list)
        if not positive:
            collector.skipped["query without a positive"] += 1
            continue
        for passage in positive:
            name, _ = _passage(place, passage)
            needed.add(name)
            collector.judgement(place, split, query, name)
        lists = member(place, value, "neg", dict)
        for system in lists.keys() - {SYSTEM}:
            collector.skipped[f"list of negatives, {system}"] += 1
        for passage in member(place, lists, SYSTEM, list) if SYSTEM in lists else []:
            name, score = _passage(place, passage)
            needed.add(name)
            collector.candidate(place, split, query, name, score)
    for place, (name, text) in reading.rows(queries, ("id", "text")):
        collector.query(place, name, text)
    for place, (name, text) in reading.rows(passages, ("id", "text")):
        collector.document(place, name, text)
    return collector.finish(settings)


def state(settings: TaskSettings) -> str:
    """Changes with a file."""
    return reading.state(_files(settings))


def _passage(place: Place, value: Any) -> tuple[str, float]:
    """Id and BM25's score, NaN where it is not told."""
    if not isinstance(value, dict):
        return _identity(place, {"pid": value}, "pid"), math.nan
    score = value.get(f"{SYSTEM}-score", math.nan)
    if isinstance(score, bool) or not isinstance(score, int | float) or abs(score) > _LARGEST:
        raise UserError(str(place), f"{SYSTEM}-score is {reading.quoted(str(score))}", "a number")
    return _identity(place, value, "pid"), float(score)


def _identity(place: Place, value: dict[str, Any], name: str) -> str:
    found = value.get(name)
    if isinstance(found, bool) or not isinstance(found, int | str):
        raise UserError(str(place), f"{name} is {reading.quoted(str(found))}", "an id, number or text")
    return str(found)


def _files(settings: TaskSettings) -> list[Path]:
    return reading.files(settings, "*.jsonl", "queries.tsv", ("passages.tsv", "collection.tsv"))


TASK = Task(read, state, "all")
