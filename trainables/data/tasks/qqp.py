"""Task qqp: find the duplicate of a question among Quora question pairs.

As in Penha and Hauff (2021), section 4, only duplicates are used: question1 is the query and question2 its relevant
document.
"""

from pathlib import Path

from trainables.data.tasks import IRDataset, Task, readers
from trainables.data.tasks.dataset_builder import DatasetBuilder, add_text
from trainables.data.tasks.splits import split_in_order
from trainables.specs.ranker import RankerTaskSettings
from trainables.utils.errors import UserError

COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
FILE_NAMES = ("quora_duplicate_questions.tsv", "train.csv")
"""Names of the file as published by Quora (tab-separated) and by Kaggle (comma-separated)."""


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read the duplicates, split 80/10/10 % in the order of the file.

    `settings.path` is the file or its folder. If the file's name contains ".csv", its fields are comma-separated.

    Raises:
        UserError: If the file is missing or not in this format, or if a question's id has two texts.
    """
    path = _find_file(settings)
    builder = DatasetBuilder()
    questions: dict[str, str] = {}
    duplicates = []
    for location, (row, query, document, query_text, document_text, label) in readers.read_csv_rows(
        path, COLUMNS, "," if ".csv" in path.name else "\t"
    ):
        for name in (row, query, document):
            if not (name.isascii() and name.isdecimal()):
                raise UserError(str(location), f"invalid id {readers.quote_text(name)}", "a whole number")
        if label not in ("0", "1"):
            raise UserError(str(location), f"is_duplicate is {readers.quote_text(label)}", "0 or 1")
        if not query_text.strip() or not document_text.strip():
            builder.skipped["pair with an empty question"] += 1
            continue
        add_text(questions, "question", location, query, query_text)
        add_text(questions, "question", location, document, document_text)
        if label == "1":
            duplicates.append((location, query, document))
        else:
            builder.skipped["pair that is no duplicate"] += 1
    for split, (location, query, document) in zip(split_in_order(len(duplicates)), duplicates, strict=True):
        builder.add_query(location, query, questions[query])
        builder.add_document(location, document, questions[document])
        builder.add_qrel(location, split, query, document)
    return builder.build(settings)


def get_source_version(settings: RankerTaskSettings) -> str:
    """Return a digest of the path, size and modification time of the file."""
    return readers.hash_file_stats([_find_file(settings)])


def _find_file(settings: RankerTaskSettings) -> Path:
    path = readers.get_task_path(settings, f"{' or '.join(FILE_NAMES)}, or the folder with it")
    return path if path.is_file() else readers.find_files(settings, FILE_NAMES)[0]


TASK = Task(read_dataset, get_source_version, allowed_overlap=1)
"""The task qqp, which allows any overlap of splits: a question with several duplicates is in several pairs, and the
pairs may be in different splits."""
