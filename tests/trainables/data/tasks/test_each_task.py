"""Behaviour of single tasks, over the tiny collections."""

import math
import shutil
from collections import Counter
from pathlib import Path

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
    write_lines,
    write_objects,
)
from tests.trainables.data.library import write_library
from trainables.data.tasks import Qrel, get_task
from trainables.utils.errors import UserError


def test_a_file_at_qqps_path_is_read_as_the_folder_with_it(tmp_path: Path) -> None:
    expected = read(WRITERS["qqp"](tmp_path))
    assert read(settings("qqp", tmp_path / "quora_duplicate_questions.tsv")) == expected


def test_qqp_with_commas_is_kaggles(tmp_path: Path) -> None:
    rows = ["id,qid1,qid2,question1,question2,is_duplicate"]
    rows += [f'"{i}","{2 * i}","{2 * i + 1}","{query(i)}, ""or""\nnot?","{document(i)}","1"' for i in range(20)]
    write_lines(tmp_path / "train.csv", rows)
    for path in (tmp_path, tmp_path / "train.csv"):
        collection = read(settings("qqp", path))
        assert collection.queries["6"] == f'{query(3)}, "or"\nnot?'
        assert judged_pairs(collection, "train") == [(str(2 * i), str(2 * i + 1)) for i in range(16)]
        assert judged_pairs(collection, "dev") == [("32", "33"), ("34", "35")]


def test_qqp_takes_duplicates_alone_and_counts_what_it_skips(tmp_path: Path) -> None:
    given = WRITERS["qqp"](tmp_path)
    path = tmp_path / "quora_duplicate_questions.tsv"
    expected = read(given)
    rewrite(path, lambda data: data + b"98\t7\t500\tx\t\t1\n99\t500\t8\t  \tx\t0\n")
    found = read(given)
    assert found[:4] == expected[:4]
    assert found.skipped == {"pair that is no duplicate": 1, "pair with an empty question": 2}
    assert found.documents["2"] == f'{document(0)}\nSay "please".'
    assert "999" not in found.documents
    assert [len(judged_pairs(found, split)) for split in SPLITS] == [32, 4, 4]


def test_msmarcos_dev_is_halved_by_number_and_no_topic_is_cut(tmp_path: Path) -> None:
    given = WRITERS["msmarco"](tmp_path)
    topics = [100, 9, 20, 20, 20, 3]  # the middle of 3 9 20 | 20 20 100 is within 20
    write_lines(tmp_path / "queries.dev.tsv", (f"{topic}\t{query(topic)}" for topic in sorted(set(topics))))
    write_lines(tmp_path / "qrels.dev.tsv", (f"{topic} 0 {i}  1" for i, topic in enumerate(topics)))
    collection = read(given)
    assert judged_pairs(collection, "dev") == [("3", "5"), ("9", "1"), ("20", "2"), ("20", "3"), ("20", "4")]
    assert judged_pairs(collection, "test") == [("100", "0")]


def test_queries_that_nothing_is_judged_for_are_left_out(tmp_path: Path) -> None:
    given = WRITERS["msmarco"](tmp_path)
    rewrite(tmp_path / "queries.train.tsv", lambda data: data + b"777\tUnjudged?\n778\tUnjudged?\n")
    collection = read(given)
    assert "777" not in collection.queries
    assert collection.skipped["query that nothing is judged for"] == 2


def test_a_query_may_be_judged_in_two_splits_and_a_judgement_repeated(tmp_path: Path) -> None:
    given = WRITERS["beir"](tmp_path)
    rewrite(tmp_path / "qrels/dev.tsv", lambda data: data + b"q0\td0\t1\nq0\td0\t1\n")
    collection = read(given)
    assert Qrel("dev", "q0", "d0", 1) in collection.qrels
    assert Qrel("train", "q0", "d0", 1) in collection.qrels
    assert collection.skipped == {"judgement that was made before": 1}


def test_beirs_text_is_title_and_text_its_grades_are_kept_and_what_is_empty_is_skipped(tmp_path: Path) -> None:
    given = WRITERS["beir"](tmp_path)
    for file, more in (
        ("qrels/train.tsv", b"q1\td8\t-1\nq1\td9\t-2\nq1\td10\t3\n"),
        ("corpus.jsonl", b'{"_id": "e1", "title": "", "text": " "}\n{"_id": "e2", "title": null, "text": ""}\n'),
        ("qrels/test.tsv", b"q20\te1\t1\n"),
    ):
        rewrite(tmp_path / file, lambda data, more=more: data + more)
    collection = read(given)
    assert collection.documents["d1"] == f"Guide 1 {document(1)}"
    assert collection.documents["d2"] == document(2)
    assert not {"e1", "e2"} & set(collection.documents)
    grades = {pair.document_id: pair.grade for pair in collection.qrels if pair.query_id == "q1"}
    assert grades == {"d1": 1, "d8": 0, "d9": 0, "d10": 3}
    assert Qrel("train", "q0", "d1", 0) in collection.qrels
    skipped = {"grade below 0, taken as 0": 2, "empty document": 2, "judgement of an empty document": 1}
    assert collection.skipped == skipped


def test_a_dialogues_context_has_its_separators(tmp_path: Path) -> None:
    given = WRITERS["dialogues"](tmp_path)
    lines = ["1\ta b\tc\t\td\te", "0\ta b\tc\td\tf", "0\ta b\tc\td\te", "0\tnobody\tg", "0\ta b\tc\td\tf", "1\tz\ty"]
    write_lines(tmp_path / "dev.tsv", lines)
    collection = read(given)
    [(name, relevant), _] = judged_pairs(collection, "dev")
    assert collection.queries[name] == "a b [UTTERANCE_SEP] c [TURN_SEP] d [UTTERANCE_SEP]"
    assert collection.documents[relevant] == "e"
    assert name.startswith("dev-")
    assert len(name) == 4 + 16
    [candidate] = [given for given in collection.candidates if given.split == "dev"]
    assert candidate.query_id == name
    assert collection.documents[candidate.document_id] == "f"
    assert math.isnan(candidate.score)
    assert "g" not in collection.documents.values()
    assert collection.skipped == {
        "empty utterance": 1,
        "candidate of a context without relevant response": 1,
        "candidate that is relevant": 1,
        "candidate that was named before": 1,
    }


def test_a_dialogues_candidates_may_come_before_the_relevant_response_and_keep_their_order(tmp_path: Path) -> None:
    given = WRITERS["dialogues"](tmp_path)
    write_lines(tmp_path / "test.tsv", ["0\tq\tsecond", "1\tq\tr", "0\tq\tfirst", "0\tq\tr2"])
    collection = read(given)
    candidates = [collection.documents[row.document_id] for row in collection.candidates if row.split == "test"]
    assert candidates == ["second", "first", "r2"]
    assert len(judged_pairs(collection, "test")) == 1
    assert get_task("dialogues").added_tokens == ("[UTTERANCE_SEP]", "[TURN_SEP]")
    assert get_task("dialogues").is_dialogue


HEADER = "label\tdomain\tutterances\tresponse"


def with_domains(folder: Path, domains: dict[str, str]) -> None:
    """Writes the domain of each split into every line of its file."""
    for split, domain in domains.items():
        lines = (folder / f"{split}.tsv").read_text().splitlines()
        write_lines(folder / f"{split}.tsv", [HEADER, *(line.replace("\t", f"\t{domain}\t", 1) for line in lines)])


def test_a_header_puts_the_domain_before_a_dialogues_utterances(tmp_path: Path) -> None:
    given = WRITERS["dialogues"](tmp_path)
    plain = read(given)
    assert plain.domains == {}
    with_domains(tmp_path, {"dev": " ask ubuntu ", "test": "  "})
    lines = [HEADER, "0\tapple\ta b\tc\tx", "1\tapple\ta b\tc\td", "1\t\ta\tb", "1\ttravel\ta\tb\tc", "0\ttravel\tz\ty"]
    write_lines(tmp_path / "train.tsv", lines)
    collection = read(given)
    own = {collection.queries[name]: domain for name, domain in collection.domains.items() if "train" in name}
    assert own == {"a b [UTTERANCE_SEP] c [TURN_SEP]": "apple", "a [UTTERANCE_SEP] b [TURN_SEP]": "travel"}
    evaluated = {name: text for name, text in collection.queries.items() if "train" not in name}
    assert evaluated == {name: text for name, text in plain.queries.items() if "train" not in name}
    rest = {name: domain for name, domain in collection.domains.items() if "train" not in name}
    assert rest == {name: "ask ubuntu" for name in evaluated if "dev" in name}


@pytest.mark.parametrize(("first", "second"), [("apple", "travel"), ("apple", ""), ("", "apple")])
def test_a_context_has_one_domain(tmp_path: Path, first: str, second: str) -> None:
    given = WRITERS["dialogues"](tmp_path)
    write_lines(tmp_path / "dev.tsv", [HEADER, f"1\t{first}\ta\tb", "0\tx\tother\tb", f"0\t{second}\ta\tc"])
    with pytest.raises(UserError) as error:
        read(given)
    path = tmp_path / "dev.tsv"
    assert str(error.value).startswith(f"{path}, line 4: query dev-")
    assert str(error.value).endswith(f" has domain {second!r}; expected {first!r}, as in {path}, line 2")


def test_a_docstrings_domain_is_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    write_library(tmp_path, functions=20)
    write_library(tmp_path, "otherlib", functions=5)  # its texts are not kept a second time
    collection = read(settings("docstrings", libraries=("tinylib", "otherlib")))
    assert set(collection.domains) == set(collection.queries)
    assert all(name.startswith(f"{domain}.core.") for name, domain in collection.domains.items())
    assert Counter(collection.domains.values()) == {"tinylib": 15, "otherlib": 5}


def test_hard_negatives_in_both_forms(tmp_path: Path) -> None:
    given = WRITERS["hard-negatives"](tmp_path)
    values = [
        {"qid": 5, "pos": ["7", 6], "neg": {"bm25": [1, "2", 7], "dense": [3], "sparse": []}},
        {"qid": "8", "pos": [{"pid": 9}], "neg": {"bm25": [{"pid": "4", "bm25-score": 11}, {"pid": 3, "ce-score": 1}]}},
        {"qid": 10, "pos": [], "neg": {"bm25": [11]}},
        {"qid": 12, "pos": [13], "neg": {"dense": [3]}},
    ]
    written = (tmp_path / "hard-negatives.jsonl").read_text()
    write_objects(tmp_path / "hard-negatives.jsonl", values)
    with (tmp_path / "hard-negatives.jsonl").open("a") as file:
        file.writelines(f"{line}\n" for line in written.splitlines()[14:])
    collection = read(given)
    judged = [(pair.query_id, pair.document_id) for pair in collection.qrels]
    assert judged[:4] == [("5", "7"), ("5", "6"), ("8", "9"), ("12", "13")]
    rows = [(row.query_id, row.document_id, row.score) for row in collection.candidates]
    assert [row[:2] for row in rows[:4]] == [("5", "1"), ("5", "2"), ("8", "4"), ("8", "3")]
    assert rows[2][2] == 11.0
    assert all(math.isnan(row[2]) for row in (rows[0], rows[1], rows[3]))
    assert collection.skipped["query without a positive"] == 1
    assert collection.skipped["list of negatives, sparse"] == 1
    assert collection.skipped["candidate that is relevant"] == 1
    assert {pair.split for pair in collection.qrels if pair.query_id == "5"} == {
        row.split for row in collection.candidates if row.query_id == "5"
    }


def test_of_two_files_of_hard_negatives_none_is_guessed(tmp_path: Path) -> None:
    given = WRITERS["hard-negatives"](tmp_path)
    shutil.copy(tmp_path / "hard-negatives.jsonl", tmp_path / "more.jsonl.gz")
    with pytest.raises(UserError, match=rf"^task\.path: {tmp_path} has 2 files \*\.jsonl; expected"):
        read(given)
