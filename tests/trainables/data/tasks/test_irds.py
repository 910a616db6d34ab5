"""Datasets of ir_datasets: which parts become which split, and what a published dataset may lack."""

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from tests.trainables.data.fixtures import MANY, document, query, settings, write_irds
from trainables.data.tasks import SPLITS, IRDataset, irds
from trainables.data.tasks.splits import split_by_hash
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError


def queries(collection: IRDataset, split: str) -> list[str]:
    return [pair.query_id for pair in collection.qrels if pair.split == split]


def refusal(given: RankerTaskSettings) -> str:
    with pytest.raises(UserError) as error:
        irds.read_dataset(given)
    assert "\n" not in str(error.value)
    return str(error.value)


def register(name: str, *parts: Any) -> RankerTaskSettings:
    """Settings of a dataset of these parts, registered under `name`, which no other test uses."""
    ir_datasets = pytest.importorskip("ir_datasets")
    from ir_datasets.datasets.base import Dataset

    ir_datasets.registry.register(name, Dataset(*parts))
    return settings(f"irds:{name}")


def test_train_dev_and_test_are_what_the_dataset_says(tmp_path: Path) -> None:
    collection = irds.read_dataset(write_irds(tmp_path, ("train", "dev", "test")))
    assert queries(collection, "train") == [f"q{i}" for i in range(16)]
    assert queries(collection, "dev") == [f"q{i}" for i in range(16, 24)]
    assert queries(collection, "test") == [f"q{i}" for i in range(24, 28)]
    assert collection.queries == {f"q{i}": query(i) for i in range(28)}
    assert collection.documents == {f"d{i}": document(i) for i in MANY}
    assert not collection.skipped


def test_without_a_test_part_dev_is_halved(tmp_path: Path) -> None:
    collection = irds.read_dataset(write_irds(tmp_path, ("train", "dev")))
    assert queries(collection, "train") == [f"q{i}" for i in range(16)]
    assert queries(collection, "dev") == [f"q{i}" for i in range(16, 20)]
    assert queries(collection, "test") == [f"q{i}" for i in range(20, 24)]


@pytest.mark.parametrize("parts", [(), ("train",), ("train", "test")])
def test_what_has_no_dev_part_is_split_by_hash(parts: tuple[str, ...], tmp_path: Path) -> None:
    given = write_irds(tmp_path, parts)
    if parts:  # enough queries for every split
        names = "".join(f"q{i}\t{query(i)}\n" for i in MANY)
        (tmp_path / "queriestrain.tsv").write_text(names)
        (tmp_path / "qrelstrain.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in MANY))
    collection = irds.read_dataset(given)
    for split in SPLITS:
        assert queries(collection, split) == [f"q{i}" for i in MANY if split_by_hash(f"q{i}") == split]


def test_a_dataset_next_to_which_a_dev_part_is_but_that_is_not_train_stands_alone(tmp_path: Path) -> None:
    given = write_irds(tmp_path, ("train", "dev"))
    (tmp_path / "queriesdev.tsv").write_text("".join(f"q{i}\t{query(i)}\n" for i in MANY))
    (tmp_path / "qrelsdev.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in MANY))
    collection = irds.read_dataset(given.model_copy(update={"name": given.name.removesuffix("train") + "dev"}))
    assert len(queries(collection, "train")) > 40


def test_what_is_empty_or_missing_is_skipped_and_the_higher_of_two_grades_taken(tmp_path: Path) -> None:
    given = write_irds(tmp_path)
    for file, more in (
        ("docs.tsv", "empty\t \n"),
        ("queriestrain.tsv", "empty\t\n"),
        ("qrelstrain.txt", "q0 0 empty 1\nempty 0 d0 1\nq0 0 gone 1\ngone 0 d0 1\nq1 0 d1 3\nq2 0 d2 -2\nq2 0 d3 -2\n"),
    ):
        with (tmp_path / file).open("a") as stream:
            stream.write(more)
    collection = irds.read_dataset(given)
    grades = {pair[1:3]: pair.grade for pair in collection.qrels if pair.query_id in ("q1", "q2")}
    assert grades == {("q1", "d1"): 3, ("q2", "d2"): 1, ("q2", "d3"): 0}
    assert collection.skipped == {
        "empty text (queries)": 1,
        "empty text (docs)": 1,
        "judgement of what is empty or missing": 4,
        "grade below 0, taken as 0": 1,
    }


def test_an_unknown_dataset_is_named(tmp_path: Path) -> None:
    write_irds(tmp_path)
    assert refusal(settings("irds:no/such/train")).startswith(
        "task.name: ir_datasets has no 'no/such/train'; expected irds:ID with an id of https://ir-datasets.com"
    )


def test_what_a_dataset_lacks_is_named(tmp_path: Path) -> None:
    write_irds(tmp_path)
    message = refusal(register("tiny-without-parts"))
    assert message == (
        "task.name: tiny-without-parts has no docs and no queries and no qrels; "
        "expected a dataset with docs, queries and qrels"
    )


@pytest.mark.parametrize("kind", ["docs", "queries", "qrels"])
def test_a_download_that_fails_is_one_line(kind: str, tmp_path: Path) -> None:
    write_irds(tmp_path)
    from ir_datasets.formats import TrecQrels, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    class Offline(LocalDownload):
        def stream(self) -> Iterator[bytes]:
            raise ConnectionError("no route\nto the host " + "x" * 1000)

    makers = {"docs": TsvDocs, "queries": TsvQueries, "qrels": lambda source: TrecQrels(source, {})}
    files = {"docs": "docs.tsv", "queries": "queriestrain.tsv", "qrels": "qrelstrain.txt"}
    sources = {name: (Offline if name == kind else LocalDownload)(tmp_path / file) for name, file in files.items()}
    message = refusal(register(f"tiny-offline-{kind}", *(make(sources[name]) for name, make in makers.items())))
    assert message.startswith(f"task.name: {kind} of tiny-offline-{kind} cannot be read (ConnectionError: no route to ")
    assert message.endswith("); expected a dataset that ir_datasets can read or download")
    assert len(message) < 400


def test_a_missing_package_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    expected = "task.name: the package ir_datasets is not installed; expected `pip install ir-datasets`"
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    assert refusal(settings("irds:vaswani")) == expected
    monkeypatch.setattr(irds, "version", missing)
    with pytest.raises(UserError) as error:
        irds.get_source_version(settings("irds:vaswani"))
    assert str(error.value) == expected


def test_state_follows_from_id_and_version_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(irds, "version", lambda name: "1.0")
    first = irds.get_source_version(settings("irds:a"))
    assert irds.get_source_version(settings("irds:a", path=tmp_path)) == first
    assert irds.get_source_version(settings("irds:b")) != first
    monkeypatch.setattr(irds, "version", lambda name: "1.1")
    assert irds.get_source_version(settings("irds:a")) != first


@pytest.mark.parametrize("parts", [("train", "dev", "test"), ("train",), ()])
def test_a_dev_share_needs_train_and_test_and_no_dev(parts: tuple[str, ...], tmp_path: Path) -> None:
    given = write_irds(tmp_path, parts).model_copy(update={"dev_share": 0.1})
    found = r".*/dev" if "dev" in parts else r".* without a test dataset"
    expected = f"none, since task.name has {found}; or the ID of a train dataset with test and without dev"
    assert re.fullmatch(rf"task\.dev_share: 0\.1; expected {expected}", refusal(given))
