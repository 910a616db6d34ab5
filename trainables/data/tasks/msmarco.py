"""Task msmarco: passages that answer Bing's queries (MS MARCO, TREC Deep Learning).

Penha and Hauff (2021), section 4: the judgements of the development set are halved into dev and test.
"""

from pathlib import Path

from trainables.data.tasks import IRDataset, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.dataset_builder import DatasetBuilder, parse_grade
from trainables.data.tasks.splits import split_in_half
from trainables.specs.ranker import RankerTaskSettings

TEXTS = ("collection.tsv", "queries.train.tsv", "queries.dev.tsv")
"""Id and text of passages and queries, a tab between."""
QRELS = ("qrels.train.tsv", "qrels.dev.tsv")
"""TREC's format: topic, 0, passage, grade."""


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Reads the files in the folder `settings.path`, each as it is or with `.gz` behind.

    The collection has 8.8 million passages: where only judged ones are sampled, only they are kept.

    Raises:
        UserError: a file is missing or not in this format; an id is unknown, or has two texts.
    """
    passages, *queries, train, dev = _find_files(settings)
    judged = {"train": list(reading.read_rows(train, ("topic", "0", "passage", "grade"), None))}
    rows = list(reading.read_rows(dev, ("topic", "0", "passage", "grade"), None))
    judged["dev"], judged["test"] = split_in_half(rows, lambda row: row[1][0])
    judged_ids = {row[1][2] for rows in judged.values() for row in rows}
    builder = DatasetBuilder(judged_ids if (settings.pool or TASK.pool) == "judged" else None)
    for path in queries:
        for location, (name, text) in reading.read_rows(path, ("id", "text")):
            builder.add_query(location, name, text)
    for location, (name, text) in reading.read_rows(passages, ("id", "text")):
        builder.add_document(location, name, text)
    for split, rows in judged.items():
        for location, (query, _, document, degree) in rows:
            builder.add_qrel(location, split, query, document, parse_grade(location, degree))
    return builder.build(settings)


def get_source_version(settings: RankerTaskSettings) -> str:
    """Changes with a file."""
    return reading.hash_file_stats(_find_files(settings))


def _find_files(settings: RankerTaskSettings) -> list[Path]:
    return reading.find_files(settings, *TEXTS, *QRELS)


TASK = Task(read_dataset, get_source_version)
