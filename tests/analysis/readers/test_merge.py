"""What W&B lacks comes from the records, and only what it lacks."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.data.results import Results
from analysis.data.run import Run
from analysis.data.search_log import SearchLog
from analysis.readers.merge import Completed, complete
from analysis.readers.results import read_records
from tests.analysis.builders import plan_of, study_runs, write_records
from tests.analysis.searching import told
from trainables.utils.errors import UserError


@pytest.fixture
def records(tmp_path: Path) -> Results:
    runs = study_runs(seeds=(1, 2), grid=False)
    write_records(tmp_path, plan_of(runs, seeds=[1, 2]), runs, told(runs))
    return read_records(tmp_path)


def _with(results: Results, number: int, change: Callable[[Run], Run]) -> Results:
    runs = [change(run) if place == number else run for place, run in enumerate(results.runs)]
    return replace(results, runs=runs)


def test_whole_results_stay_as_they_are(records: Results) -> None:
    online = _with(records, 3, lambda run: replace(run, url="https://server/run"))
    completed = complete(online, records)
    assert completed == Completed(records, 0, 0, 0)
    assert completed.results.runs[3].url == "https://server/run"
    assert complete(records, replace(records, runs=records.runs[:2])).results == records


def test_absent_unfinished_and_unscored_runs_are_taken(records: Results) -> None:
    partly = replace(records, runs=records.runs[2:], unfinished=[records.runs[1].id, "another"], search=None)
    partly = _with(partly, 0, lambda run: replace(run, summary={"state": "failed", "error": "gone"}, files={}))
    partly = _with(partly, 1, lambda run: replace(run, files={"dev": run.files["dev"]}, url="https://server/run"))
    completed = complete(partly, records)
    assert (completed.absent, completed.unfinished, completed.unscored) == (1, 2, 1)
    assert completed.results == records
    assert [run.files.keys() for run in completed.results.runs] == [run.files.keys() for run in records.runs]
    assert completed.results.unfinished == ["another"]
    assert completed.results.runs[3].url == "https://server/run"
    why = "1 not in W&B, 2 unfinished there, 1 without scores there"
    assert completed.line(Path("study")) == f"4 runs taken from the records in study: {why}"


def test_what_only_wandb_has_is_kept(records: Results) -> None:
    behind = replace(records, runs=records.runs[1:], search=None)
    behind = _with(behind, 0, lambda run: replace(run, files={"test": run.files["test"]}))
    online = _with(records, 1, lambda run: replace(run, files={"dev": run.files["dev"]}))
    completed = complete(online, behind)
    assert completed.taken == 1
    assert completed.results == records
    assert completed.results.runs[1].files == records.runs[1].files


def test_scores_of_both_sides_are_those_that_were_noted(records: Results) -> None:
    def noted(run: Run) -> Run:
        return replace(run, files={"dev": run.files["dev"]}, summary=run.summary | {"test/scores_sha256": "0" * 64})

    with pytest.raises(UserError, match="test scores of run"):
        complete(_with(records, 1, noted), records)


def test_of_plan_and_search_what_is_further_counts(records: Results) -> None:
    newer = replace(records, plan=records.plan.model_copy(update={"version": 2}), plan_hash="2")
    assert complete(records, newer).results.plan_hash == "2"
    assert complete(newer, records).results.plan_hash == "2"
    assert records.search is not None
    begun = _begun(records.search.model_dump())
    for one, other in ((begun, records.search), (records.search, begun), (None, records.search)):
        found = complete(replace(records, search=one), replace(records, search=other))
        assert found.results.search == records.search


def _begun(search: dict[str, Any]) -> SearchLog:
    for system in search["systems"].values():
        system["winner"] = None
    return SearchLog.model_validate(search)


@pytest.mark.parametrize("change", ["study", "alpha"])
def test_records_of_something_else_are_refused(records: Results, change: str) -> None:
    value = {"study": "other", "alpha": 0.1}[change]
    other = replace(records, plan=records.plan.model_copy(update={change: value}), plan_hash="2")
    with pytest.raises(UserError, match="records: ") as error:
        complete(records, other)
    assert "\n" not in str(error.value)
