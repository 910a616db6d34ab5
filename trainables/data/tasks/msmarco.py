"""Task msmarco: passages that answer queries to Bing (MS MARCO, TREC Deep Learning).

As in Penha and Hauff (2021), section 4, the qrels of the development set are halved into dev and test.
"""

from pathlib import Path

from trainables.data.tasks import IRDataset, Task, readers
from trainables.data.tasks.dataset_builder import DatasetBuilder, parse_grade
from trainables.data.tasks.splits import split_in_half
from trainables.specs.ranker import RankerTaskSettings

TEXTS = ("collection.tsv", "queries.train.tsv", "queries.dev.tsv")
"""Files of passages and queries: id and text, tab-separated."""
QRELS = ("qrels.train.tsv", "qrels.dev.tsv")
"""Files of qrels in TREC's format: topic, 0, passage, grade."""


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read the files in the folder `settings.path`.

    Each file may be plain or gzipped, with `.gz` appended to its name. The collection has 8.8 million passages. If the
    pool is "judged", only the judged passages are kept.

    Raises:
        UserError: If a file is missing or not in this format, or if an id is unknown or has two texts.
    """
    passages, *queries, train, dev = _find_files(settings)
    judged = {"train": list(readers.read_rows(train, ("query", "0", "passage", "grade"), None))}
    rows = list(readers.read_rows(dev, ("query", "0", "passage", "grade"), None))
    judged["dev"], judged["test"] = split_in_half(rows, lambda row: row[1][0])
    judged_ids = {row[1][2] for rows in judged.values() for row in rows}
    builder = DatasetBuilder(judged_ids if (settings.pool or TASK.pool) == "judged" else None)
    for path in queries:
        for location, (name, text) in readers.read_rows(path, ("id", "text")):
            builder.add_query(location, name, text)
    for location, (name, text) in readers.read_rows(passages, ("id", "text")):
        builder.add_document(location, name, text)
    for split, rows in judged.items():
        for location, (query, _, document, grade) in rows:
            builder.add_qrel(location, split, query, document, parse_grade(location, grade))
    return builder.build(settings)


def get_source_version(settings: RankerTaskSettings) -> str:
    """Return a digest of the paths, sizes and modification times of the files."""
    return readers.hash_file_stats(_find_files(settings))


def _find_files(settings: RankerTaskSettings) -> list[Path]:
    return readers.find_files(settings, *TEXTS, *QRELS)


TASK = Task(read_dataset, get_source_version)
