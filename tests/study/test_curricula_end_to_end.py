"""Curricula through the real command line: real weights, real docstrings, Ray, W&B files, the report; then again."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis.data.study_results import per_query
from analysis.readers.study_reader import read_records, read_wandb_files
from tests.study.command import finish

CHANGES = (
    'variants=["BERT"]',
    'curriculum.variants=["BERT"]',
    'curriculum.compare="score"',
    'curriculum.score=["random", "words_responses", "BERT_loss"]',
    "curriculum.scorer_epochs=2",
    "training.sampling=uniform",
    "training.checkpoint=MAP",
    "training.evaluations=4",
    "task.dev_queries=90",
    "search.n_configurations={}",
    "analysis.metric=MAP",
)
SYSTEMS = ["BERT", "CL-random", "CL-words_responses", "CL-BERT_loss"]

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curricula")
    finish(folder, *CHANGES)
    return folder


def test_every_curriculum_is_a_system_of_the_report(place):
    report = place / "study" / "report"
    found = pd.read_csv(report / "results.csv")
    tested = found[found["split"] == "test"]
    assert {*SYSTEMS, "BM25", "cosine"} == set(tested["system"])
    assert (tested[tested["system"].isin(SYSTEMS)].groupby("system")["seed"].nunique() == 2).all()
    compared = {
        (row["system"], row["baseline"]) for row in json.loads((report / "comparisons.json").read_text("utf-8"))
    }
    assert {(name, "BERT") for name in SYSTEMS[1:]} | {(name, "CL-random") for name in SYSTEMS[2:]} <= compared
    page = (report / "report.html").read_text("utf-8")
    for text in ("CL-BERT_loss", "difficulty (BERT_loss)", "66-100 %", "root_2"):
        assert text in page
    assert (report / "strata.png").is_file()


def test_wandbs_files_give_the_same_as_the_records(place):
    told, recorded = read_wandb_files(place / "study" / "wandb"), read_records(place / "study")
    assert not told.unfinished
    assert told.queries is not None
    assert recorded.queries is not None
    pd.testing.assert_frame_equal(told.queries, recorded.queries)
    pd.testing.assert_frame_equal(per_query(told, "test", "MAP"), per_query(recorded, "test", "MAP"))


def test_development_queries_that_a_scorer_of_another_seed_finds_difficult_are_ranked_worse(place):
    queries = pd.read_parquet(place / "study" / "queries.parquet").query("split == 'dev'").set_index("query_id")
    results = read_records(place / "study")
    values = per_query(results, "dev", "MAP")
    scorers = {run.config["seed"] for run in results.runs if run.config.get("role") == "scorer"}
    rankers = set(values.loc[values["system"].isin(SYSTEMS[1:]), "seed"])
    assert scorers == {0}
    assert not scorers & rankers
    for system in SYSTEMS[1:]:
        own = values[values["system"] == system].groupby("query_id")["value"].mean()
        order = queries["difficulty/BERT_loss"].sort_values(kind="stable").index
        first, middle, last = (own[part].mean() for part in np.array_split(order, 3))
        assert first > last, system
        assert first - last > 0.1  # of some .5: no matter of chance over 30 queries a tercile
        assert first >= middle - 0.05
