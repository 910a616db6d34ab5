"""The given splits of Quora's question pairs: GLUE's and BiMPM's."""

import csv
import re
from pathlib import Path

import pandas as pd
import pytest

from tests.trainables.data.fixtures import (
    SPLITS,
    WRITERS,
    document,
    judged_pairs,
    query,
    read,
    rewrite,
    settings,
    write_bimpm,
    write_glue,
    write_lines,
)
from trainables.utils.errors import UserError


def test_glues_dev_is_the_test_split_and_its_unlabelled_test_is_not_read(tmp_path: Path) -> None:
    given = write_glue(tmp_path).model_copy(update={"dev_share": 0.3})
    collection = read(given)
    assert judged_pairs(collection, "test") == [(str(2 * i + 1), str(2 * i + 2)) for i in range(30, 36)]
    both = {*judged_pairs(collection, "train"), *judged_pairs(collection, "dev")}
    assert both == {(str(2 * i + 1), str(2 * i + 2)) for i in range(30)}
    assert collection.skipped == {"line with another number of fields": 4, "pair that is no duplicate": 2}
    (tmp_path / "test.tsv").unlink()
    assert repr(read(given)) == repr(collection)


def test_glues_fields_are_those_that_pandas_reads_without_quoting(tmp_path: Path) -> None:
    collection = read(write_glue(tmp_path).model_copy(update={"dev_share": 0.3}))
    path = tmp_path / "train.tsv"
    oracle = pd.read_csv(path, sep="\t", quoting=csv.QUOTE_NONE, dtype=str, keep_default_na=False)
    oracle = oracle[oracle["is_duplicate"] == "1"]
    assert {collection.queries[name] for name in oracle["qid1"]} == {*oracle["question1"]}
    assert {collection.documents[name] for name in oracle["qid2"]} == {*oracle["question2"]}
    assert collection.documents["2"] == f'"{document(0)}'


def test_a_labelled_test_file_with_glues_header_is_the_test_split(tmp_path: Path) -> None:
    given = write_glue(tmp_path)
    rows = [f"{i}\t{2 * i + 1}\t{2 * i + 2}\t{query(i)}\t{document(i)}\t1" for i in range(50, 54)]
    header = (tmp_path / "dev.tsv").read_text().splitlines()[0]
    write_lines(tmp_path / "test.tsv", [header, *rows])
    collection = read(given)
    assert [len(judged_pairs(collection, split)) for split in SPLITS] == [30, 6, 4]


def test_bimpms_questions_are_known_by_their_text(tmp_path: Path) -> None:
    given = write_bimpm(tmp_path)
    rewrite(tmp_path / "train.tsv", lambda data: data + f"1\t{query(0)}\t{document(5)}\t77\n".encode())
    collection = read(given)
    for split, numbers in SPLITS.items():
        texts = [
            (collection.queries[first], collection.documents[second])
            for first, second in judged_pairs(collection, split)
        ]
        assert texts == [(query(i), document(i)) for i in numbers] + [(query(0), document(5))] * (split == "train")
    assert len(collection.documents) == 24
    assert collection.skipped == {"pair that is no duplicate": 3}


def test_bimpm_without_dev_takes_a_share_and_all_qrels_of_a_question_stay_together(tmp_path: Path) -> None:
    given = write_bimpm(tmp_path).model_copy(update={"dev_share": 0.4})
    (tmp_path / "dev.tsv").unlink()
    more = "".join(f"1\t{query(i)}\t{document(i + 1)}\t{i + 70}\n" for i in range(10))
    rewrite(tmp_path / "train.tsv", lambda data: data + more.encode())
    collection = read(given)
    dev, train = ({first for first, _ in judged_pairs(collection, split)} for split in ("dev", "train"))
    assert dev
    assert train
    assert not dev & train
    assert len(judged_pairs(collection, "dev")) + len(judged_pairs(collection, "train")) == 26


def test_the_only_file_goes_first_and_is_split_in_its_order(tmp_path: Path) -> None:
    given = WRITERS["qqp"](tmp_path)
    expected = read(given)
    write_bimpm(tmp_path)
    assert read(given) == expected
    with pytest.raises(UserError) as error:
        read(given.model_copy(update={"dev_share": 0.1}))
    path = tmp_path / "quora_duplicate_questions.tsv"
    assert str(error.value) == f"task.dev_share: 0.1; expected none, since {path} is split 80/10/10 %"


GLUE = "id, qid1, qid2, question1, question2, is_duplicate"


@pytest.mark.parametrize(
    ("writer", "file", "old", "new", "line", "expected"),
    [
        (write_glue, "train.tsv", "id\tqid1", "x\tqid1", 1, f"'x.*'; expected GLUE's header {GLUE}, or BiMPM's l"),
        (write_glue, "train.tsv", "is_duplicate", "label", 1, f"'id.*label'; expected the header {GLUE}, separated"),
        (write_glue, "dev.tsv", "is_duplicate", "label", 1, f"'id.*label'; expected the header {GLUE}, separated"),
        (write_glue, "train.tsv", "3\t7\t8", "3\tx\t8", 5, "invalid id 'x'; expected a whole number"),
        (write_glue, "train.tsv", "guide 3.\t1", "guide 3.\t1.0", 5, "is_duplicate is '1.0'; expected 0 or 1"),
        (write_glue, "train.tsv", "3\t7\t8", "3\t1\t8", 5, "question 1 again, with the text .*; expected the"),
        (write_bimpm, "test.tsv", "1\tHow", "2\tHow", 1, "label is '2'; expected 0 or 1"),
        (write_bimpm, "train.tsv", "1\tHow", "1\tSo\tHow", 1, "fields: 5; expected 4, .*: label, question1, q"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    writer: object, file: str, old: str, new: str, line: int, expected: str, tmp_path: Path
) -> None:
    given = writer(tmp_path).model_copy(update={"dev_share": 0.3 if writer is write_glue else None})
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError) as error:
        read(given)
    assert re.match(rf"{tmp_path / file}, line {line}: {expected}", str(error.value))


def test_train_alone_is_an_error(tmp_path: Path) -> None:
    given = write_glue(tmp_path)
    (tmp_path / "dev.tsv").unlink()
    with pytest.raises(UserError) as error:
        read(given)
    expected = "expected also dev.tsv or test.tsv with labels"
    assert str(error.value) == f"task.path: {tmp_path} has train.tsv alone; {expected}"
    with pytest.raises(UserError, match=r"has no quora_duplicate_questions\.tsv or train\.csv or train\.tsv; expected"):
        read(settings("qqp", tmp_path.parent))
