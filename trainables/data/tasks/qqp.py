"""Task qqp: Quora question pairs, in which the duplicate of a question is to be found.

Penha and Hauff (2021), section 4: the duplicates alone, question1 the query, question2 its relevant document.
"""

from pathlib import Path

from trainables.data.tasks import IRDataset, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.dataset_builder import DatasetBuilder, add_text
from trainables.data.tasks.splits import split_in_order
from trainables.specs.ranker import RankerTaskSettings
from trainables.utils.errors import UserError

COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
FILE_NAMES = ("quora_duplicate_questions.tsv", "train.csv")
"""The file as Quora published it (tabs) and as Kaggle did (commas)."""


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Reads the duplicates, split 80/10/10 % in file order.

    `settings.path` is the file, or the folder that holds it; ".csv" in its name says that commas separate.

    Raises:
        UserError: the file is missing or not in this format; a question's id has two texts.
    """
    path = _find_file(settings)
    builder = DatasetBuilder()
    questions: dict[str, str] = {}
    duplicates = []
    for location, (row, query, document, query_text, document_text, label) in reading.read_csv_rows(
        path, COLUMNS, "," if ".csv" in path.name else "\t"
    ):
        for name in (row, query, document):
            if not (name.isascii() and name.isdecimal()):
                raise UserError(
                    str(location), f"text where an id belongs, {reading.quote_text(name)}", "a whole number"
                )
        if label not in ("0", "1"):
            raise UserError(str(location), f"is_duplicate is {reading.quote_text(label)}", "0 or 1")
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
    """Changes with the file."""
    return reading.hash_file_stats([_find_file(settings)])


def _find_file(settings: RankerTaskSettings) -> Path:
    path = reading.get_task_path(settings, f"{' or '.join(FILE_NAMES)}, or the folder with it")
    return path if path.is_file() else reading.find_files(settings, FILE_NAMES)[0]


TASK = Task(read_dataset, get_source_version, allowed_overlap=1)
"""A question with several duplicates is in several pairs, so that a split of the pairs leaves it in several splits."""
