"""Every kind of task is trained on as soon as its name and path are given; what cannot work is said before."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from records import run_record as record
from study.config.loader import load_study
from study.config.schema import Study
from study.config.study_class import get_study_class
from study.folder.run_store import RunStore
from study.plan.analysis_plan import build_plan
from study.scheduling.study_scheduler import StudyScheduler
from study.scheduling.trials import ResolvedInputs
from study.wandb_sweeps.run_configuration import run_configuration
from study.workflows.cleanup import clean_up_study
from study.workflows.dry_run import build_preview
from study.workflows.prepare_data import prepare_study_data
from tests.study.command import call, light
from tests.study.small import SETTINGS, conduct
from tests.trainables.data.fixtures import WRITERS, write_objects
from tests.trainables.small import World
from trainables.data.ranking_preparation import find_prepared_data, prepare_data
from trainables.data.ranking_tokens import get_pair_tokens_folder
from trainables.data.ranking_tokens import load_pair_tokens as load_tokens
from trainables.metrics import RERANKING_NOTE
from trainables.models import pretrained as weights
from trainables.rankers.ranker_data import check_data, describe_data, load_statistics
from trainables.specs import environment
from trainables.specs.ranking_task import RankerTaskSettings, SamplerSettings
from trainables.utils.errors import UserError
from trainables.utils.hashing import hash_json

KINDS = [
    *("beir", "dialogues"),
    *(pytest.param(name, marks=pytest.mark.long) for name in ("hard-negatives", "msmarco", "qqp")),
]


def study(world: World, place: Path, task: RankerTaskSettings, **changes: Any) -> Study:
    made = {
        **SETTINGS,
        "seeds": [1],
        "variants": ["BERT", "T-WSLS"],
        "search": {"n_configurations": {"T-WSLS": 1}},
        "training": {**SETTINGS["training"], "evaluations": 1},
        "analysis": {"metric": "R4@1"},
        "task": task.model_dump(),
        "model": {"name": str(world.bert), "max_length": 32},
        "output": {"folder": str(place / "results")},
        "cache": {"folder": str(place / "cache")},
    }
    return get_study_class().model_validate(made | changes)


@pytest.mark.parametrize("name", KINDS)
def test_a_study_runs_on_every_kind_of_task(world, tmp_path, name):
    given = study(world, tmp_path, WRITERS[name](tmp_path / "data"))
    prepared = prepare_data(given.task, given.cache_folder)
    check_data(given, prepared)
    made = given.model_copy(update={"task": prepared.settings})
    resolved = ResolvedInputs(
        prepared.fingerprint, weights.hash_model_files(world.bert), world.bert, environment.detect_environment()
    )
    begun = StudyScheduler(made, resolved, RunStore(made.folder), "plan-hash")
    conduct(begun)
    chosen = begun.select_winners()
    assert set(chosen) == {"BERT", "T-WSLS", "BM25", "cosine"}
    for configuration in chosen.values():
        for run in configuration.runs:
            entry = record.read_run_record(made.folder, run.id, "test")
            assert 0 <= entry["summary"]["test/R4@1"] <= 1
            if run.seed is not None:
                texts = load_tokens(
                    get_pair_tokens_folder(prepared, run.model.name, run.model.max_length, given.cache_folder)
                )
                own = record.read_run_record(made.folder, run.id)
                assert (own["summary"]["texts"], own["summary"]["texts_truncated"]) == (len(texts), texts.n_truncated)
    texts = [path.read_text() for path in made.folder.rglob("*.json")]
    assert texts
    assert not any(str(tmp_path) in text for text in texts)


def test_frozen_layers_and_added_tokens_go_together(world, tmp_path):
    from trainables.data.tasks import get_task
    from trainables.models.cross_encoder import CrossEncoder
    from trainables.models.pretrained import load_tokenizer
    from trainables.specs.ranker import RankerModelSettings

    size = len(load_tokenizer(world.bert, get_task("dialogues").added_tokens))
    first, second = (CrossEncoder(world.bert, RankerModelSettings(frozen_layers=1), seed, size) for seed in (1, 2))
    plain = CrossEncoder(world.bert, RankerModelSettings(frozen_layers=1), 1)
    assert first.lower is not None
    assert second.lower is not None
    assert plain.lower is not None
    rows = [model.lower[0].word_embeddings.weight for model in (first, second, plain)]
    assert len(rows[0]) == len(rows[2]) + 2
    assert rows[0].equal(rows[1])  # with any seed
    assert rows[0][:-2].equal(rows[2])
    assert not rows[0][-1].equal(rows[0][-2])
    assert first.head.weight.equal(plain.head.weight)  # no other draw is moved


def test_what_a_report_tells_of_the_data(world):
    told = describe_data(world.prepared)
    labels = world.prepared.read_candidates("train").query("relevant == 0")["weak_label"]
    assert told["weak_labels"]["mean"] == pytest.approx(labels.mean(), abs=1e-6)
    assert sum(told["weak_labels"]["shares"]) == pytest.approx(1, abs=1e-4)
    assert told["weak_labels"]["shares"][0] == pytest.approx(np.mean(labels < 0.05), abs=1e-6)
    assert told["splits"]["dev"]["queries"] == world.prepared.read_candidates("dev")["query_id"].nunique()


def test_the_statistics_are_shown_by_prepare_and_change_no_plan(world, tmp_path, capsys):
    given = study(world, tmp_path, WRITERS["dialogues"](tmp_path / "data"))
    prepared = prepare_data(given.task, given.cache_folder)
    before = build_plan(given, "sha256:0", describe_data(prepared))
    prepare_study_data(given)
    shown = capsys.readouterr().out
    for row in load_statistics(prepared)["rows"]:
        assert re.search(rf"^  {row['name']}  +{row['values'][0]:,.{row['decimals']}f} ", shown, re.MULTILINE), row
    assert "Words are separated by white space" in shown
    assert (prepared.folder / "statistics.json").is_file()
    assert build_plan(given, "sha256:0", describe_data(prepare_data(given.task, given.cache_folder))) == before


def test_a_preparation_that_nobody_takes_up_is_removed_after_a_week(world, tmp_path):
    given = study(world, tmp_path, WRITERS["qqp"](tmp_path / "data"))
    old, recent, mine = (
        given.cache_folder / "preparing" / name for name in (hash_json("old"), hash_json("recent"), "mine")
    )
    for work in (old, recent, mine):
        (work / "train-bm25").mkdir(parents=True)
    week = time.time() - 8 * 24 * 3600
    for work in (old, mine):
        os.utime(work, (week, week))
    clean_up_study(given)
    assert sorted(path.name for path in old.parent.iterdir()) == sorted([recent.name, "mine"])


def write_same_dialogues(folder: Path) -> RankerTaskSettings:
    """The same dialogues in every split, one with three relevant responses, without scores."""
    lines = [f"{label}\tcontext {i}\tresponse {label} {i}" for i in range(16) for label in (1, 0)]
    for split in ("train", "dev", "test"):
        (folder / f"{split}.tsv").write_text("\n".join([*lines, "1\tcontext 0\tanother one", "1\tcontext 0\ta third"]))
    settings = {"name": "dialogues", "path": str(folder), "candidates": 4, "sampler": {"name": "given"}}
    return RankerTaskSettings.model_validate(settings | {"allowed_overlap": 1})


def test_missing_weak_labels_are_an_error_and_several_relevant_documents_are_not(world, tmp_path):
    task = write_same_dialogues(tmp_path)
    prepared = prepare_data(task, tmp_path / "cache")
    counts = prepared.read_candidates("train").groupby("query_id")["relevant"].agg(["sum", "size"])
    assert counts["sum"].max() == 3
    assert (counts["size"] - counts["sum"] == 3).all()
    with pytest.raises(UserError, match=r"task\.sampler\.weak_label: 'score', but \d+ candidates have no score.*WSLS"):
        check_data(study(world, tmp_path, task), prepared)
    plain = study(world, tmp_path, task, variants=["BERT", "LS"])
    check_data(plain, prepared)
    build_preview(plain)


def test_a_relevant_document_that_may_be_hidden_needs_a_score_where_weak_labels_do(world, tmp_path):
    """A hard negative has a score in the file, a relevant document has none."""
    task = WRITERS["hard-negatives"](tmp_path / "data")
    values = [json.loads(line) for line in (tmp_path / "data" / "hard-negatives.jsonl").read_text().splitlines()]
    for value in values:
        value["neg"] = {"bm25": [{"pid": "39", "bm25-score": 4.5}, {"pid": "38", "bm25-score": 1.5}]}
    write_objects(tmp_path / "data" / "hard-negatives.jsonl", values)
    one = {**SETTINGS["training"], "negatives": 1}
    sampler, noise = {"name": "given"}, {"label_noise": 0.25}

    def check(variants: list[str], sampler: dict[str, str], noise: dict[str, float]) -> None:
        own = RankerTaskSettings.model_validate({**task.model_dump(), "sampler": sampler, **noise})
        made = study(world, tmp_path, own, training=one, variants=variants)
        check_data(made, prepare_data(own, made.cache_folder))

    with pytest.raises(UserError) as error:
        check(["BERT", "WSLS"], sampler, noise)
    train = prepare_data(task.model_copy(update={"sampler": SamplerSettings(name="given")}), tmp_path / "cache")
    count = int(train.read_candidates("train")["relevant"].sum())
    assert str(error.value) == (
        f"task.label_noise: 0.25, but {count} relevant training documents have no score; expected 0, or "
        'task.sampler.weak_label = "bm25" or "uniform" for WSLS'
    )
    check(["BERT", "WSLS"], sampler, {})
    check(["BERT", "LS"], sampler, noise)
    for weak_label in ("bm25", "uniform"):
        check(["BERT", "WSLS"], {**sampler, "weak_label": weak_label}, noise)
    check(["BERT", "WSLS"], {"name": "bm25"}, noise)


def test_label_noise_is_shown_before_anything_runs(world, tmp_path, capsys):
    task = WRITERS["qqp"](tmp_path / "data")
    lines = []
    for noise in ({}, {"label_noise": 0.2}, {"label_noise": 0.1, "label_noise_kind": "flipped"}):
        made = study(world, tmp_path, task.model_copy(update=noise))
        prepare_study_data(made)
        prepared = capsys.readouterr().out
        print(build_preview(made))
        shown = [
            [line for line in out.splitlines() if line.startswith("label noise")]
            for out in (prepared, capsys.readouterr().out)
        ]
        assert shown[0] == shown[1]
        lines.append(shown[0])
    assert lines == [
        [],
        ["label noise: 20 % of the relevant training documents count as not relevant; dev and test labels are true"],
        ["label noise: 10 % of the labels of the training candidates are flipped; dev and test labels are true"],
    ]


def test_a_study_with_label_noise_shares_data_and_references_with_one_without(world, tmp_path):
    """And its runs say what they were trained with, which is how W&B groups them."""
    clean, task = {}, WRITERS["qqp"](tmp_path / "data")
    for place, noise in (("clean", {}), ("noisy", {"label_noise": 0.4, "label_noise_kind": "flipped"})):
        given = study(world, tmp_path, task.model_copy(update=noise), output={"folder": str(tmp_path / place)})
        prepared = prepare_data(given.task, given.cache_folder)
        resolved = ResolvedInputs(
            prepared.fingerprint, weights.hash_model_files(world.bert), world.bert, environment.detect_environment()
        )
        made = given.model_copy(update={"task": prepared.settings})
        begun = StudyScheduler(made, resolved, RunStore(made.folder), "plan-hash")
        conduct(begun)
        found = {}
        for name, configuration in begun.select_winners().items():
            entry = record.read_run_record(made.folder, configuration.runs[0].id, "test")
            assert entry["config"]["specification"]["task"].items() >= noise.items()
            scores = pd.read_parquet(made.folder / "runs" / configuration.runs[0].id / "test_scores.parquet")
            found[name] = configuration.runs[0].id, scores["score"].tolist()
        clean = clean or found
    assert len(list((tmp_path / "cache" / "prepared").glob("*/meta.json"))) == 1
    assert found.keys() == clean.keys() == {"BERT", "T-WSLS", "BM25", "cosine"}
    for name in found:
        assert found[name][0] != clean[name][0]
        assert (found[name][1] == clean[name][1]) == (name in ("BM25", "cosine"))


def write_overlapping(folder: Path) -> RankerTaskSettings:
    """The tiny BEIR collection; of five test queries one is a training query, two have the texts of such."""
    task = WRITERS["beir"](folder)
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    for place in (20, 21):
        rows[place]["text"] = f" {rows[place - 20]['text'].upper()}\n"
    write_objects(folder / "queries.jsonl", rows)
    with (folder / "qrels" / "test.tsv").open("a") as stream:
        stream.write("q3\td3\t1\n")
    return task


def test_queries_of_several_splits_are_an_error_unless_the_study_allows_them(world, tmp_path, capsys):
    task = write_overlapping(tmp_path / "data")
    refused, allowing = study(world, tmp_path, task), task.model_copy(update={"allowed_overlap": 0.6})
    allowed = study(world, tmp_path, allowing)
    said = "3 of 5 test queries (60 %) are training queries too (1 by id, 3 by text)"
    with pytest.raises(UserError) as error:
        prepare_study_data(refused)
    assert str(error.value) == (
        f"task.allowed_overlap: 0.01, but {said}; expected splits that share no queries, "
        "or task.allowed_overlap=0.6 to continue anyway"
    )
    with pytest.raises(UserError, match=r"task\.allowed_overlap: 0\.01, but 3 of 5"):
        build_preview(refused)
    capsys.readouterr()
    prepare_study_data(allowed)
    assert said in capsys.readouterr().out.splitlines()
    print(build_preview(allowed))
    assert said in capsys.readouterr().out.splitlines()
    row = {"split": "test", "other": "train", "unit": "queries", "of": 5, "texts": 3, "ids": 1}
    prepared = prepare_data(task, allowed.cache_folder)
    assert describe_data(prepared)["overlaps"] == build_preview(allowed)["overlaps"] == [row]
    (prepared.folder / "overlaps.json").unlink()  # as where data were prepared before there was such a file
    with pytest.raises(UserError, match="3 of 5"):
        check_data(refused, prepared)
    disjoint = prepare_data(WRITERS["beir"](tmp_path / "disjoint"), allowed.cache_folder)
    assert "overlaps" not in describe_data(disjoint)  # its plans keep their hash


def test_what_a_study_allows_is_no_part_of_its_data_or_runs(tmp_path):
    task = WRITERS["beir"](tmp_path)
    allowing = task.model_copy(update={"allowed_overlap": 0.5})
    first, second = prepare_data(task, tmp_path / "one"), prepare_data(allowing, tmp_path / "other")
    assert first.fingerprint == second.fingerprint
    assert first.settings == second.settings


def test_a_swept_configuration_may_overlap_as_its_study_may(world, tmp_path):
    """It is an error for its own weak labels only."""
    allowed = study(
        world, tmp_path, write_same_dialogues(tmp_path), training={**SETTINGS["training"], "evaluations": 1}
    )
    with pytest.raises(UserError, match=r"task\.sampler\.weak_label: 'score', but \d+ candidates have no score.*WSLS"):
        run_configuration(allowed, {"variant": "T-WSLS", "epsilon": "0.2", "switch": "0.5"})


def test_a_plan_on_prepared_data_loads_nothing_heavy_and_refuses_in_one_line(tmp_path):
    task = write_overlapping(tmp_path / "data")
    settings = ["task.name=beir", f"task.path={task.path}", "task.candidates=4", "analysis.metric=R4@1"]
    settings += ["training.negatives=3", f"output.folder={tmp_path / 'out'}", f"cache.folder={tmp_path / 'cache'}"]
    given = load_study("quick", settings)
    prepare_data(given.task, given.cache_folder)
    allowed = light(tmp_path, "quick", *settings, "task.allowed_overlap=0.6", "--dry-run")
    assert allowed.returncode == 0, allowed.stderr
    assert "3 of 5 test queries (60 %) are training queries too" in allowed.stdout
    refused = call("study.run", tmp_path, "quick", *settings, "--dry-run")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("study.run: task.allowed_overlap: 0.01, but 3 of 5 test queries (60 %)")
    assert refused.stderr.count("\n") == 1


def test_queries_that_are_named_again_are_counted_and_change_no_fingerprint(tmp_path):
    task, path = WRITERS["beir"](tmp_path), tmp_path / "queries.jsonl"
    first = prepare_data(task, tmp_path / "cache")
    path.write_text(path.read_text() + "".join(path.read_text().splitlines(keepends=True)[:2]))
    again = prepare_data(task, tmp_path / "cache")
    assert (first.repeated, again.repeated, again.fingerprint) == (0, 2, first.fingerprint)
    assert find_prepared_data(task, tmp_path / "cache") == again
    assert describe_data(again) == describe_data(first) | {"repeated": 2}
    assert "repeated" not in describe_data(first)


@pytest.mark.parametrize("name", ["dialogues", "hard-negatives"])
def test_rows_of_a_query_with_several_relevant_documents_are_counted(name, tmp_path):
    task = WRITERS[name](tmp_path)
    path = tmp_path / {"dialogues": "train.tsv", "hard-negatives": "hard-negatives.jsonl"}[name]
    first, *_, last = path.read_text().splitlines()
    if name == "dialogues":
        more = "\t".join([*first.split("\t")[:-1], "Another answer."])
    else:
        more = json.dumps(json.loads(first) | {"pos": json.loads(last)["pos"]})
    before = prepare_data(task, tmp_path / "before").repeated
    path.write_text(f"{path.read_text()}{more}\n")
    assert (before, prepare_data(task, tmp_path / "after").repeated) == (0, 1)


def test_a_summary_of_the_data(world, tmp_path, capsys):
    prepare_study_data(study(world, tmp_path, WRITERS["qqp"](tmp_path / "data")))
    said = capsys.readouterr().out
    for part in (
        "task qqp, fingerprint ",
        "skipped: ",
        "train ",
        "BM25 R4@1",
        f"\n{RERANKING_NOTE}\n",
        "words of queries: ",
        "tokens of a pair: ",
    ):
        assert part in said
    cut = re.search(r"(\d+) of (\d+) pairs \((\d+\.\d) %\) lose text to model\.max_length = 32\n", said)
    assert float(cut[3]) == pytest.approx(100 * int(cut[1]) / int(cut[2]), abs=0.05)
