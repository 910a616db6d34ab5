"""Tasks msmarco and trec-dl-2019, trec-dl-2020: passages that answer queries to Bing (MS MARCO, TREC Deep Learning).

As in Penha and Hauff (2021), section 4, the qrels of the development set of msmarco are halved into dev and test. The
test split of the others is a year of TREC Deep Learning (Craswell et al. 2020), and the whole development set is dev.
Files have the names under which they are published.
"""

from math import nan
from pathlib import Path
from typing import NamedTuple

from trainables.data.files import readers
from trainables.data.files.candidates_run import select_needed_ids
from trainables.data.tasks import SPLITS, IRDataset, Task
from trainables.data.tasks.dataset_builder import DatasetBuilder
from trainables.data.tasks.splits import split_in_half
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.trec_files import read_trec_qrels
from trainables.utils.errors import UserError

DEV_QRELS = "qrels.dev.tsv"
_TOP1000 = ("qid", "pid", "query", "passage")


class _TestFiles(NamedTuple):
    """Names of the files of a test set: as published, and as in Anserini."""

    queries: tuple[str, ...]
    qrels: tuple[str, ...]
    candidates: str


TEST_FILES = {
    "trec-dl-2019": _TestFiles(
        ("msmarco-test2019-queries.tsv", "topics.dl19-passage.txt"),
        ("2019qrels-pass.txt", "qrels.dl19-passage.txt"),
        "msmarco-passagetest2019-top1000.tsv",
    ),
    "trec-dl-2020": _TestFiles(
        ("msmarco-test2020-queries.tsv", "topics.dl20.txt"),
        ("2020qrels-pass.txt", "qrels.dl20-passage.txt"),
        "msmarco-passagetest2020-top1000.tsv",
    ),
}


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read the files in the folder `settings.path`.

    Each file may be plain or gzipped, with `.gz` appended to its name. The collection has 8.8 million passages. If the
    pool is "judged", only the judged passages are kept. If the negative sampler of the evaluation is "given", the
    official top 1000 passages of each query are its candidates, in the order of the file, and are also kept.

    Raises:
        UserError: If a file is missing or not in this format, if an id is unknown or has two texts, or if
            `settings.dev_share` does not fit the files.
    """
    files = _find_files(settings)
    judged = {split: read_trec_qrels(files[f"{split} qrels"]) for split in SPLITS if f"{split} qrels" in files}
    if settings.name not in TEST_FILES:
        judged["dev"], judged["test"] = split_in_half(judged["dev"], lambda row: row.query)
    needed = select_needed_ids(settings, TASK.pool, {row.document for rows in judged.values() for row in rows})
    builder = DatasetBuilder(needed, settings.dev_share)
    _add_candidates(builder, files, {row.query: split for split, rows in judged.items() for row in rows})
    for role in ("train queries", "dev queries", "test queries"):
        for location, (name, text) in readers.read_rows(files[role], ("id", "text")) if role in files else ():
            builder.add_query(location, name, text)
    for location, (name, text) in readers.read_rows(files["passages"], ("id", "text")):
        builder.add_document(location, name, text)
    for split, rows in judged.items():
        for query, document, grade, location in rows:
            builder.add_qrel(location, split, query, document, grade)
    return builder.build(settings)


def _add_candidates(builder: DatasetBuilder, files: dict[str, Path], splits: dict[str, str]) -> None:
    """Add the candidates of judged queries. The ids of these are those of `splits`.

    The texts of these files are not read: they are those of the collection.
    """
    for role in ("dev candidates", "test candidates"):
        for location, (query, passage, _, _) in readers.read_rows(files[role], _TOP1000) if role in files else ():
            if query in splits:
                builder.keep_document(passage)
                builder.add_candidate(location, splits[query], query, passage, nan)
            else:
                builder.skipped["candidate of a query that nothing is judged for"] += 1


def _find_files(settings: RankerTaskSettings) -> dict[str, Path]:
    """Return the files by their role, without those of the development set if `settings.dev_share` replaces it."""
    test = TEST_FILES.get(settings.name)
    has_dev, has_candidates = settings.dev_share is None, settings.evaluation_sampler.name == "given"
    if test is None and not has_dev:
        expected = "none, since dev and test are the halves of the development set; or the task trec-dl-2019"
        raise UserError("task.dev_share", settings.dev_share, expected)
    names: dict[str, str | tuple[str, ...]] = {"passages": "collection.tsv", "train queries": "queries.train.tsv"}
    names["dev qrels"] = DEV_QRELS, "qrels.dev.small.tsv"
    if has_dev:
        names["dev queries"] = "queries.dev.tsv", "queries.dev.small.tsv"
    names["train qrels"] = "qrels.train.tsv"
    if test is not None:
        names |= {"test queries": test.queries, "test qrels": test.qrels}
    if has_candidates and has_dev:
        names["dev candidates"] = "top1000.dev", "top1000.dev.tsv"
    if has_candidates and test is not None:
        names["test candidates"] = test.candidates
    paths = readers.find_files(settings, *names.values(), dev=None if test is None else DEV_QRELS)
    if not has_dev:
        del names["dev qrels"]
    return dict(zip(names, paths, strict=True))


TASK = Task(read_dataset, readers.make_source_version(_find_files), reads_dev_share=True)
