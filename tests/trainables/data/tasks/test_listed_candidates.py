"""A study with candidates that a file lists takes their number, too."""

from pathlib import Path

import pytest

from study.config.loader import load_study
from tests.trainables.data.fixtures import WRITERS, write_lines
from trainables.data.ranking_preparation import prepare_data
from trainables.data.tasks import get_task
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

STUDY = """
name = "listed"
analysis.metric = "R3@1"
task.name = "dialogues"
training = {{ instances = 16, batch_size = 16, negatives = 1 }}
task.path = "{path}"
"""


GIVEN = ["task.sampler.name=given", "task.evaluation_sampler.name=given"]


def write_study(folder: Path, name: str = "dialogues") -> str:
    WRITERS[name](folder)
    (folder / "study.toml").write_text(STUDY.format(path=folder).replace('"dialogues"', f'"{name}"'))
    return str(folder / "study.toml")


def test_the_number_of_candidates_is_that_of_the_files(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    short = load_study(path, GIVEN)
    long = load_study(path, [*GIVEN, "task.candidates=3"])
    assert short.task.model_dump() == long.task.model_dump()
    assert short.task.candidates == 3
    assert short.task.train_negatives is None
    prepared = prepare_data(short.task, tmp_path / "cache")
    assert all(counts["back_filled"] == 0 for counts in prepared.read_metadata()["splits"].values())


def test_training_may_have_another_number(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    lines = (tmp_path / "train.tsv").read_text().splitlines()
    write_lines(tmp_path / "train.tsv", (line for i, line in enumerate(lines) if i % 3 < 2))
    task = load_study(path, GIVEN).task
    assert (task.candidates, task.train_negatives) == (3, 1)
    table = prepare_data(task, tmp_path / "cache").read_candidates("train")
    assert (table.groupby("query_id").size() == 2).all()


@pytest.mark.parametrize("split", ["train", "test"])
def test_different_numbers_are_named_and_a_number_of_the_users_goes(split: str, tmp_path: Path) -> None:
    path = write_study(tmp_path)
    with (tmp_path / f"{split}.tsv").open("a") as file:
        file.write("1\tOne more?\tYes.\n0\tOne more?\tNo.\n")
    with pytest.raises(UserError) as error:
        load_study(path, GIVEN)
    where, keys = (
        ("dev and test", "candidates") if split == "test" else ("train", "candidates and task.train_negatives")
    )
    numbers = "3 (8 x), 2 (1 x)" if split == "test" else "2 (16 x), 1 (1 x) responses of label 0"
    found = f"task.candidates: none, but the contexts of {where} list {numbers}"
    assert str(error.value) == f"{found}; expected one number for all, or task.{keys}"
    task = load_study(path, [*GIVEN, "task.candidates=3"]).task
    assert (task.candidates, task.sampler.name, task.evaluation_sampler.name) == (3, "given", "given")


def test_the_numbers_are_those_of_the_collection_itself(tmp_path: Path) -> None:
    given = WRITERS["dialogues"](tmp_path)
    lines = ["1\ta\tb\tx", "0\ta\tb\ty", "0\ta\tb\ty", "0\ta\tb\tx", "1\ta\t\tb\tz", "0\tnobody\ty", "1\tc\tx"]
    write_lines(tmp_path / "dev.tsv", lines)
    counts, collection = get_task("dialogues").count_candidates, get_task("dialogues").read_dataset(given)
    pairs = {
        split: [row[1:3] for row in (*collection.qrels, *collection.candidates) if row.split == split]
        for split in ("dev", "train")
    }
    assert sorted(counts(given)["dev"].elements()) == [1, 3]
    for split, rows in pairs.items():
        assert counts(given)[split].total() == len({query for query, _ in rows})
        n_listed = sum(number * times for number, times in counts(given)[split].items())
        assert n_listed == len(rows) - (split == "train") * sum(row.split == split for row in collection.qrels)


def test_other_tasks_and_other_samplers_keep_the_default(tmp_path: Path) -> None:
    metric = "analysis.metric=R10@1"
    for name, overrides in (("hard-negatives", GIVEN), ("dialogues", GIVEN[:1])):
        task = load_study(write_study(tmp_path / name, name), [*overrides, metric]).task
        assert isinstance(task, RankerTaskSettings)
        assert task.candidates == 10
