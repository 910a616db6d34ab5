"""A task of your own: frequently asked questions in `faq.tsv`, with the columns question, answer and split.

A question is a query and its answer is the relevant document: `task.name = "faq"`.
"""

from trainables.data.files.readers import find_files, hash_file_stats, read_csv_rows
from trainables.data.tasks import SPLITS, TASKS, IRDataset, Task
from trainables.data.tasks.dataset_builder import DatasetBuilder
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

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


TASKS.register("faq", "questions and answers: faq.tsv with question, answer, split", "an example", options=("path",))(
    Task(read_dataset, get_source_version)
)
