"""A study that a server lacks a part of says how much; a complete one says nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.data.results import Results
from analysis.data.run import Run
from analysis.readers.missing_runs import count_missing_runs
from analysis.readers.results import read_records
from analysis.rendering.notes import collect_notes
from analysis.tables.main import build_report_data
from tests.analysis.builders import plan_of, study_runs, write_records
from tests.analysis.searching import searched


@pytest.fixture
def plain(tmp_path: Path) -> Results:
    runs = study_runs(seeds=(1, 2), grid=False)
    write_records(tmp_path / "plain", plan_of(runs, seeds=[1, 2]), runs)
    return read_records(tmp_path / "plain")


@pytest.fixture
def confirmed(tmp_path: Path) -> Results:
    """A study with a search, a race, a failed proposal and fresh seeds."""
    made = searched(dropped=(3, 4), failed=(5,))
    write_records(tmp_path / "confirmed", made.plan, made.runs, made.search)
    return read_records(tmp_path / "confirmed")


def _lacking(results: Results, lacks: Callable[[Run], bool]) -> str:
    return count_missing_runs(replace(results, runs=[run for run in results.runs if not lacks(run)])).describe()


def _is(variant: str, seed: int | None = None) -> Callable[[Run], bool]:
    return lambda run: run.config["variant"] == variant and seed in (None, run.seed)


def test_a_complete_study_lacks_nothing(plain: Results, confirmed: Results) -> None:
    assert count_missing_runs(plain).describe() == count_missing_runs(confirmed).describe() == ""


def test_each_kind_is_counted(plain: Results, confirmed: Results) -> None:
    assert _lacking(plain, _is("LS", 2)) == "1 missing"
    assert _lacking(plain, lambda run: _is("BM25")(run) or _is("LS")(run)) == "all of LS, all of BM25"
    assert _lacking(confirmed, _is("BERT", 11)) == "1 missing"
    number = sum(run.config["variant"] == "LS" for run in confirmed.runs)
    fresh = sum(run.config["variant"] == "LS" and run.seed in (11, 12) for run in confirmed.runs)
    assert _lacking(confirmed, _is("LS")) == f"{number - fresh} missing"  # as far as the search log names them
    first, *others = plain.runs
    assert count_missing_runs(replace(plain, runs=others, unfinished=[first])).describe() == "1 unfinished"
    bare = replace(first, files={"dev": first.files["dev"]})
    assert count_missing_runs(replace(plain, runs=[bare, *others])).describe() == "1 without scores"
    assert count_missing_runs(replace(plain, runs=[replace(first, files={}), *others])).describe() == "1 without scores"


def test_a_scoring_run_is_expected_where_the_plan_has_one(plain: Results) -> None:
    planned = replace(plain, plan=plain.plan.model_copy(update={"scorer_seed": 7}))
    assert count_missing_runs(planned).describe() == "1 missing"
    first = plain.runs[0]
    scorer = replace(first, id="scorer", config=first.config | {"role": "scorer", "seed": 7})
    assert count_missing_runs(replace(planned, runs=[*plain.runs, scorer])).describe() == ""


def test_a_failed_run_is_a_result_and_its_further_seeds_are_not_expected(plain: Results) -> None:
    failed = [replace(run, summary={"state": "failed"}, files={}) if _is("LS", 1)(run) else run for run in plain.runs]
    assert _lacking(replace(plain, runs=failed), _is("LS", 2)) == ""


def test_of_a_search_that_goes_on_no_more_is_expected(confirmed: Results) -> None:
    """Its first configuration is not chosen, and a run of somebody else's is none of the study's."""
    log = confirmed.search.systems["T-LS"]
    first = log.proposals[0]
    running = log.model_copy(update={"winner": None, "proposals": [first]})
    search = confirmed.search.model_copy(update={"systems": confirmed.search.systems | {"T-LS": running}})
    runs = [
        run
        for run in confirmed.runs
        if run.config["variant"] != "T-LS"
        or (run.config["configuration_id"] == first.configuration_id and run.seed in confirmed.plan.seeds)
    ]
    assert count_missing_runs(replace(confirmed, runs=runs, search=search)).describe() == ""
    foreign = replace(runs[0], id="other", config={"study": "synthetic"})
    assert count_missing_runs(replace(confirmed, unfinished=[foreign])).describe() == "1 unfinished"


def test_the_report_of_a_server_says_it_and_that_of_a_folder_does_not(plain: Results) -> None:
    behind = replace(plain, runs=[run for run in plain.runs if not _is("LS", 2)(run)])
    (line, *_) = collect_notes(build_report_data(replace(behind, server_address="wandb:team/rankers")))
    remedy = "to upload what the study's folder has, run python -m study.sync FOLDER"
    assert line == f"Runs that wandb:team/rankers lacks: 1 missing; {remedy}"
    assert not [note for note in collect_notes(build_report_data(behind)) if "study.sync" in note]
