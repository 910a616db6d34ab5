"""Task beir: a folder in the layout of the BEIR benchmark (Thakur et al. 2021)."""

from pathlib import Path

from trainables.data.files import readers
from trainables.data.files.candidates_run import select_needed_ids
from trainables.data.tasks import IRDataset, Task
from trainables.data.tasks.dataset_builder import DatasetBuilder, parse_grade
from trainables.specs.ranking_task import CollectionSettings, RankerTaskSettings

DEV_FILE = "qrels/dev.tsv"
TEXT_FILES = ("corpus.jsonl", "queries.jsonl")


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read the corpus, the queries and the qrels of all three splits, or of the one that is evaluated.

    Many published collections have no development set. `settings.dev_share` then says which part of the training
    queries it is.

    Each file may be plain or gzipped, with `.gz` appended to its name. A document's text is its title followed by its
    text. Published corpora contain documents with neither (FiQA: 38). These documents and their qrels are skipped.

    Raises:
        UserError: If a file is missing or not in this format, if an id is unknown or has two texts, or if there is
            both a development set and `settings.dev_share`.
    """
    corpus, queries, *qrels = _find_files(settings)
    columns = ("query-id", "corpus-id", "score")
    splits = [split for split in settings.splits if split != "dev" or settings.dev_share is None]
    judged = {
        split: list(readers.read_csv_rows(path, columns, "\t")) for split, path in zip(splits, qrels, strict=True)
    }
    judged_ids = {row[1][1] for rows in judged.values() for row in rows}
    builder = DatasetBuilder(select_needed_ids(settings, TASK.pool, judged_ids), settings.dev_share)
    for location, value in readers.read_json_lines(queries):
        builder.add_query(
            location, readers.get_member(location, value, "_id", str), readers.get_member(location, value, "text", str)
        )
    empty = set()
    for location, value in readers.read_json_lines(corpus):
        name = readers.get_member(location, value, "_id", str)
        if text := readers.get_titled_text(location, value):
            builder.add_document(location, name, text)
        else:
            empty.add(name)
    for split, rows in judged.items():
        for location, (query, document, score) in rows:
            if document in empty:
                builder.skipped["judgement of an empty document"] += 1
            else:
                builder.add_qrel(location, split, query, document, parse_grade(location, score))
    if empty:
        builder.skipped["empty document"] = len(empty)
    return builder.build(settings)


def _find_files(settings: RankerTaskSettings) -> list[Path]:
    if isinstance(settings, CollectionSettings):
        return readers.find_files(settings, *TEXT_FILES, f"qrels/{settings.split}.tsv")
    return readers.find_files(settings, *TEXT_FILES, "qrels/train.tsv", DEV_FILE, "qrels/test.tsv", dev=DEV_FILE)


TASK = Task(read_dataset, readers.make_source_version(_find_files), "all", reads_dev_share=True)
