"""Task beir: a folder in the layout of the BEIR benchmark (Thakur et al. 2021)."""

from pathlib import Path

from trainables.data.tasks import SPLITS, Collection, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.collection import Collector, grade
from trainables.specs.ranker import TaskSettings

FILES = ("corpus.jsonl", "queries.jsonl", *(f"qrels/{split}.tsv" for split in SPLITS))


def read(settings: TaskSettings) -> Collection:
    """Reads corpus, queries and the judgements of all three splits, each file as it is or with `.gz` behind.

    A document's text is its title and its text. Published corpora have documents with neither (FiQA: 38): they and
    their judgements are skipped.

    Raises:
        UserError: a file is missing or not in this format; an id is unknown, or has two texts.
    """
    corpus, queries, *qrels = _files(settings)
    columns = ("query-id", "corpus-id", "score")
    judged = {split: list(reading.table(path, columns, "\t")) for split, path in zip(SPLITS, qrels, strict=True)}
    only = {row[1][1] for rows in judged.values() for row in rows}
    collector = Collector(only if (settings.pool or TASK.pool) == "judged" else None)
    for place, value in reading.objects(queries):
        collector.query(place, reading.member(place, value, "_id", str), reading.member(place, value, "text", str))
    empty = set()
    for place, value in reading.objects(corpus):
        name = reading.member(place, value, "_id", str)
        title = reading.member(place, value, "title", str) if value.get("title") else ""
        if text := f"{title} {reading.member(place, value, 'text', str)}".strip():
            collector.document(place, name, text)
        else:
            empty.add(name)
    for split, rows in judged.items():
        for place, (query, document, score) in rows:
            if document in empty:
                collector.skipped["judgement of an empty document"] += 1
            else:
                collector.judgement(place, split, query, document, grade(place, score))
    if empty:
        collector.skipped["empty document"] = len(empty)
    return collector.finish(settings)


def state(settings: TaskSettings) -> str:
    """Changes with a file."""
    return reading.state(_files(settings))


def _files(settings: TaskSettings) -> list[Path]:
    return reading.files(settings, *FILES)


TASK = Task(read, state, "all")
