"""The contract of every task, over the tiny collections."""

import gzip
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainables.data.fixtures import (
    FILES,
    SPLITS,
    WRITERS,
    read,
    rewrite,
    settings,
    write_bimpm,
    write_glue,
    write_irds,
    write_trec_dl,
)
from trainables.data.negatives.pool import DocumentPool
from trainables.data.ranking_preparation import find_prepared_data, prepare_data
from trainables.data.tasks import TASKS, IRDataset, get_task
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

ALL_FILES = [(name, file) for name, files in FILES.items() for file in files]


@pytest.fixture(params=sorted(TASKS))
def written(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RankerTaskSettings:
    """Settings of every task in turn, written below `tmp_path`."""
    monkeypatch.syspath_prepend(tmp_path)
    return WRITERS[request.param](tmp_path)


def test_a_collection_fits_together_and_is_the_same_twice(written: RankerTaskSettings) -> None:
    collection = read(written)
    for texts in (collection.queries, collection.documents):
        assert all(name.split() == [name] for name in texts)
        assert all(text.strip() for text in texts.values())
    for pair in [*collection.qrels, *collection.candidates]:
        assert pair.split in SPLITS
        assert pair.query_id in collection.queries
        assert pair.document_id in collection.documents
    relevant = {pair[:3] for pair in collection.qrels if pair.grade >= written.relevant_from}
    assert Counter(pair[0] for pair in relevant) >= Counter({"train": 12, "dev": 3, "test": 3})
    assert not relevant & {pair[:3] for pair in collection.candidates}
    for rows in (collection.qrels, collection.candidates):
        assert len({row[:3] for row in rows}) == len(rows)
    assert {pair.query_id for pair in collection.qrels} == set(collection.queries)
    assert all(reason and number > 0 for reason, number in collection.skipped.items())
    assert repr(read(written)) == repr(collection)


def test_the_composed_and_the_decomposed_form_are_the_same_text(tmp_path: Path) -> None:
    """A context and a response have one id, and a document with the text of the query is no negative of it."""
    lines = [
        "1\tcafé?\tyes, café",
        "0\tcafe\u0301?\tno, cafe\u0301",
        "0\tcafé?\tno, café",
        "1\tother\tcafe\u0301? [UTTERANCE_SEP]",
    ]
    for split in SPLITS:
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines), encoding="utf-8")
    made = settings("dialogues", tmp_path)
    data = read(made)
    assert (len(data.queries), len(data.documents), len(data.candidates)) == (2 * 3, 3, 3)
    assert get_task("dialogues").count_candidates(made)["train"] == {1: 1, 0: 1}
    pool = DocumentPool(data, "all", "train", include_candidates=False)
    query = next(name for name, text in data.queries.items() if text.startswith("café") and name.startswith("train"))
    (item,) = pool.prepare_queries("train", [query], made)
    excluded = {data.documents[pool.ids[position]] for position in item.excluded.tolist()}
    assert excluded == {"yes, café", "cafe\u0301? [UTTERANCE_SEP]"}


def test_state_changes_with_every_file_that_is_read_and_not_otherwise(
    written: RankerTaskSettings, tmp_path: Path
) -> None:
    state = get_task(written.name).get_source_version
    first = state(written)
    read(written)
    (tmp_path / "notes.txt").write_text("not read")
    assert state(written) == first
    if written.name.startswith("irds:"):  # what a published dataset holds follows from its id and the package
        assert state(written.model_copy(update={"name": "irds:other"})) != first
        return
    seen = {first}
    for path in sorted(tmp_path.rglob("*.*")):
        if path.suffix in (".py", ".tsv", ".jsonl"):
            status = path.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # same size: an edit within a line
            seen.add(state(written))
            path.write_bytes(path.read_bytes() + b"\n")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
            seen.add(state(written))
            path.write_bytes(path.read_bytes()[:-1] + b" ")
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # size and time of before
            seen.add(state(written))
    files = FILES.get(written.name, ("__init__.py", "core.py"))
    if written.name.startswith("trec-dl-"):
        files = (*FILES["msmarco"], "msmarco-test2019-queries.tsv")
    assert len(seen) == 1 + 3 * len(files)


def test_every_task_is_prepared_and_found_again_without_its_path(written: RankerTaskSettings, tmp_path: Path) -> None:
    made = prepare_data(written, tmp_path / "cache")
    table, collection = made.read_candidates(), read(written)
    assert (table.groupby(["split", "query_id"]).size() == written.candidates).all()
    assert set(table["document_id"]) == set(made.read_documents()["document_id"]) <= set(collection.documents)
    for split in SPLITS:
        block = table[table["split"] == split]
        expected = [pair for pair in collection.qrels if pair.split == split]
        assert set(block["query_id"]) == {pair.query_id for pair in expected}
        found = block[block["relevant"] == 1]
        assert Counter(zip(found["query_id"], found["document_id"], strict=True)) <= Counter(p[1:3] for p in expected)
    assert made.read_metadata()["skipped"] == collection.skipped
    assert find_prepared_data(written, tmp_path / "cache") == made
    assert made.settings.path is None
    assert str(tmp_path) not in (made.folder / "meta.json").read_text()


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_missing_path_is_named_with_what_belongs_there(name: str, tmp_path: Path) -> None:
    for path, found in ((None, "none"), (tmp_path / "nowhere", f"{tmp_path / 'nowhere'} does not exist")):
        for function in (get_task(name).read_dataset, get_task(name).get_source_version):
            with pytest.raises(UserError) as error:
                function(settings(name, path))
            assert str(error.value).startswith(f"task.path: {found}; expected ")
            assert FILES[name][-1] in str(error.value)


@pytest.mark.parametrize("path", ["~no-such-user/data", "x" * 300, "x\0y"])
def test_what_cannot_be_a_path_does_not_exist(path: str) -> None:
    with pytest.raises(UserError, match=r"task\.path: .* does not exist"):
        get_task("qqp").get_source_version(RankerTaskSettings(name="qqp", path=path))


@pytest.mark.parametrize(("name", "file"), ALL_FILES)
def test_a_missing_file_is_named(name: str, file: str, tmp_path: Path) -> None:
    given = WRITERS[name](tmp_path)
    (tmp_path / file).unlink()
    pattern = file.replace("hard-negatives.", r"\*.").replace("(", r"\(")
    for function in (get_task(name).read_dataset, get_task(name).get_source_version):
        with pytest.raises(UserError, match=rf"^task\.path: {tmp_path} has no {pattern}.*; expected a folder with .+"):
            function(given)


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "byte-order mark": lambda data: b"\xef\xbb\xbf" + data,
    "CR LF": lambda data: data.replace(b"\n", b"\r\n"),
    "no last line end": lambda data: data.removesuffix(b"\n"),
    "gzip, plain name": gzip.compress,
    "gzip": gzip.compress,
}


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("form", FORMS)
def test_a_files_form_does_not_matter(name: str, form: str, tmp_path: Path) -> None:
    given = WRITERS[name](tmp_path)
    expected = read(given)
    for file in FILES[name]:
        rewrite(tmp_path / file, FORMS[form])
        if form == "gzip":
            (tmp_path / file).rename(tmp_path / f"{file}.gz")
    assert repr(read(given)) == repr(expected)


def read_with_pool(given: RankerTaskSettings, pool: str, monkeypatch: pytest.MonkeyPatch) -> IRDataset:
    """The collection as the task would read it if it sampled from these documents."""
    module = sys.modules[get_task(given.name).read_dataset.__module__]
    monkeypatch.setattr(module, "TASK", module.TASK._replace(pool=pool))
    return read(given)


@pytest.mark.parametrize("name", ["beir", "hard-negatives", "irds:ID", "msmarco"])
def test_the_pool_decides_which_documents_are_kept(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = WRITERS[name](tmp_path)
    if name == "msmarco":
        unjudged = 16
    else:
        unjudged = 1
        extra = {
            "beir": ("corpus.jsonl", '{"_id": "x", "text": "Unjudged."}\n'),
            "hard-negatives": ("passages.tsv", "x\tUnjudged.\n"),
            "irds:ID": ("docs.tsv", "x\tUnjudged.\n"),
        }[name]
        with (tmp_path / extra[0]).open("a") as file:
            file.write(extra[1])
    everything, judged = read_with_pool(given, "all", monkeypatch), read_with_pool(given, "judged", monkeypatch)
    used = {pair.document_id for pair in [*everything.qrels, *everything.candidates]}
    assert judged.documents == {name: text for name, text in everything.documents.items() if name in used}
    assert judged.skipped["document that is not needed"] == len(everything.documents) - len(used) >= unjudged
    assert repr(judged[2:4]) == repr(everything[2:4])


def write_without_dev(name: str, folder: Path) -> RankerTaskSettings:
    """A collection without a development set, in the layouts that allow it."""
    if name == "irds:ID":
        return write_irds(folder, ("train", "test"))
    if name == "qqp":
        return write_glue(folder)
    if name == "msmarco":
        given = write_trec_dl(folder, 2019)
        (folder / "queries.dev.tsv").unlink()
        (folder / "qrels.dev.tsv").unlink()
        return given
    given = WRITERS[name](folder)
    (folder / FILES[name][-2]).unlink()  # dev
    return given


SHARED = sorted(name for name in FILES.keys() | {"irds:ID"} if get_task(name).reads_dev_share)


@pytest.mark.parametrize("name", SHARED)
def test_a_share_of_the_training_queries_is_the_missing_dev_set(name: str, tmp_path: Path) -> None:
    given = write_without_dev(name, tmp_path)
    large, small = (read(given.model_copy(update={"dev_share": share})) for share in (0.5, 0.35))
    ids = [
        {split: {row.query_id for row in made.qrels if row.split == split} for split in SPLITS}
        for made in (large, small)
    ]
    for made, split_ids in zip((large, small), ids, strict=True):
        assert not split_ids["train"] & split_ids["dev"]
        assert all(row.query_id in split_ids[row.split] for row in made.candidates)
    assert ids[0]["train"] | ids[0]["dev"] == ids[1]["train"] | ids[1]["dev"]
    assert ids[0]["test"] == ids[1]["test"]
    assert ids[1]["dev"] < ids[0]["dev"]
    assert sorted(row[1:] for row in large.qrels) == sorted(row[1:] for row in small.qrels)
    assert (large.queries, large.documents) == (small.queries, small.documents)


@pytest.mark.parametrize("name", sorted({*SHARED} - {"irds:ID"}))
def test_without_a_dev_set_the_remedy_is_named_and_with_one_there_is_no_share(name: str, tmp_path: Path) -> None:
    given = write_without_dev(name, tmp_path / "without")
    with pytest.raises(UserError, match=r"^task\.path: .* has no .*; expected .* task\.dev_share \(such as 0\.1\)"):
        read(given)
    given = write_bimpm(tmp_path) if name == "qqp" else WRITERS[name](tmp_path)
    if name == "msmarco":
        given = write_trec_dl(tmp_path, 2020)
    pattern = rf"^task\.dev_share: 0\.1; expected none, since {tmp_path}/.*dev.* is the development set; remove one of "
    with pytest.raises(UserError, match=pattern):
        read(given.model_copy(update={"dev_share": 0.1}))


def test_a_task_that_has_no_dev_share_refuses_it(written: RankerTaskSettings, tmp_path: Path) -> None:
    if get_task(written.name).reads_dev_share:
        return
    given = written.model_copy(update={"dev_share": 0.1})
    for function in (prepare_data, find_prepared_data):
        with pytest.raises(UserError, match=r"^task\.dev_share: 0\.1; expected none, since the task .* has no such"):
            function(given, tmp_path / "cache")


def test_only_the_first_positive_of_a_hard_negatives_query_may_be_relevant(tmp_path: Path) -> None:
    given = WRITERS["hard-negatives"](tmp_path)
    path = tmp_path / "hard-negatives.jsonl"
    path.write_text(path.read_text().replace('"pos": [1]', '"pos": [1, 5, 1, 7]'))
    for smallest, expected in ((1, {"1": 2, "5": 1, "7": 1}), (2, {"1": 2})):
        prepared = prepare_data(
            given.model_copy(update={"relevant_from": smallest, "candidates": 85}), tmp_path / "cache"
        )
        table = prepared.read_candidates().query("query_id == '1'")
        relevant = table[table["relevant"] == 1]
        assert dict(zip(relevant["document_id"], relevant["grade"], strict=True)) == expected
        negatives = set(table["document_id"]) - set(expected)
        assert len(negatives) > 40
        assert not negatives & {"5", "7"}  # positives that do not count as relevant are no negatives either
