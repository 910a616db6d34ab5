"""Notes of the report: they say where the luck of a search is in the p-values, and are silent where it is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.readers.study_reader import read_records
from analysis.rendering.notes import collect_notes
from analysis.tables.main import build_report_data
from tests.analysis.builders import plan_of, study_runs, write_records
from tests.analysis.searching import searched

LUCK = "part of a gain may be luck"


def notes(folder: Path) -> str:
    return "\n".join(collect_notes(build_report_data(read_records(folder))))


@pytest.mark.parametrize(("fresh", "warned"), [((), True), ((11, 12), False)])
def test_only_fresh_seeds_take_the_luck_of_the_search_out(tmp_path: Path, fresh: tuple[int, ...], warned: bool) -> None:
    made = searched(fresh=fresh, proposals=3, queries=(10, 20))
    write_records(tmp_path, made.plan, made.runs, made.search)
    assert (LUCK in notes(tmp_path)) == warned


@pytest.mark.parametrize(("grid", "checkpoint", "chosen"), [
    (True, "last", "configurations"), (False, "best", "checkpoints"), (False, "last", ""),
])  # fmt: skip
def test_what_was_chosen_by_the_tested_runs_is_named(tmp_path: Path, grid: bool, checkpoint: str, chosen: str) -> None:
    runs = study_runs(grid=grid)
    write_records(tmp_path, plan_of(runs, settings={"training": {"checkpoint": checkpoint}}), runs)
    assert (LUCK in notes(tmp_path)) == bool(chosen)
    assert f"tested runs chose {chosen}" in notes(tmp_path) or not chosen


@pytest.mark.parametrize("left_out", [0, 1, 3])
def test_the_report_of_a_server_that_lacks_runs_says_how_to_upload_them(tmp_path: Path, left_out: int) -> None:
    """A configuration that lacks a seed, and one of the search that has no run at all."""
    made = searched(fresh=(), proposals=4, queries=(10, 20))
    lost = next(run.configuration for run in made.runs if run.variant == "T-LS" and not run.tested)
    lacking = [run for run in made.runs if run.configuration == lost][:left_out]
    write_records(tmp_path, made.plan, [run for run in made.runs if run not in lacking], made.search)
    results = read_records(tmp_path)
    assert "study.sync" not in notes(tmp_path)
    found = collect_notes(build_report_data(replace(results, server_address="wandb:team/rankers")))
    remedy = "to upload those that the study's folder has and wandb:team/rankers lacks, run python -m study.sync FOLDER"
    assert (f"Runs are missing; {remedy}" in found) == (left_out > 0)
