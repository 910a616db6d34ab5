"""A suite from its command line to its joint report, run study by study, read back from a W&B server."""

import json
import tempfile

import pytest

from analysis.report import main as report
from analysis.results import read_records
from study.sync import main as sync
from tests.analysis.logged import client
from tests.study.command import called
from tests.study.suites.command import TWO_SYSTEMS, contents, records, run, write
from wandb_server import Server

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
REPORT = ("comparisons.json", "results.csv", "table.md", "table.tex")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    place = tmp_path_factory.mktemp("finished")
    write(place, TWO_SYSTEMS)
    whole = run(place)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    return place, whole.stdout


def test_every_study_has_its_records_and_its_report(finished):
    place, printed = finished
    for key in ("networkx", "pandas"):
        results = read_records(place / "suite" / key)
        assert len(results.runs) == 1 + 2 * 3
        assert all("test" in run.files for run in results.runs)
        assert (place / "suite" / key / "report" / "report.html").is_file()
        assert f"tiny-{key}: all trials have ended" in printed
    assert "Average over the tasks, " in printed


def test_a_finished_suite_runs_again_and_writes_the_same_report(finished):
    place, _ = finished
    before, reports = records(place), contents(place, [f"report/{name}" for name in REPORT])
    again = run(place)
    assert again.returncode == 0, again.stdout + again.stderr
    assert records(place) == before
    assert contents(place, [f"report/{name}" for name in REPORT]) == reports
    assert len(reports) == len(REPORT)


def test_a_study_that_is_run_later_was_planned_from_the_start(finished, tmp_path):
    write(tmp_path, TWO_SYSTEMS)
    alone = run(tmp_path, "--study", "networkx")
    assert alone.returncode == 0, alone.stdout + alone.stderr
    before = records(tmp_path)
    whole = run(tmp_path)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    after = records(tmp_path)
    assert before
    assert {name: after[name] for name in before} == before
    for name in REPORT[:2]:
        expected = (finished[0] / "suite" / "report" / name).read_bytes()
        assert (tmp_path / "suite" / "report" / name).read_bytes() == expected
    plan = json.loads((tmp_path / "suite" / "suite.json").read_text())["plan"]
    assert plan["version"] == 1
    assert [(study["key"], study["is_late"]) for study in plan["studies"]] == [("networkx", False), ("pandas", False)]


def test_the_report_can_be_written_again_from_the_folder(finished, tmp_path):
    place, _ = finished
    assert report([str(place / "suite"), "--output", str(tmp_path)]) == 0
    for name in REPORT:
        assert (tmp_path / name).read_bytes() == (place / "suite" / "report" / name).read_bytes()


def test_a_server_gives_the_same_joint_report(finished, tmp_path, monkeypatch):
    place, _ = finished
    with Server(tmp_path / "server") as server, client(server, tmp_path / "client"):
        assert sync([str(place / "suite")]) == 0
        runs = server.runs("tiny").values()
        assert {run.group.split("/")[0] for run in runs if run.group} == {"networkx", "pandas"}
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert report([f"wandb:{server.entity}/tiny", "--suite", "tiny", "--output", str(tmp_path / "out")]) == 0
    for name in REPORT:
        assert (tmp_path / "out" / name).read_bytes() == (place / "suite" / "report" / name).read_bytes(), name


def test_rankings_are_exported_study_by_study(finished, tmp_path):
    place, _ = finished
    exported = run(place, "--export-trec", str(tmp_path / "trec"))
    assert exported.returncode == 0, exported.stderr
    assert {path.name for path in (tmp_path / "trec").iterdir()} == {"networkx", "pandas"}
    refused = called(tmp_path, "-m", "study.run", str(place / "suite.toml"), "--export-sweep")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
