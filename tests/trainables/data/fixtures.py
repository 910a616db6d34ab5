"""A tiny collection of every task in its exact format: `WRITERS[name](folder)` writes it and returns its settings.

Every one has 12 train queries or more, 3 or more of dev and of test, and documents enough for 4 candidates a query.
"""

import json
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.trainables.data.library import SUBJECTS, VERBS, write_library
from trainables.data.tasks import IRDataset, get_task
from trainables.specs.ranking_task import RankerTaskSettings

SPLITS = {"train": range(0, 16), "dev": range(16, 20), "test": range(20, 24)}
"""Split -> numbers of its queries, where the files say what is in which split."""
MANY = range(80)
"""Numbers of the queries, where the hash of the id decides."""
FILES = {
    "beir": ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "qrels/dev.tsv", "qrels/test.tsv"),
    "dialogues": ("train.tsv", "dev.tsv", "test.tsv"),
    "hard-negatives": ("hard-negatives.jsonl", "queries.tsv", "passages.tsv"),
    "msmarco": ("collection.tsv", "queries.train.tsv", "queries.dev.tsv", "qrels.train.tsv", "qrels.dev.tsv"),
    "qqp": ("quora_duplicate_questions.tsv",),
}
"""Task that reads files -> those that its writer writes."""
_datasets = count()


def query(i: int) -> str:
    """Text of query `i`."""
    return f"How do I {VERBS[i % len(VERBS)].lower()} a {SUBJECTS[i % len(SUBJECTS)]} of size {i}?"


def document(i: int) -> str:
    """Text of document `i`, which answers query `i`."""
    return f"To {VERBS[i % len(VERBS)].lower()} the {SUBJECTS[i % len(SUBJECTS)]} takes {i} steps, see guide {i}."


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Writes `lines` with their ends to `path`, and makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def write_objects(path: Path, values: Iterable[dict[str, Any]]) -> Path:
    """Writes a JSON lines file."""
    return write_lines(path, (json.dumps(value, ensure_ascii=False) for value in values))


def settings(name: str, path: Path | None = None, **changes: object) -> RankerTaskSettings:
    """Settings of a tiny task."""
    values = {"name": name, "path": None if path is None else str(path), "candidates": 4}
    return RankerTaskSettings.model_validate({**values, **changes})


def read(settings: RankerTaskSettings) -> IRDataset:
    """The collection that the task reads from its files."""
    return get_task(settings.name).read_dataset(settings)


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Changes a file's content."""
    path.write_bytes(change(path.read_bytes()))


def write_beir(folder: Path) -> RankerTaskSettings:
    """BEIR: a corpus with a title in every other document, graded judgements."""
    numbers = range(24)
    corpus = [{"_id": f"d{i}", "title": f"Guide {i}" if i % 2 else "", "text": document(i)} for i in numbers]
    write_objects(folder / "corpus.jsonl", corpus)
    write_objects(folder / "queries.jsonl", [{"_id": f"q{i}", "text": query(i), "metadata": {}} for i in numbers])
    for split, part in SPLITS.items():
        rows = [f"q{i}\td{i}\t1" for i in part] + [f"q{part[0]}\td{part[1]}\t0"]
        write_lines(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore", *rows])
    return settings("beir", folder)


def write_dialogues(folder: Path) -> RankerTaskSettings:
    """MANtIS: a line of label 1 and two of label 0 a context."""
    for split, part in SPLITS.items():
        lines = []
        for i in part:
            context = "\t".join([query(i), f"What do you use, {i}?", f"The newest release of {i}."][: 1 + i % 3])
            for label, response in ((1, i), (0, part[(i + 1) % len(part)]), (0, part[(i + 2) % len(part)])):
                lines.append(f"{label}\t{context}\t{document(response)}")
        write_lines(folder / f"{split}.tsv", lines)
    return settings("dialogues", folder)


def write_docstrings(folder: Path) -> RankerTaskSettings:
    """A library; `folder` must be on `sys.path`."""
    write_library(folder, functions=80)
    return settings("docstrings", libraries=("tinylib",))


def write_hard_negatives(folder: Path) -> RankerTaskSettings:
    """MS MARCO hard negatives: objects with scores for even queries, bare ids for odd ones."""
    values = []
    for i in MANY:
        negatives = [(i + 1) % len(MANY), (i + 2) % len(MANY), len(MANY) + i % 10]  # the last is nobody's positive
        if i % 2:
            values.append({"qid": i, "pos": [i], "neg": {"bm25": negatives, "dense": negatives}})
        else:
            scored = [{"pid": str(pid), "bm25-score": 9.5 - rank} for rank, pid in enumerate(negatives)]
            values.append({"qid": str(i), "pos": [{"pid": str(i)}], "neg": {"bm25": scored}})
    write_objects(folder / "hard-negatives.jsonl", values)
    write_lines(folder / "queries.tsv", (f"{i}\t{query(i)}" for i in MANY))
    write_lines(folder / "passages.tsv", (f"{i}\t{document(i)}" for i in range(len(MANY) + 10)))
    return settings("hard-negatives", folder)


def write_irds(folder: Path, parts: tuple[str, ...] = ("train", "dev")) -> RankerTaskSettings:
    """Datasets of local files in the registry of ir_datasets, one a part; no part: one that has no splits.

    Skips the test where the package is missing.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IR_DATASETS_HOME", str(folder / "home"))  # which the import makes
        ir_datasets = pytest.importorskip("ir_datasets")
    from ir_datasets.datasets.base import Dataset
    from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    name = f"tiny-{next(_datasets)}"  # the registry takes a name once
    docs = TsvDocs(LocalDownload(write_lines(folder / "docs.tsv", (f"d{i}\t{document(i)}" for i in MANY))))
    numbers = {"": MANY, "train": range(0, 16), "dev": range(16, 24), "test": range(24, 28)}
    for part in parts or ("",):
        queries = write_lines(folder / f"queries{part}.tsv", (f"q{i}\t{query(i)}" for i in numbers[part]))
        qrels = write_lines(folder / f"qrels{part}.txt", (f"q{i} 0 d{i} 1" for i in numbers[part]))
        dataset = Dataset(docs, TsvQueries(LocalDownload(queries)), TrecQrels(LocalDownload(qrels), {}))
        ir_datasets.registry.register(f"{name}/{part}" if part else name, dataset)
    return settings(f"irds:{name}/train" if parts else f"irds:{name}")


def write_msmarco(folder: Path) -> RankerTaskSettings:
    """MS MARCO: dev's judgements become dev and test; passages that nobody judged."""
    write_lines(folder / "collection.tsv", (f"{i}\t{document(i)}" for i in range(40)))
    for name, part in (("train", range(16)), ("dev", range(16, 24))):
        write_lines(folder / f"queries.{name}.tsv", (f"{i}\t{query(i)}" for i in part))
        write_lines(folder / f"qrels.{name}.tsv", (f"{i}\t0\t{i}\t1" for i in reversed(part)))
    return settings("msmarco", folder)


def write_qqp(folder: Path) -> RankerTaskSettings:
    """Quora: 40 duplicates, with quotes and a line end within a question, and a pair that is none."""
    rows = ["id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", '0\t998\t999\tWhy ""?\t"Why\tnot?"\t0']
    for i in range(40):
        found = f'"{document(i)}\nSay ""please""."' if i % 10 == 0 else document(i)
        rows.append(f"{1 + i}\t{2 * i + 1}\t{2 * i + 2}\t{query(i)}\t{found}\t1")
    write_lines(folder / "quora_duplicate_questions.tsv", rows)
    return settings("qqp", folder)


def write_glue(folder: Path) -> RankerTaskSettings:
    """QQP of GLUE: no quoting, a test.tsv without labels, and the malformed lines that the published files have."""
    columns = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    for split, part in (("train", range(30)), ("dev", range(30, 36))):
        rows = [f'{i}\t{2 * i + 1}\t{2 * i + 2}\t{query(i)}\t"{document(i)}\t1' for i in part]
        pair = f"{part.stop + 100}\t998\t999\tWhy?\tWhy not?\t0"
        write_lines(folder / f"{split}.tsv", ["\t".join(columns), *rows, pair, "300\t997\t996\tHow", "can I\tWhat?\t1"])
    write_lines(folder / "test.tsv", ["id\tquestion1\tquestion2", "0\tWhat?\tWhich?"])
    return settings("qqp", folder)


def write_bimpm(folder: Path) -> RankerTaskSettings:
    """QQP in the split of BiMPM: label, two tokenised questions, id of the pair; no header, no ids of questions."""
    for split, part in SPLITS.items():
        rows = [f"1\t{query(i)}\t{document(i)}\t{i}" for i in part]
        write_lines(folder / f"{split}.tsv", [*rows, f"0\t{query(part[0])}\tWhy ?\t{900 + part[0]}"])
    return settings("qqp", folder)


TOPICS = range(40, 48)
"""Numbers of the queries and of their documents of a year of TREC Deep Learning."""


def write_trec_dl(folder: Path, year: int) -> RankerTaskSettings:
    """MS MARCO next to a year of TREC Deep Learning: grades 0 to 3, and the official top passages, not best first."""
    given = write_msmarco(folder)
    write_lines(folder / "collection.tsv", (f"{i}\t{document(i)}" for i in range(60)))
    write_lines(folder / f"msmarco-test{year}-queries.tsv", (f"{i}\t{query(i)}" for i in (*TOPICS, 99)))
    marker = "Q0" if year == 2019 else "0"
    qrels = [f"{i} {marker} {i} {2 + i % 2}" for i in TOPICS]
    qrels += [f"{i} {marker} {50 + i - TOPICS[0]} 1" for i in TOPICS] + [f"{TOPICS[0]} {marker} 58 0"]
    write_lines(folder / f"{year}qrels-pass.txt", qrels)
    own = f"msmarco-passagetest{year}-top1000.tsv"
    for name, part in (("top1000.dev", range(16, 24)), (own, (*TOPICS, 99))):
        rows = [f"{i}\t{59 - (i + k) % 9}\t{query(i)}\tOther spelling." for k in range(4) for i in part]
        write_lines(folder / name, rows)
    return given.model_copy(update={"name": f"trec-dl-{year}"})


WRITERS: dict[str, Callable[[Path], RankerTaskSettings]] = {
    "beir": write_beir,
    "dialogues": write_dialogues,
    "docstrings": write_docstrings,
    "hard-negatives": write_hard_negatives,
    "irds:ID": write_irds,
    "msmarco": write_msmarco,
    "qqp": write_qqp,
    "trec-dl-2019": lambda folder: write_trec_dl(folder, 2019),
    "trec-dl-2020": lambda folder: write_trec_dl(folder, 2020),
}


def judged_pairs(collection: IRDataset, split: str) -> list[tuple[str, str]]:
    """Ids of query and document of the qrels of a split."""
    return [(pair.query_id, pair.document_id) for pair in collection.qrels if pair.split == split]
