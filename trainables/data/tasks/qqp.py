"""Task qqp: find the duplicate of a question among Quora question pairs.

As in Penha and Hauff (2021), section 4, only duplicates are used: question1 is the query and question2 its relevant
document. One file with all pairs is split in its order. A folder with train.tsv has given splits, either those of GLUE
(Wang et al. 2019) or those of BiMPM (Wang, Hamza and Florian 2017).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trainables.data.files import readers
from trainables.data.tasks import IRDataset, Task
from trainables.data.tasks.dataset_builder import DatasetBuilder, add_text, hash_text
from trainables.data.tasks.splits import split_in_order
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.text_files import FileLocation, quote_text, read_lines
from trainables.utils.errors import UserError

COLUMNS = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
FILE_NAMES = ("quora_duplicate_questions.tsv", "train.csv")
"""Names of the file as published by Quora (tab-separated) and by Kaggle (comma-separated)."""
UNLABELLED = ("id", "question1", "question2")
"""Header of GLUE's test.tsv, which has no labels and is not read."""
BIMPM_FIELDS = ("label", "question1", "question2", "id")
MALFORMED = "line with another number of fields"
_MIXED = "all"
"""Key of the file that is split in its order, in place of a split."""


class _QqpPair(NamedTuple):
    location: FileLocation
    query: str
    document: str
    query_text: str
    document_text: str
    is_duplicate: bool


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read the duplicates, split as the files say, or 80/10/10 % in the order of the only file.

    `settings.path` is the only file, or a folder with it or with train.tsv, dev.tsv and test.tsv. If the name of the
    only file contains ".csv", its fields are comma-separated. The test.tsv of GLUE has no labels. Then dev.tsv is the
    test split, and `settings.dev_share` says which part of the queries of train.tsv is the dev split. The files of GLUE
    have a few lines with another number of fields, which are skipped.

    Raises:
        UserError: If a file is missing or not in this format, if a question's id has two texts, or if
            `settings.dev_share` does not fit the files.
    """
    files = _find_files(settings)
    builder = DatasetBuilder(dev_share=settings.dev_share)
    questions: dict[str, str] = {}
    is_glue = _MIXED not in files and _is_glue(files["train"])
    for split, path in files.items():
        if split == _MIXED:
            pairs = _read_quora_pairs(path)
        else:
            pairs = _read_glue_pairs(path, builder) if is_glue else _read_bimpm_pairs(path)
        duplicates = list(_select_duplicates(pairs, builder, questions))
        splits = split_in_order(len(duplicates)) if split == _MIXED else [split] * len(duplicates)
        for own_split, pair in zip(splits, duplicates, strict=True):
            builder.add_query(pair.location, pair.query, questions[pair.query])
            builder.add_document(pair.location, pair.document, questions[pair.document])
            builder.add_qrel(pair.location, own_split, pair.query, pair.document)
    return builder.build(settings)


def _select_duplicates(
    pairs: Iterator[_QqpPair], builder: DatasetBuilder, questions: dict[str, str]
) -> Iterator[_QqpPair]:
    """Yield the duplicates, collect the texts of all questions and count what is skipped."""
    for pair in pairs:
        if not pair.query_text.strip() or not pair.document_text.strip():
            builder.skipped["pair with an empty question"] += 1
            continue
        add_text(questions, "question", pair.location, pair.query, pair.query_text)
        add_text(questions, "question", pair.location, pair.document, pair.document_text)
        if pair.is_duplicate:
            yield pair
        else:
            builder.skipped["pair that is no duplicate"] += 1


def _read_quora_pairs(path: Path) -> Iterator[_QqpPair]:
    for location, fields in readers.read_csv_rows(path, COLUMNS, "," if ".csv" in path.name else "\t"):
        yield _parse_pair(location, fields)


def _read_glue_pairs(path: Path, builder: DatasetBuilder) -> Iterator[_QqpPair]:
    """Yield the pairs of a file without quoting, as GLUE's own code and transformers read it."""
    for location, line in read_lines(path):
        fields = line.split("\t")
        if location.line == 1:
            if tuple(fields) != COLUMNS:
                expected = f"the header {', '.join(COLUMNS)}, separated by tabs, as in train.tsv"
                raise UserError(str(location), quote_text(line), expected)
        elif len(fields) != len(COLUMNS):
            builder.skipped[MALFORMED] += 1
        else:
            yield _parse_pair(location, fields)


def _read_bimpm_pairs(path: Path) -> Iterator[_QqpPair]:
    """Yield the pairs of a file without ids of questions: equal texts are the same question."""
    for location, (label, query, document, _) in readers.read_rows(path, BIMPM_FIELDS):
        is_duplicate = _parse_label(location, "label", label)
        yield _QqpPair(location, hash_text(query), hash_text(document), query, document, is_duplicate)


def _parse_pair(location: FileLocation, fields: list[str]) -> _QqpPair:
    for name in fields[:3]:
        if not (name.isascii() and name.isdecimal()):
            raise UserError(str(location), f"invalid id {quote_text(name)}", "a whole number")
    _, query, document, query_text, document_text, label = fields
    return _QqpPair(location, query, document, query_text, document_text, _parse_label(location, COLUMNS[-1], label))


def _parse_label(location: FileLocation, name: str, label: str) -> bool:
    if label not in ("0", "1"):
        raise UserError(str(location), f"{name} is {quote_text(label)}", "0 or 1")
    return label == "1"


def _is_glue(path: Path) -> bool:
    """Return whether a file begins with the header of GLUE; otherwise it has no header, as in BiMPM."""
    header = _read_header(path)
    if header[0] not in (COLUMNS[0], "0", "1"):
        expected = f"GLUE's header {', '.join(COLUMNS)}, or BiMPM's {', '.join(BIMPM_FIELDS)}, separated by tabs"
        raise UserError(str(FileLocation(path, 1)), quote_text("\t".join(header)), expected)
    return header[0] == COLUMNS[0]


def _read_header(path: Path) -> tuple[str, ...]:
    _, line = next(read_lines(path), (None, ""))
    return tuple(line.split("\t"))


def _find_files(settings: RankerTaskSettings) -> dict[str, Path]:
    """Return the files by split, without those that are not labelled, or the only file under `_MIXED`."""
    names = (*FILE_NAMES, "train.tsv")
    expected = f"{' or '.join(FILE_NAMES)}, or the folder with it or with train.tsv"
    path = readers.require_path(settings.path, "task.path", expected)
    first = path if path.is_file() else readers.find_files(settings, names)[0]
    if path.is_file() or not first.name.startswith("train.tsv"):
        if settings.dev_share is not None:
            raise UserError("task.dev_share", settings.dev_share, f"none, since {first} is split 80/10/10 %")
        return {_MIXED: first}
    found = {split: readers.find_optional_file(path, f"{split}.tsv") for split in ("dev", "test")}
    labelled = [file for file in found.values() if file and _read_header(file) != UNLABELLED]
    if not labelled:
        raise UserError("task.path", f"{path} has train.tsv alone", "also dev.tsv or test.tsv with labels")
    dev = labelled[0] if len(labelled) == 2 else None
    readers.check_dev_share(settings, dev, f"{path} has no development set: the test split is {labelled[0].name}")
    return {"train": first} | ({} if dev is None else {"dev": dev}) | {"test": labelled[-1]}


TASK = Task(read_dataset, readers.make_source_version(_find_files), allowed_overlap=1, reads_dev_share=True)
"""The task qqp, which allows any overlap of splits: a question with several duplicates is in several pairs, and the
pairs may be in different splits."""
