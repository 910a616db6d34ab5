"""Pairs are those of the standard evaluation, and what is wrong in a file is one line."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sts import LICENSED, PAIRS, SHARED, SUBSETS, UNRATED, pair, write_sts
from trainables.data.tasks import sts
from trainables.specs.sentence_encoder import STS_SETS
from trainables.utils.errors import UserError

DATA = Path(__file__).parents[5] / "shared" / "data" / "sts"
STANDARD = {
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
    "STS13": {"FNWN": 189, "OnWN": 561, "headlines": 750},
    "STS14": {"OnWN": 750, "deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "tweet-news": 750},
    "STS15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "STS16": {"answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244, "question-question": 209},
}
"""Set -> subset -> pairs, as SentEval evaluates them."""
TOTALS = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "STS-B": 1379, "SICK-R": 4927}

words = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).filter(lambda it: it.strip())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_sts(tmp_path)


def real() -> Path:
    if not DATA.exists():
        pytest.skip(f"{DATA} is absent")
    return DATA


def counts(pairs: Iterable[sts.SentencePair]) -> dict[tuple[str, str], int]:
    return Counter((pair.split, pair.query_id) for pair in pairs)


def test_the_published_files_give_the_pairs_of_the_standard_evaluation() -> None:
    skipped = Counter[str]()
    pairs = sts.read_pairs(real(), STS_SETS, skipped)
    expected = {("test", f"{name}/{part}"): n for name, parts in STANDARD.items() for part, n in parts.items()}
    singles = {("dev", "STS-B"): 1500, ("test", "STS-B"): 1379, ("test", "SICK-R"): 4927}
    assert counts(pairs) == {**expected, **singles}
    assert Counter(one.query_id.partition("/")[0] for one in pairs if one.split == "test") == TOTALS
    assert skipped == {"pair without a gold similarity": 13_497, "pair with licensed sentences": 750}
    assert len({one[:3] for one in pairs}) == len(pairs)
    assert all(0 <= one.relevant <= 5 for one in pairs)


def test_the_published_texts_and_golds_are_those_of_their_lines() -> None:
    """SentEval's own way: lines split at tabs, the gold lines that are not empty."""
    pairs = sts.read_pairs(real(), ("STS12", "STS16"))
    for name in ("STS12/MSRpar", "STS16/postediting"):
        year, _, subset = name.partition("/")
        place = DATA / "STS" / f"{year}-en-test"
        golds = (place / f"STS.gs.{subset}.txt").read_text(encoding="utf-8").splitlines()
        texts = (place / f"STS.input.{subset}.txt").read_text(encoding="utf-8").splitlines()
        expected = [
            (*(" ".join(part.split()) for part in text.split("\t")[:2]), float(gold))
            for gold, text in zip(golds, texts, strict=True)
            if gold != ""
        ]
        assert [one[3:] for one in pairs if one.query_id == name] == expected


def test_every_pair_of_the_seven_sets_is_read(folder: Path) -> None:
    skipped = Counter[str]()
    pairs = sts.read_pairs(folder, STS_SETS, skipped)
    parts = [("test", f"{name}/{subset}") for name, subsets in SUBSETS.items() for subset in subsets]
    expected = [("dev", "STS-B"), *parts, ("test", "STS-B"), ("test", "SICK-R")]
    assert list(counts(pairs)) == expected
    assert counts(pairs) == dict.fromkeys(expected, PAIRS)
    unrated = PAIRS * sum(len(SUBSETS[name]) for name in UNRATED)
    assert skipped == {"pair without a gold similarity": unrated, "pair with licensed sentences": LICENSED}
    numbers = {"STS12/MSRpar": 0, "STS16/question-question": 41, "STS-B": 61, "SICK-R": 62}
    for name, number in numbers.items():
        found = [one for one in pairs if (one.split, one.query_id) == ("test", name)]
        rows = [pair(0 if name == "STS-B" and i < SHARED else number, i) for i in range(PAIRS)]
        if name == "STS-B":
            rows[SHARED - 1] = (*rows[SHARED - 1][1::-1], rows[SHARED - 1][2])
        assert [one[3:] for one in found] == [(first, second, float(gold)) for first, second, gold in rows]


def test_a_pair_is_named_by_its_line(folder: Path) -> None:
    pairs = sts.read_pairs(folder, STS_SETS)
    lines = {name: [one.document_id for one in pairs if one[:2] == ("test", name)] for name in STS_SETS}
    assert lines["STS-B"] == [str(i + 1) for i in range(PAIRS)]
    assert lines["SICK-R"] == [str(i + 2) for i in range(PAIRS)]  # below a header
    belief = [one.document_id for one in pairs if one.query_id == "STS15/belief"]
    assert belief == [str(2 * i + 1) for i in range(PAIRS)]  # an unrated pair between two


def test_sets_choose_the_test_split_alone(folder: Path) -> None:
    assert set(counts(sts.read_pairs(folder, ("SICK-R",)))) == {("dev", "STS-B"), ("test", "SICK-R")}
    assert {path.name for path in sts.find_pair_files(folder, ("SICK-R",))} == {
        "sts-dev.csv",
        "SICK_test_annotated.txt",
    }
    read = {path.relative_to(folder).as_posix() for path in sts.find_pair_files(folder, STS_SETS)}
    unread = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.is_file()} - read
    assert {Path(name).name for name in unread} == {"00-readme.txt", "STS.gs.ALL.txt", "STS.output.images.txt"}


@given(st.lists(st.tuples(words, words, st.floats(0, 5).map(lambda it: f"{it:.6f}") | st.sampled_from(["", " "]))))
def test_pairs_are_those_that_were_written(folder: Path, rows: list[tuple[str, str, str]]) -> None:
    rows = [*rows, ("one", "two", "3")]
    place = folder / "STS" / "STS13-en-test"
    (place / "STS.input.FNWN.txt").write_text("".join(f"{a}\t{b}\n" for a, b, _ in rows), encoding="utf-8", newline="")
    (place / "STS.gs.FNWN.txt").write_text("".join(f"{gold}\n" for _, _, gold in rows), encoding="utf-8")
    found = [one[2:] for one in sts.read_pairs(folder, ("STS13",)) if one.query_id == "STS13/FNWN"]
    assert found == [
        (str(line), " ".join(first.split()), " ".join(second.split()), float(gold))
        for line, (first, second, gold) in enumerate(rows, start=1)
        if gold.strip()
    ]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes().partition(b"\n")[2])


def change(old: str, new: str) -> Callable[[Path], None]:
    return lambda path: path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")


GOLD, INPUT = "STS/STS12-en-test/STS.gs.MSRvid.txt", "STS/STS12-en-test/STS.input.MSRvid.txt"
BENCHMARK, SICK = "STS/STSBenchmark/sts-test.csv", "SICK/SICK_test_annotated.txt"
TASK = "task.evaluation_path: {folder} has no {file}; expected a folder with STS and SICK in the layout of SentEval"
CASES: list[tuple[str, Callable[[Path], None], str]] = [
    *((name, Path.unlink, TASK) for name in (GOLD, INPUT, BENCHMARK, SICK, "STS/STSBenchmark/sts-dev.csv")),
    (GOLD, cut, "{folder}/{file}: 7 lines; expected 8, as in STS.input.MSRvid.txt"),
    (GOLD, change("1.750", "high"), "{folder}/{file}, line 2: gold similarity 'high'; expected a number"),
    (GOLD, lambda path: path.write_text("\n" * 8), "{folder}/{file}: no gold similarity; expected one or more"),
    (INPUT, cut, "{folder}/STS/STS12-en-test/STS.gs.MSRvid.txt: 8 lines; expected 7, as in STS.input.MSRvid.txt"),
    (INPUT, change("\t", " "), "{folder}/{file}, line 1: fields: 1; expected two sentences, tab-separated"),
    (INPUT, change("\t", "\t\t"), "{folder}/{file}, line 1: an empty sentence; expected text"),
    (BENCHMARK, change("\t", " "), "{folder}/{file}, line 1: fields: 6; expected at least 7, tab-separated"),
    (BENCHMARK, change("\t0.000\t", "\t\t"), ""),
    (SICK, change("sentence_A", "text"), "{folder}/{file}, line 1: header 'pair_ID, text, sentence_B, relatedness_"),
    (SICK, change("NEUTRAL", "NEUTRAL\tx"), "{folder}/{file}, line 2: fields: 6; expected 5, as in the header"),
    (SICK, change("\t1.750\t", "\t+\t"), "{folder}/{file}, line 3: gold similarity '+'; expected a number"),
]


@pytest.mark.parametrize(("file", "spoil", "message"), CASES)
def test_what_is_wrong_is_one_line(folder: Path, file: str, spoil: Callable[[Path], None], message: str) -> None:
    spoil(folder / file)
    if not message:  # a pair without gold is no error in any set
        assert counts(sts.read_pairs(folder, STS_SETS))["test", "STS-B"] == PAIRS - 1
        return
    with pytest.raises(UserError) as error:
        sts.read_pairs(folder, STS_SETS)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(message.format(folder=folder, file=file))


def test_an_unknown_set_and_an_absent_one_are_named(folder: Path) -> None:
    with pytest.raises(UserError, match=r"task\.sets: 'STS17'; expected some of STS12, STS13"):
        sts.read_pairs(folder, ("STS12", "STS17"))
    for path in (folder / "STS" / "STS14-en-test").iterdir():
        path.unlink()
    with pytest.raises(UserError, match=r"has no STS/STS14-en-test/STS\.gs\.\*\.txt; expected a folder"):
        sts.find_pair_files(folder, STS_SETS)
    with pytest.raises(UserError, match=r"has no STS/STSBenchmark/sts-dev\.csv; expected a folder"):
        sts.find_pair_files(folder / "nowhere", STS_SETS)
