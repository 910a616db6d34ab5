"""A study that continues the ranker of another one, and compares it with what it was before."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from sentence_transformers import CrossEncoder
from transformers import AutoTokenizer

from analysis.readers.study_reader import read_records
from analysis.tables.main import ReportData, build_report_data
from records.run_record import get_scores_path
from study.config.schema import Study
from study.models.chosen import list_chosen_runs, select_run
from study.models.model_export import _export_runs
from study.plan.analysis_plan import register_plan
from study.scheduling.study_scheduler import StudyScheduler
from tests.study.small import SETTINGS, conduct, scheduler, study
from tests.trainables.deaths import kill_after_each_batch
from tests.trainables.small import BATCH_SIZE, BATCHES, TRAINING, Fresh, World, finish, job
from trainables.rankers.ranker_data import check_data
from trainables.rankers.ranker_export import _read_texts
from trainables.specs.trial import TrialSpec
from trainables.utils.errors import UserError

HEAD = {"max_length": 64, "pooling": "cls"}
LONGER = {**SETTINGS["training"], "instances": 10 * BATCH_SIZE}


class Continued(NamedTuple):
    first: Study
    run: str
    model: Path
    second: Study
    begun: StudyScheduler
    report: ReportData


def conduct_study(world: World, made: Study) -> tuple[StudyScheduler, ReportData]:
    begun = scheduler(world, made)
    register_plan(made, begun.resolved.model_digest, made.folder)
    conduct(begun)
    return begun, build_report_data(read_records(made.folder))


@pytest.fixture(scope="module")
def continued(world: World, tmp_path_factory: pytest.TempPathFactory) -> Continued:
    place = tmp_path_factory.mktemp("continued")
    cache = world.fresh_cache(place / "cache")
    changes = {"variants": ["BERT", "LS"], "search": {"epsilon": [0.2], "n_configurations": {"LS": 1}}}
    first = study(world, place / "first", cache, **changes, model={"name": str(world.bert), **HEAD})
    _, report = conduct_study(world, first)
    run = select_run(first, list_chosen_runs(first, report, "LS"), None)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(world.cache.parent / "site")
        _export_runs(first, report, [run], place / "model", "", lambda line: None)
    model = {"name": str(place / "model"), "max_length": 64, "pooling": "saved"}
    changes |= {"model": model, "training": LONGER, "analysis": {"metric": "MAP", "comparisons": [["LS", "before"]]}}
    second = study(world, place / "second", cache, **changes)
    return Continued(first, run.specification.id, place / "model", second, *conduct_study(world, second))


def read_scores(made: Study, run: str, split: str = "test") -> pd.DataFrame:
    return pd.read_parquet(get_scores_path(made.folder, run, split))


def test_before_is_the_exported_ranker(world: World, continued: Continued) -> None:
    """Its one run has the scores that the first study recorded, and those of the library on the same pairs."""
    (before,) = (item for item in continued.begun.configurations if item.name == "before")
    (run,) = before.runs
    assert (run.seed, run.training.instances) == (None, 0)
    assert run.model.name == continued.begun.resolved.model_digest
    found, recorded = read_scores(continued.second, run.id), read_scores(continued.first, continued.run)
    assert found["document_id"].tolist() == recorded["document_id"].tolist()
    np.testing.assert_allclose(found["score"], recorded["score"], rtol=0, atol=1e-6)
    library = CrossEncoder(str(continued.model), device="cpu")
    pairs = _read_texts(world.prepared, world.prepared.read_candidates("test"))
    is_whole = np.array([len(library.tokenizer(*pair)["input_ids"]) <= 64 for pair in pairs])
    np.testing.assert_allclose(found["score"][is_whole], library.predict(pairs)[is_whole], rtol=0, atol=1e-6)
    assert is_whole.sum() > 5


def test_after_is_compared_with_before(continued: Continued) -> None:
    found = {(c.system, c.baseline): c for c in continued.report.comparisons}
    assert [pair for pair in found if "before" in pair] == [("LS", "before"), ("BERT", "before")]
    for comparison in found.values():
        both = comparison.targets["both"]
        assert both.low <= comparison.difference <= both.high
        assert comparison.target == "both"
        assert comparison.verdict
    assert continued.report.results.plan.families[0].comparisons == (("LS", "BERT"), ("LS", "before"))


def test_training_begins_with_the_saved_head_and_changes_it(world: World, continued: Continued) -> None:
    trained = [run for item in continued.begun.configurations if item.name == "BERT" for run in item.runs]
    (before,) = (item.runs[0] for item in continued.begun.configurations if item.name == "before")
    scores = [read_scores(continued.second, run.id)["score"] for run in (before, *trained)]
    assert len({hash(tuple(own)) for own in scores}) == 3


def test_a_killed_run_ends_with_the_same_bits(world: World, continued: Continued, fresh: Fresh) -> None:
    settings = {"pooling": "saved", "max_length": 64}

    def make() -> TrialSpec:
        return job(world, fresh(), model=settings, path=continued.model, fork_points=(), interval=0.0)

    whole = finish(make())
    assert kill_after_each_batch(make, whole, TRAINING["instances"]) == BATCHES - 1


def test_a_tokenizer_with_unknown_tokens_is_an_error(world: World, continued: Continued, tmp_path: Path) -> None:
    path = Path(shutil.copytree(continued.model, tmp_path / "model"))
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.add_tokens(["unheard"])
    tokenizer.save_pretrained(path)
    check_data(continued.second, world.prepared)
    model = continued.second.model.model_copy(update={"name": str(path)})
    with pytest.raises(UserError, match=r"model\.name: 'model' knows 30522 tokens, and its tokenizer has 30523; "):
        check_data(continued.second.model_copy(update={"model": model}), world.prepared)
