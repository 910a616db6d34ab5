"""Task beir: a folder in the layout of the BEIR benchmark (Thakur et al. 2021)."""

from pathlib import Path

from trainables.data.tasks import SPLITS, IRDataset, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.dataset_builder import DatasetBuilder, parse_grade
from trainables.specs.ranker import RankerTaskSettings

FILES = ("corpus.jsonl", "queries.jsonl", *(f"qrels/{split}.tsv" for split in SPLITS))


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Reads corpus, queries and the judgements of all three splits, each file as it is or with `.gz` behind.

    A document's text is its title and its text. Published corpora have documents with neither (FiQA: 38): they and
    their judgements are skipped.

    Raises:
        UserError: a file is missing or not in this format; an id is unknown, or has two texts.
    """
    corpus, queries, *qrels = _find_files(settings)
    columns = ("query-id", "corpus-id", "score")
    judged = {
        split: list(reading.read_csv_rows(path, columns, "\t")) for split, path in zip(SPLITS, qrels, strict=True)
    }
    judged_ids = {row[1][1] for rows in judged.values() for row in rows}
    builder = DatasetBuilder(judged_ids if (settings.pool or TASK.pool) == "judged" else None)
    for location, value in reading.read_json_lines(queries):
        builder.add_query(
            location, reading.get_member(location, value, "_id", str), reading.get_member(location, value, "text", str)
        )
    empty = set()
    for location, value in reading.read_json_lines(corpus):
        name = reading.get_member(location, value, "_id", str)
        title = reading.get_member(location, value, "title", str) if value.get("title") else ""
        if text := f"{title} {reading.get_member(location, value, 'text', str)}".strip():
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


def get_source_version(settings: RankerTaskSettings) -> str:
    """Changes with a file."""
    return reading.hash_file_stats(_find_files(settings))


def _find_files(settings: RankerTaskSettings) -> list[Path]:
    return reading.find_files(settings, *FILES)


TASK = Task(read_dataset, get_source_version, "all")
