"""Task irds:ID: a dataset of the package ir_datasets (MacAvaney et al. 2021).

The package downloads the dataset if necessary.
"""

from importlib.metadata import version
from typing import Any, NamedTuple

from trainables.data.files.candidates_run import select_needed_ids
from trainables.data.files.ir_datasets_reader import load_dataset, parse_text, read_records, require_ir_datasets
from trainables.data.tasks import SPLITS, IRDataset, Task
from trainables.data.tasks.dataset_builder import DatasetBuilder
from trainables.data.tasks.splits import split_by_hash, split_in_half
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

_KEY = "task.name"


class _Qrel(NamedTuple):
    query: str
    document: str
    grade: int


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read the dataset that the task's name contains.

    If the id ends with "/train" and the corresponding "/dev" has qrels, these two are the train and dev splits. The
    test split is the corresponding "/test" if it has qrels, and otherwise half of dev. With `settings.dev_share`, a
    "/train" and a "/test" without "/dev" are the splits, and the dev split is that part of the training queries. The
    queries of any other dataset are split 80/10/10 % by the SHA-256 of their id. Published datasets contain empty texts
    and qrels of missing texts, which a user cannot correct. These are skipped.

    Raises:
        UserError: If the package is not installed, if it does not know the dataset or cannot read it, if the dataset
            has no documents, queries or qrels, or if it does not fit `settings.dev_share`.
    """
    name = settings.name.partition(":")[2]
    datasets = _load_datasets(name, settings)
    judged = _read_qrels(name, datasets)
    judged_ids = {row.document for rows in judged.values() for row in rows}
    builder = DatasetBuilder(select_needed_ids(settings, TASK.pool, judged_ids), settings.dev_share)
    for kind, add in (("queries", builder.add_query), ("docs", builder.add_document)):
        handlers = [getattr(dataset, f"{kind}_handler")() for dataset in datasets.values() if dataset.has(kind)]
        for handler in {id(handler): handler for handler in handlers}.values():  # the splits share their documents
            for identity, text in read_records(name, handler, kind, _KEY, parse_text):
                if text:
                    add(settings.name, identity, text)
                else:
                    builder.skipped[f"empty text ({kind})"] += 1
    for split in SPLITS:
        for row in judged[split]:
            if row.query in builder.queries and row.document in builder.documents:
                builder.add_qrel(settings.name, split, *row)
            else:
                builder.skipped["judgement of what is empty or missing"] += 1
    return builder.build(settings)


def get_source_version(settings: RankerTaskSettings) -> str:
    """Return the dataset's id and the version of the package.

    A version of the package contains the digests of the files that it downloads.

    Raises:
        UserError: If the package is not installed.
    """
    require_ir_datasets(_KEY)
    return f"{settings.name} {version('ir_datasets')}"  # importing it takes a second and creates folders


def _load_datasets(name: str, settings: RankerTaskSettings) -> dict[str, Any]:
    """Return the datasets by split, without dev if `settings.dev_share` replaces it, or one dataset under "all"."""
    dataset = load_dataset(name, _KEY)
    if missing := [kind for kind in ("docs", "queries", "qrels") if not dataset.has(kind)]:
        raise UserError(_KEY, f"{name} has no {' and no '.join(missing)}", "a dataset with docs, queries and qrels")
    parts = {"train": dataset}
    if name.endswith("/train"):
        for split in ("dev", "test"):
            part = load_dataset(f"{name.removesuffix('train')}{split}", _KEY, required=False)
            if part is not None and part.has("queries") and part.has("qrels"):
                parts[split] = part
    if settings.dev_share is not None:
        if "dev" in parts or "test" not in parts:
            found = f"{name.removesuffix('train')}dev" if "dev" in parts else f"{name} without a test dataset"
            expected = f"none, since task.name has {found}; or the ID of a train dataset with test and without dev"
            raise UserError("task.dev_share", settings.dev_share, expected)
        return parts
    return parts if "dev" in parts else {"all": dataset}


def _read_qrels(name: str, datasets: dict[str, Any]) -> dict[str, list[_Qrel]]:
    """Return the qrels by split. If a pair has several grades, as with subtopics, the highest is kept."""
    judged: dict[str, list[_Qrel]] = {split: [] for split in SPLITS}
    for split, dataset in datasets.items():
        grades: dict[tuple[str, str], int] = {}
        for row in read_records(name, dataset, "qrels", _KEY, _parse_qrel):
            grades[row[:2]] = max(row.grade, grades.get(row[:2], row.grade))
        for pair, grade in grades.items():
            judged[split_by_hash(pair[0]) if split == "all" else split].append(_Qrel(*pair, grade))
    if "dev" in datasets and "test" not in datasets:
        judged["dev"], judged["test"] = split_in_half(judged["dev"], lambda row: row.query)
    return judged


def _parse_qrel(record: Any) -> _Qrel:
    return _Qrel(str(record.query_id), str(record.doc_id), int(record.relevance))


TASK = Task(read_dataset, get_source_version, "all", reads_dev_share=True)
