"""Task qqp: Quora question pairs, in which the duplicate of a question is to be found.

Penha and Hauff (2021), section 4: the duplicates alone, question1 the query, question2 its relevant document.
"""

from pathlib import Path

from trainables.data.tasks import Collection, Task
from trainables.data.tasks import readers as reading
from trainables.data.tasks.collection import Collector, add
from trainables.data.tasks.splits import in_order
from trainables.specs.ranker import TaskSettings
from trainables.utils.errors import UserError

COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
NAMES = ("quora_duplicate_questions.tsv", "train.csv")
"""The file as Quora published it (tabs) and as Kaggle did (commas)."""


def read(settings: TaskSettings) -> Collection:
    """Reads the duplicates, split 80/10/10 % in file order.

    `settings.path` is the file, or the folder that holds it; ".csv" in its name says that commas separate.

    Raises:
        UserError: the file is missing or not in this format; a question's id has two texts.
    """
    path = _file(settings)
    collector = Collector()
    questions: dict[str, str] = {}
    duplicates = []
    for place, (row, query, document, asked, found, label) in reading.table(
        path, COLUMNS, "," if ".csv" in path.name else "\t"
    ):
        for name in (row, query, document):
            if not (name.isascii() and name.isdecimal()):
                raise UserError(str(place), f"text where an id belongs, {reading.quoted(name)}", "a whole number")
        if label not in ("0", "1"):
            raise UserError(str(place), f"is_duplicate is {reading.quoted(label)}", "0 or 1")
        if not asked.strip() or not found.strip():
            collector.skipped["pair with an empty question"] += 1
            continue
        add(questions, "question", place, query, asked)
        add(questions, "question", place, document, found)
        if label == "1":
            duplicates.append((place, query, document))
        else:
            collector.skipped["pair that is no duplicate"] += 1
    for split, (place, query, document) in zip(in_order(len(duplicates)), duplicates, strict=True):
        collector.query(place, query, questions[query])
        collector.document(place, document, questions[document])
        collector.judgement(place, split, query, document)
    return collector.finish(settings)


def state(settings: TaskSettings) -> str:
    """Changes with the file."""
    return reading.state([_file(settings)])


def _file(settings: TaskSettings) -> Path:
    path = reading.location(settings, f"{' or '.join(NAMES)}, or the folder with it")
    return path if path.is_file() else reading.files(settings, NAMES)[0]


TASK = Task(read, state, allowed_overlap=1)
"""A question with several duplicates is in several pairs, so that a split of the pairs leaves it in several splits."""
