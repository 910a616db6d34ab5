"""Every kind of task is trained on as soon as its name and path are given; what cannot work is said before."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from study import record
from study.campaign import Campaign
from study.configuration import Resolved
from study.housekeeping import clean
from study.ledger import Ledger
from study.preparation import summarise
from study.settings import Study, study_type
from tests.study.small import SETTINGS, conduct
from tests.trainables.data.fixtures import WRITERS
from tests.trainables.small import World
from trainables import environment, weights
from trainables.data.prepared import prepare
from trainables.errors import UserError
from trainables.ranking_data import check, described
from trainables.specification import TaskSettings

NAMES = ["beir", "dialogues", "hard-negatives", "msmarco", "qqp"]


def study(world: World, place: Path, task: TaskSettings, **changes: Any) -> Study:
    made = {
        **SETTINGS,
        "seeds": [1],
        "variants": ["BERT", "T-WSLS"],
        "search": {"trials": {"T-WSLS": 1}},
        "training": {**SETTINGS["training"], "evaluations": 1},
        "analysis": {"metric": "R4@1"},
        "task": task.model_dump(),
        "model": {"name": str(world.bert), "max_length": 32},
        "output": {"folder": str(place / "results")},
        "cache": {"folder": str(place / "cache")},
    }
    return study_type().model_validate(made | changes)


@pytest.mark.parametrize("name", NAMES)
def test_a_study_runs_on_every_kind_of_task(world: World, tmp_path: Path, name: str) -> None:
    given = study(world, tmp_path, WRITERS[name](tmp_path / "data"))
    prepared = prepare(given.task, given.cache)
    check(given, prepared)
    made = given.model_copy(update={"task": prepared.settings})
    resolved = Resolved(prepared.fingerprint, weights.files_digest(world.bert), world.bert, environment.current())
    begun = Campaign(made, resolved, Ledger(made.folder), "plan-hash")
    conduct(begun)
    chosen = begun.chosen()
    assert set(chosen) == {"BERT", "T-WSLS", "BM25", "untrained"}
    for configuration in chosen.values():
        for run in configuration.runs:
            entry = record.read(made.folder, run.id, "test")
            assert entry is not None
            assert 0 <= entry["summary"]["test/R4@1"] <= 1
    texts = [path.read_text() for path in made.folder.rglob("*.json")]
    assert texts
    assert not any(str(tmp_path) in text for text in texts)


def test_frozen_layers_and_added_tokens_go_together(world: World, tmp_path: Path) -> None:
    from trainables.cross_encoder import CrossEncoder, tokenizer
    from trainables.data import task
    from trainables.specification import ModelSettings

    size = len(tokenizer(world.bert, task("dialogues").added_tokens))
    first, second = (CrossEncoder(world.bert, ModelSettings(frozen_layers=1), seed, size) for seed in (1, 2))
    plain = CrossEncoder(world.bert, ModelSettings(frozen_layers=1), 1)
    assert first.lower is not None
    assert second.lower is not None
    assert plain.lower is not None
    rows = [model.lower[0].word_embeddings.weight for model in (first, second, plain)]  # type: ignore[index, union-attr]
    assert len(rows[0]) == len(rows[2]) + 2
    assert rows[0].equal(rows[1])  # whatever the seed
    assert rows[0][:-2].equal(rows[2])
    assert not rows[0][-1].equal(rows[0][-2])
    assert first.head.weight.equal(plain.head.weight)  # no other draw is moved


def test_what_a_report_tells_of_the_data(world: World) -> None:
    told = described(world.prepared)
    labels = world.prepared.candidates("train").query("relevant == 0")["weak_label"]
    assert told["weak_labels"]["mean"] == pytest.approx(labels.mean(), abs=1e-6)
    assert sum(told["weak_labels"]["shares"]) == pytest.approx(1, abs=1e-4)
    assert told["weak_labels"]["shares"][0] == pytest.approx(np.mean(labels < 0.05), abs=1e-6)
    assert told["splits"]["dev"]["queries"] == world.prepared.candidates("dev")["query_id"].nunique()


def test_a_preparation_that_nobody_takes_up_is_removed_after_a_week(world: World, tmp_path: Path) -> None:
    given = study(world, tmp_path, WRITERS["qqp"](tmp_path / "data"))
    old, recent = (given.cache / "preparing" / name for name in ("old", "recent"))
    for work in (old, recent):
        (work / "train-bm25").mkdir(parents=True)
    week = time.time() - 8 * 24 * 3600
    os.utime(old, (week, week))
    clean(given)
    assert not old.exists()
    assert recent.exists()


def test_too_few_negatives_and_missing_weak_labels_are_refused(world: World, tmp_path: Path) -> None:
    lines = [f"{label}\tcontext {i}\tresponse {label} {i}" for i in range(16) for label in (1, 0)]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(
            "\n".join([*lines, "1\tcontext 0\tanother one", "1\tcontext 0\ta third"])
        )
    settings = {"name": "dialogues", "path": str(tmp_path), "candidates": 4, "sampler": {"name": "given"}}
    task = TaskSettings.model_validate(settings)
    with pytest.raises(UserError, match=r"training\.negatives: 3; expected at most 1: a query has that many"):
        check(study(world, tmp_path, task), prepare(task, tmp_path / "cache"))
    one = {**SETTINGS["training"], "negatives": 1}
    prepared = prepare(task, tmp_path / "cache")
    with pytest.raises(UserError, match=r"task\.sampler\.weak_label: 'score', but \d+ candidates have no score.*WSLS"):
        check(study(world, tmp_path, task, training=one), prepared)
    check(study(world, tmp_path, task, training=one, variants=["BERT", "LS"]), prepared)


def test_a_summary_of_the_data(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summarise(study(world, tmp_path, WRITERS["qqp"](tmp_path / "data")))
    said = capsys.readouterr().out
    for part in (
        "task qqp, fingerprint ",
        "skipped: ",
        "train ",
        "BM25 R4@1",
        "words of queries: ",
        "tokens of a pair: ",
    ):
        assert part in said
