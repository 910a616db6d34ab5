"""A task of your own: frequently asked questions in `faq.tsv`, with the columns question, answer and split.

A question is a query and its answer is the relevant document. To choose it in a study (`task.name = "faq"`), copy this
file to `trainables/data/tasks/faq.py` and put its entry into `TASKS` in `trainables/data/tasks/__init__.py`; see
`docs/extending.md`.

Run it: python examples/own_task.py
"""

import tempfile
from pathlib import Path

from trainables.data.tasks import SPLITS, IRDataset, Task
from trainables.data.tasks.dataset_builder import DatasetBuilder
from trainables.data.tasks.readers import find_files, hash_file_stats, read_csv_rows
from trainables.specs.ranker import RankerTaskSettings
from trainables.utils.errors import UserError
from trainables.utils.registry import Entry

FILE, COLUMNS = "faq.tsv", ("question", "answer", "split")


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read questions and answers from `faq.tsv` in the folder `task.path`. Line 2 has the query q2.

    Raises:
        UserError: If the file is missing or not in this format.
    """
    builder = DatasetBuilder()
    (file,) = find_files(settings, FILE)
    for location, (question, answer, split) in read_csv_rows(file, COLUMNS, "\t"):
        if split not in SPLITS:
            raise UserError(str(location), f"split {split!r}", f"one of {', '.join(SPLITS)}")
        builder.add_query(location, f"q{location.line}", question)
        builder.add_document(location, f"a{location.line}", answer)
        builder.add_qrel(location, split, f"q{location.line}", f"a{location.line}")
    return builder.build(settings)


def get_source_version(settings: RankerTaskSettings) -> str:
    """Return a digest of the path, size and modification time of the file."""
    return hash_file_stats(find_files(settings, FILE))


TASK = Task(read_dataset, get_source_version)

TARGET = "trainables.data.tasks.faq:TASK"
ENTRY = Entry("faq", TARGET, "questions and answers: faq.tsv with question, answer, split", "an example", ("path",))

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        rows = [f"How do I open box {n}?\tLift lid {n}, then pull.\t{SPLITS[n % 3]}" for n in range(12)]
        (Path(name) / FILE).write_text("\n".join(["\t".join(COLUMNS), *rows]), encoding="utf-8")
        dataset = TASK.read_dataset(RankerTaskSettings(name="faq", path=name))
    print(f"{len(dataset.queries)} queries, {len(dataset.documents)} documents")
    for split in SPLITS:
        first = next(qrel for qrel in dataset.qrels if qrel.split == split)
        print(f"{split}: {dataset.queries[first.query_id]} -> {dataset.documents[first.document_id]}")
