"""Task msmarco: passages that answer Bing's queries (MS MARCO, TREC Deep Learning).

Penha and Hauff (2021), section 4: the judgements of the development set are halved into dev and test.
"""

from pathlib import Path

from trainables.data.tasks import Collection, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.collection import Collector, grade
from trainables.data.tasks.splits import halved
from trainables.specs.ranker import TaskSettings

TEXTS = ("collection.tsv", "queries.train.tsv", "queries.dev.tsv")
"""Id and text of passages and queries, a tab between."""
QRELS = ("qrels.train.tsv", "qrels.dev.tsv")
"""TREC's format: topic, 0, passage, grade."""


def read(settings: TaskSettings) -> Collection:
    """Reads the files in the folder `settings.path`, each as it is or with `.gz` behind.

    The collection has 8.8 million passages: where only judged ones are sampled, only they are kept.

    Raises:
        UserError: a file is missing or not in this format; an id is unknown, or has two texts.
    """
    passages, *queries, train, dev = _files(settings)
    judged = {"train": list(reading.rows(train, ("topic", "0", "passage", "grade"), None))}
    rows = list(reading.rows(dev, ("topic", "0", "passage", "grade"), None))
    judged["dev"], judged["test"] = halved(rows, lambda row: row[1][0])
    only = {row[1][2] for rows in judged.values() for row in rows}
    collector = Collector(only if (settings.pool or TASK.pool) == "judged" else None)
    for path in queries:
        for place, (name, text) in reading.rows(path, ("id", "text")):
            collector.query(place, name, text)
    for place, (name, text) in reading.rows(passages, ("id", "text")):
        collector.document(place, name, text)
    for split, rows in judged.items():
        for place, (query, _, document, degree) in rows:
            collector.judgement(place, split, query, document, grade(place, degree))
    return collector.finish(settings)


def state(settings: TaskSettings) -> str:
    """Changes with a file."""
    return reading.state(_files(settings))


def _files(settings: TaskSettings) -> list[Path]:
    return reading.files(settings, *TEXTS, *QRELS)


TASK = Task(read, state)
