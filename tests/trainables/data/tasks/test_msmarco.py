"""MS MARCO and TREC Deep Learning under the names of their publication."""

from collections import Counter
from pathlib import Path

import pytest

from tests.trainables.data.fixtures import TOPICS, WRITERS, read, write_lines, write_trec_dl
from trainables.data.ranking_preparation import prepare_data
from trainables.data.tasks import Qrel
from trainables.specs.ranking_task import EvaluationSamplerSettings, RankerTaskSettings
from trainables.utils.errors import UserError

YEARS = (2019, 2020)
DATA = Path(__file__).parents[5] / "shared" / "data" / "trec-dl"


def with_listed(given: RankerTaskSettings) -> RankerTaskSettings:
    return given.model_copy(update={"evaluation_sampler": EvaluationSamplerSettings(name="given")})


@pytest.mark.parametrize("year", YEARS)
def test_the_test_split_is_that_of_trec_and_dev_is_not_halved(year: int, tmp_path: Path) -> None:
    given = write_trec_dl(tmp_path, year)
    collection = read(given)
    ids = {
        split: {row.query_id for row in collection.qrels if row.split == split} for split in ("train", "dev", "test")
    }
    assert ids == {
        "train": {str(i) for i in range(16)},
        "dev": {str(i) for i in range(16, 24)},
        "test": {str(i) for i in TOPICS},
    }
    assert Qrel("test", "41", "41", 3) in collection.qrels
    assert Qrel("test", "40", "50", 1) in collection.qrels
    assert collection.skipped["query that nothing is judged for"] == 1


def test_a_passage_of_grade_1_is_relevant_in_training_and_not_in_trecs_test(tmp_path: Path) -> None:
    made = prepare_data(write_trec_dl(tmp_path, 2019), tmp_path / "cache").read_candidates()
    relevant = made[made["relevant"] == 1]
    assert relevant.groupby("split").size().to_dict() == {"dev": 8, "test": 8, "train": 16}
    assert relevant[relevant["split"] == "test"]["grade"].isin([2, 3]).all()
    assert set(relevant[relevant["split"] != "test"]["grade"]) == {1}


@pytest.mark.parametrize("year", YEARS)
def test_official_candidates_are_read_where_the_sampler_is_given_and_nowhere_else(year: int, tmp_path: Path) -> None:
    given = write_trec_dl(tmp_path, year)
    assert not read(given).candidates
    collection = read(with_listed(given))
    numbers = Counter((row.split, row.query_id) for row in collection.candidates)
    assert set(numbers.values()) <= {3, 4}  # without the relevant one
    assert {name for split, name in numbers if split == "test"} == {str(i) for i in TOPICS}
    assert {name for split, name in numbers if split == "dev"} == {str(i) for i in range(16, 24)}
    assert collection.skipped["candidate of a query that nothing is judged for"] == 4
    assert all(collection.documents[row.document_id] != "Other spelling." for row in collection.candidates)
    listed = [row.document_id for row in collection.candidates if row.query_id == "47"]
    assert listed == [str(59 - (47 + k) % 9) for k in range(4) if 59 - (47 + k) % 9 != 47]
    prepare_data(with_listed(given), tmp_path / "cache")


def test_dev_and_test_of_a_halved_development_set_share_its_official_candidates(tmp_path: Path) -> None:
    write_trec_dl(tmp_path, 2019)
    given = with_listed(WRITERS["msmarco"](tmp_path))
    write_lines(tmp_path / "top1000.dev", (f"{i}\t{k}\tq\tp" for i in range(16, 24) for k in (38, 39)))
    found = Counter(row.split for row in read(given).candidates)
    assert found == {"dev": 8, "test": 8}


def test_the_small_development_set_is_read_where_there_is_no_other(tmp_path: Path) -> None:
    given = WRITERS["msmarco"](tmp_path)
    expected = read(given)
    for name in ("queries", "qrels"):
        (tmp_path / f"{name}.dev.tsv").rename(tmp_path / f"{name}.dev.small.tsv")
    assert repr(read(given)) == repr(expected)


@pytest.mark.parametrize("file", ["msmarco-test2019-queries.tsv", "2019qrels-pass.txt"])
def test_the_file_of_a_test_set_that_is_missing_is_named(file: str, tmp_path: Path) -> None:
    given = write_trec_dl(tmp_path, 2019)
    (tmp_path / file).unlink()
    with pytest.raises(UserError, match=rf"^task\.path: {tmp_path} has no {file} or .*; expected a folder with"):
        read(given)


def test_a_missing_file_of_candidates_is_named(tmp_path: Path) -> None:
    given = with_listed(write_trec_dl(tmp_path, 2020))
    (tmp_path / "msmarco-passagetest2020-top1000.tsv").unlink()
    with pytest.raises(UserError, match=r"has no msmarco-passagetest2020-top1000\.tsv; expected a folder with"):
        read(given)


def test_halves_of_the_development_set_leave_no_share(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read(WRITERS["msmarco"](tmp_path).model_copy(update={"dev_share": 0.1}))
    expected = "none, since dev and test are the halves of the development set; or the task trec-dl-2019"
    assert str(error.value) == f"task.dev_share: 0.1; expected {expected}"


@pytest.mark.parametrize(
    ("year", "counts", "relevant", "queries"), [("2019", 9260, 2501, 43), ("2020", 11386, 1666, 54)]
)
def test_trecs_own_qrels_and_topics(year: str, counts: int, relevant: int, queries: int, tmp_path: Path) -> None:
    if not DATA.exists():
        pytest.skip(f"{DATA} is absent")
    given = WRITERS["msmarco"](tmp_path)
    short = year[2:]
    names = [f"qrels.dl{short}-passage.txt", "topics.dl19-passage.txt" if short == "19" else "topics.dl20.txt"]
    for name in names:
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    passages = {line.split()[2] for line in (tmp_path / names[0]).read_text().splitlines()}
    with (tmp_path / "collection.tsv").open("a") as file:  # the passages themselves are not at hand
        file.writelines(f"{name}\tpassage {name}\n" for name in passages)
    collection = read(given.model_copy(update={"name": f"trec-dl-{year}"}))
    test = [row for row in collection.qrels if row.split == "test"]
    assert len(test) == counts
    assert sum(row.grade >= 2 for row in test) == relevant
    assert len({row.query_id for row in test}) == queries
    assert not set(collection.skipped) - {"document that is not needed", "query that nothing is judged for"}
