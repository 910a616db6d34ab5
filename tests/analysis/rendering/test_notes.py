"""Notes of the report: how a project on a server that lacks runs is completed."""

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.readers.study_reader import read_records
from analysis.rendering.notes import list_run_notes
from analysis.tables.main import build_report_data
from tests.analysis.builders import write_records
from tests.analysis.searching import searched


@pytest.mark.parametrize("left_out", [0, 1, 3])
def test_the_report_of_a_server_that_lacks_runs_says_how_to_upload_them(tmp_path: Path, left_out: int) -> None:
    """A configuration that lacks a seed, and one of the search that has no run at all."""
    made = searched(fresh=(), proposals=4, queries=(10, 20))
    lost = next(run.configuration for run in made.runs if run.variant == "T-LS" and not run.tested)
    lacking = [run for run in made.runs if run.configuration == lost][:left_out]
    write_records(tmp_path, made.plan, [run for run in made.runs if run not in lacking], made.search)
    results = read_records(tmp_path)
    assert list_run_notes(build_report_data(results)) == []
    found = list_run_notes(build_report_data(replace(results, server_address="wandb:team/rankers")))
    remedy = "to upload those that the study's folder has and wandb:team/rankers lacks, run python -m study.sync FOLDER"
    assert (f"Runs are missing; {remedy}" in found) == (left_out > 0)
