"""A mistake in a file of a task is one line that names file, line and expectation."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainables.data.fixtures import FILES, WRITERS, document, query
from trainables.data.tasks import get_task
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

ALL_FILES = [(name, file) for name, files in FILES.items() for file in files]

QQP = "quora_duplicate_questions.tsv"
JUDGED = "hard-negatives.jsonl"
HEADER = "label, domain, utterances, response"
CASES = {
    # qqp: header, the quoted pair, query 0 with a line end in its duplicate, query 1, ...
    ("qqp", QQP): [
        ("is_duplicate", "duplicate", 1, "'id\\tqid1\\tqid2\\tquestion1\\tquestion2\\tduplicate' has no column is_dup"),
        ("\t3\t4\t", "\t3\t", 5, "fields: 5; expected 6, as in the header"),
        ("\t3\t4\t", "\tthree\t4\t", 5, "invalid id 'three'; expected a whole number"),
        ("\n2\t3\t4\t", "\n٢\t3\t4\t", 5, "invalid id '٢'; expected a whole number"),
        ("\t3\t4\t", "\t1\t4\t", 5, f"question 1 again, with the text {query(1)!r}; expected the same"),
        ("guide 1.\t1", "guide 1.\t2", 5, "is_duplicate is '2'; expected 0 or 1"),
        ("\t3\t4\t", '\t3\t4\t"How" ', 5, "'\\t' expected after '\"'; expected CSV fields"),
        ("\t79\t80\t", '\t79\t80\t"', 46, "unexpected end of data; expected CSV fields"),
    ],
    ("msmarco", "collection.tsv"): [
        ("3\tTo", "3 To", 4, "fields: 1; expected 2, separated by a tab: id, text"),
        ("39\tTo", "To go\tTo", 40, "invalid id 'To go'; expected the id of a"),
        ("3\tTo", "\tTo", 4, "invalid id ''; expected the id of a document"),
        ("3\tTo", "2\tTo", 4, f"document 2 again, with the text {document(3)!r}; expected "),
        (f"3\t{document(3)}", "3\t ", 4, "empty text of document 3; expected text"),
    ],
    ("msmarco", "queries.dev.tsv"): [
        ("18\tHow", "7\tHow", 3, f"query 7 again, with the text {query(18)!r}; expected ")
    ],
    ("msmarco", "queries.train.tsv"): [(query(3), "", 4, "empty text of query 3; expected text")],
    ("msmarco", "qrels.train.tsv"): [
        ("13\t0\t13\t1", "13\t0\t99\t1", 3, "unknown document '99'; expected the id of a")
    ],
    ("msmarco", "qrels.dev.tsv"): [
        ("18\t0\t18\t1", "99\t0\t18\t1", 6, "unknown query '99'; expected the id of a query"),
        ("18\t0\t18\t1", "18\t18\t1", 6, "fields: 3; expected 'query iteration document grade'"),
        ("18\t0\t18\t1", "18\t0\t18\tx", 6, "grade 'x'; expected a whole number"),
        ("18\t0\t18\t1", "18\t0\t18\t-3", 6, "grade -3; expected -2 to 127"),
        ("18\t0\t18\t1", "17\t0\t17\t2", 7, "document 17 has grade 1; expected 2, as in "),
    ],
    ("dialogues", "dev.tsv"): [
        ("1\t", "label\tutterances\n1\t", 1, f"header 'label, utterances'; expected tab-separated {HEADER}"),
        ("1\t", "label\tdomain \n1\t", 1, f"header 'label, domain '; expected tab-separated {HEADER}"),
        ("1\t", "label\tdomain\tutterances\tresponse\n1\tx\t", 8, "fields: 3; expected tab-separated label, "),
        ("\n0\t", "\nno\t", 2, "label 'no'; expected 0 or 1"),
        ("\n0\t", "\n\n0\t", 2, "no tab in ''; expected label, utterances, response, separated by"),
        ("\n0\t", "\n0\tx\n0\t", 2, "fields: 2; expected tab-separated label, utterances and response"),
        ("\n0\t", "\n0\tx\t \n0\t", 2, "empty response; expected text"),
        ("\n0\t", "\n0\t\t \tx\n0\t", 2, "empty context; expected text"),
    ],
    ("hard-negatives", JUDGED): [
        ('"bm25": [2, 3, 81]', '"bm25": [2, 3', 2, "not JSON (Expecting ',' delimiter"),
        ('\n{"qid": 1,', '\n[]\n{"qid": 1,', 2, "'[]'; expected one JSON object per line"),
        ('"pos": [1],', "", 2, "no pos; expected a list under that name"),
        ('"pos": [1]', '"pos": 1', 2, "pos is 1; expected a list"),
        ('"pos": [1]', '"pos": [1.5]', 2, "pid is '1.5'; expected an id, number or text"),
        ('"pos": [1]', '"pos": [{"id": 1}]', 2, "pid is 'None'; expected an id, number or text"),
        ('"pos": [1]', '"pos": [99]', 2, "unknown document '99'; expected the id of a document"),
        ('"qid": 1,', '"qid": true,', 2, "qid is 'True'; expected an id, number or text"),
        ('"qid": 1,', '"qid": 99,', 2, "unknown query '99'; expected the id of a query"),
        ('"bm25": [2, 3', '"bm25": [2, 99', 2, "unknown document '99'; expected the id of a"),
        ('"bm25": [2, 3, 81]', '"bm25": 2', 2, "bm25 is 2; expected a list"),
        ('-score": 9.5', '-score": "9.5"', 1, "bm25-score is '9.5'; expected a number"),
        ('-score": 9.5', '-score": Infinity', 1, "bm25-score is 'inf'; expected a number"),
    ],
    ("hard-negatives", "queries.tsv"): [(query(3), "", 4, "empty text of query 3; expected text")],
    ("hard-negatives", "passages.tsv"): [
        ("3\tTo", "2\tTo", 4, f"document 2 again, with the text {document(3)!r}; expected ")
    ],
    ("beir", "corpus.jsonl"): [
        ('"_id": "d3"', '"id": "d3"', 4, "no _id; expected text under that name"),
        ('"_id": "d3"', '"_id": 3', 4, "_id is 3; expected text in quotation marks"),
        ('"_id": "d3"', '"_id": "d2"', 4, "document d2 again, with the text "),
        ('"title": "Guide 3"', '"title": 3', 4, "title is 3; expected text in quotation marks"),
        ('takes 3 steps, see guide 3."}', "takes", 4, "not JSON (Unterminated string"),
    ],
    ("beir", "queries.jsonl"): [
        (query(3), " ", 4, "empty text of query q3; expected text"),
        ('"text": "How do I factor', '"txt": "How do I factor', 4, "no text; expected text under"),
    ],
    ("beir", "qrels/dev.tsv"): [
        ("corpus-id", "doc-id", 1, "'query-id\\tdoc-id\\tscore' has no column corpus-id; expected a header"),
        ("q18\td18\t1", "q18 d18 1", 4, "fields: 1; expected 3, as in the header"),
        ("q18\td18\t1", "q18\td99\t1", 4, "unknown document 'd99'; expected the id of a document"),
        ("q18\td18\t1", "q99\td18\t1", 4, "unknown query 'q99'; expected the id of a query"),
        ("q18\td18\t1", "How to\td18\t1", 4, "invalid id 'How to'; expected the id"),
        ("q18\td18\t1", "q18\td18\t1.5", 4, "grade '1.5'; expected a whole number"),
    ],
}


@pytest.mark.parametrize(
    ("place", "old", "new", "line", "expected"), [(place, *case) for place, cases in CASES.items() for case in cases]
)
def test_what_is_wrong_is_named_with_its_line(
    place: tuple[str, str], old: str, new: str, line: int, expected: str, tmp_path: Path
) -> None:
    name, file = place
    settings, path = WRITERS[name](tmp_path), tmp_path / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8", newline="")
    told = refuse(name, settings)
    assert told.startswith(f"{path}, line {line}: {expected}")
    assert "; expected " in told


def refuse(name: str, settings: RankerTaskSettings) -> str:
    with pytest.raises(UserError) as error:
        get_task(name).read_dataset(settings)
    assert "\n" not in str(error.value)
    return str(error.value)


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no UTF-8": (lambda data: data.replace(b"\n", b"\n\xff", 1), ", line 2: not UTF-8; expected UTF-8 text"),
    "a NUL byte": (lambda data: data.replace(b"\n", b"\n\0", 1), r", line 2: a control character, b'\x00'; expected "),
    "a gzip that was cut": (lambda data: gzip.compress(data)[:-9], ": a damaged gzip file ("),
}


@pytest.mark.parametrize(("name", "file"), ALL_FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_an_error_in_every_file(name: str, file: str, damage: str, tmp_path: Path) -> None:
    settings, path = WRITERS[name](tmp_path), tmp_path / file
    change, expected = DAMAGES[damage]
    path.write_bytes(change(path.read_bytes()))
    assert refuse(name, settings).startswith(f"{path}{expected}")


@pytest.mark.parametrize("name", sorted(set(WRITERS) - {"docstrings"}))
def test_grades_that_count_nowhere_are_an_error(name: str, tmp_path: Path) -> None:
    settings = WRITERS[name](tmp_path).model_copy(update={"relevant_from": 3})
    found = rf"{settings.path or settings.name}: no relevant document in the train split, which has \d+ qrels"
    expected = "expected one of grade task.relevant_from = 3 or more in each of train, dev, test"
    assert re.fullmatch(f"{found}; {expected}", refuse(settings.name, settings))


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "split"),
    [
        ("qqp", QQP, "\t1\n", "\t0\n", "train"),
        ("msmarco", "qrels.dev.tsv", "\t1\n", "\t0\n", "dev"),
        ("msmarco", "qrels.train.tsv", "\t1\n", "\t-1\n", "train"),
        ("dialogues", "test.tsv", "1\tHow", "0\tHow", "test"),
        ("beir", "qrels/test.tsv", "\t1\n", "\t0\n", "test"),
    ],
)
def test_a_split_without_a_relevant_document_is_named(
    name: str, file: str, old: str, new: str, split: str, tmp_path: Path
) -> None:
    settings = WRITERS[name](tmp_path)
    path = tmp_path / file
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8", newline="")
    with pytest.raises(UserError, match=rf"^{tmp_path}: no relevant document in the {split} split, which has \d+ qre"):
        get_task(name).read_dataset(settings)


def test_a_file_of_dialogues_without_tabs_is_told_its_fields_and_the_header(tmp_path: Path) -> None:
    settings = WRITERS["dialogues"](tmp_path)
    path = tmp_path / "dev.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("\t", ";"), encoding="utf-8")
    expected = f"expected label, utterances, response, separated by tabs, or the header {HEADER}"
    assert re.fullmatch(rf"{path}, line 1: no tab in '.*'; {expected}", refuse("dialogues", settings))


def test_a_file_with_domains_without_the_header_is_an_error(tmp_path: Path) -> None:
    """The domain of a line would be its first utterance there. A file without domains needs no header."""
    settings = WRITERS["dialogues"](tmp_path)
    for split in ("train", "test"):
        path, domain = tmp_path / f"{split}.tsv", HEADER.replace(", ", "\t")
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join([domain, *(line.replace("\t", "\tx\t", 1) for line in lines)]), encoding="utf-8")
    assert {*get_task("dialogues").read_dataset(settings).domains.values()} == {"x"}
    path = tmp_path / "dev.tsv"
    path.write_text(re.sub(r"(?m)^([01])\t", r"\1\tx\t", path.read_text(encoding="utf-8")), encoding="utf-8")
    found = "no header, but each line begins with a domain of another file, such as 'x'"
    assert refuse("dialogues", settings) == f"{path}, line 1: {found}; expected the header {HEADER}"


def test_a_text_that_stands_there_twice_is_no_error(tmp_path: Path) -> None:
    for name in ("msmarco", "beir", "hard-negatives"):
        folder = tmp_path / name
        settings = WRITERS[name](folder)
        expected = get_task(name).read_dataset(settings)
        for file in FILES[name]:
            if "qrels" not in file:
                path = folder / file
                path.write_bytes(path.read_bytes() + path.read_bytes().split(b"\n")[1] + b"\n")
        found = get_task(name).read_dataset(settings)
        assert repr(found[:4]) == repr(expected[:4])
