"""A study read from a W&B server is the study of its offline files and of its records, in spite of failures."""

import json
import math
import os
import signal
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from wandb.sdk import wandb_setup
from wandb.sdk.lib.service.service_process import ServiceProcess

from analysis.readers import wandb_project, wandb_server
from analysis.readers.study_reader import open_results, read_records, read_wandb_files
from analysis.readers.wandb_server import ServerError
from analysis.report import main, write_report
from tests.analysis import builders
from tests.analysis.builders import STATISTICS, Made, content_of, plan_of, queries_of, scores, study_runs, write_records
from tests.analysis.logged import client, log, log_run, log_study
from tests.analysis.searching import told
from trainables.utils.errors import UserError
from wandb_server import Server

pytestmark = pytest.mark.slow
Captured = pytest.CaptureFixture[str]
NOBODY = {"WANDB_HTTP_TIMEOUT": "1", "WANDB_BASE_URL": "http://127.0.0.1:9"}
AWAY = "analysis.report: http://127.0.0.1:9: no usable answer (W&B); try again later\n"


@pytest.fixture(scope="module")
def server(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Holds the study `written` in the project whole, and in others what the tests log there."""
    folder = tmp_path_factory.mktemp("server")
    runs = study_runs(seeds=(1, 2), grid=False)
    plan = json.loads((written / "plan.json").read_text())["plan"]
    with Server(folder / "server") as server:
        with client(server, folder / "client"):
            log_study("whole", plan, runs, folder / "client", told(runs), queries_of(), STATISTICS)
        yield server


@pytest.fixture
def reader(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server, and this process set to read from it, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    builders.leave_figures_empty(monkeypatch)
    with client(server, tmp_path / "client"):
        yield server
    server.heal()


def test_server_offline_files_and_records_give_the_same(written: Path, reader: Server, tmp_path: Path) -> None:
    with open_results("wandb:whole") as online:
        # its search log names runs that were never made: the report of a server would say that they are missing
        first = write_report(replace(online, server_address=None), tmp_path / "server")
        assert content_of(online) == content_of(read_wandb_files(written)) == content_of(read_records(written))
        assert len(online.runs) == 13
        assert max(len(run.history) for run in online.runs) == 21
        assert {run.url for run in online.runs} == {f"{reader.url}/laboratory/whole/runs/{r.id}" for r in online.runs}
    second = write_report(read_records(written), tmp_path / "records")
    assert first.files == second.files
    assert first.text.partition("All else:")[0] == second.text.partition("All else:")[0]
    for name in first.files:
        if name != "report.html":  # it has links to the runs
            assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes(), name
    page = (first.folder / "report.html").read_text()
    assert all(f'href="{run.url}"' in page for run in online.runs)


def test_what_is_downloaded_is_removed_or_kept_in_a_cache(
    reader: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_DATA_DIR")
    before = dict(os.environ)
    with open_results("wandb:laboratory/whole") as results:
        assert any((tmp_path / "temporary").iterdir())
        assert all(path.is_file() for run in results.runs for path in run.files.values())
    assert not any((tmp_path / "temporary").iterdir())
    assert dict(os.environ) == before
    assert not [path for path in (tmp_path / "client").rglob("*") if path.is_file()]
    with open_results("wandb:whole", cache=tmp_path / "cache") as results:
        first = content_of(results)
    asked = len(reader.requests)
    with open_results("wandb:whole", cache=tmp_path / "cache") as again:
        assert not [request for request in reader.requests[asked:] if "scores.parquet" in request.path]
        assert content_of(again) == first
    kept = next(iter(again.runs[0].files.values()))
    kept.write_bytes(b"damaged")
    with open_results("wandb:whole", cache=tmp_path / "cache") as mended:
        assert content_of(mended) == first
    assert kept.read_bytes() != b"damaged"


@pytest.mark.long
def test_many_runs_page_by_page(reader: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [Made("LS", seed, 1.0, part / 100, state="failed") for seed in (1, 2) for part in range(31)]
    plan = plan_of(runs, seeds=[1, 2], settings={"gpu": 1.0, "custom": {}})  # in W&B 1 and nothing
    log_study("many", plan, runs, tmp_path / "client")
    write_records(tmp_path / "records", plan, runs)
    monkeypatch.setattr(wandb_project, "PER_PAGE", 7)
    asked = len(reader.requests)
    with open_results("wandb:many") as results:
        pages = [request for request in reader.requests[asked:] if request.operation == "Runs"]
        assert len(pages) == 1 + math.ceil((62 + 3) / 7)
        assert content_of(results) == content_of(read_records(tmp_path / "records"))
        assert len(results.runs) == 62


@pytest.mark.long
def test_what_the_server_refuses_for_a_while_is_asked_again(written: Path, reader: Server) -> None:
    reader.fail(429, times=3, retry_after=1, path="RunOutputArtifacts")
    reader.fail(503, times=2, path="scores.parquet")
    reader.fail(429, times=1, retry_after=1, path="HistoryPage")
    with open_results("wandb:whole") as results:
        assert content_of(results) == content_of(read_records(written))
    assert sum(request.status in (429, 503) for request in reader.requests) >= 6


def test_of_a_partly_synced_study_the_report_says_what_the_server_lacks(
    study: Path, reader: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = study_runs(seeds=(1, 2), grid=False)
    plan = json.loads((study / "plan.json").read_text())["plan"]
    log_study("partly", plan, runs[:9], tmp_path / "client")
    for run in runs[9:11]:  # they train still, as far as W&B knows
        log("partly", tmp_path / "client", run.id, "search", run.config(plan), history=run.history()[:5])
    untested = Made(**{**vars(runs[11]), "scores": {"dev": runs[11].scores["dev"]}})
    log_run("partly", plan, untested, tmp_path / "client")
    with open_results("wandb:partly") as results:
        assert len(results.runs) == 10
        assert [run.id for run in results.unfinished] == sorted(run.id for run in runs[9:11])
        assert results.search is None
    assert main(["wandb:partly"]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith("All else: report-partly/report.html\n")
    assert Path("report-partly", "report.html").is_file()
    line = (
        "Runs are missing; to upload those that the study's folder has and wandb:partly lacks, run python -m study.sync"
    )
    table = Path("report-partly", "table.md").read_text()
    assert f"{line} FOLDER\n" in table
    for text in (printed, table):
        assert text.count("is incomplete: ") == len({run.variant for run in runs[9:]})


def test_damaged_scores_are_an_error(reader: Server, tmp_path: Path) -> None:
    run = Made("BERT", 1, 1.5, tested=True, scores={split: scores(split, 20, 1.5, 1) for split in ("dev", "test")})
    plan = plan_of([run], seeds=[1])
    log_study("damaged", plan, [run], tmp_path / "client")
    log("damaged", tmp_path / "client", run.id, "search", run.config(plan), summary={"test/scores_sha256": "0" * 64})
    with (
        pytest.raises(UserError, match=f"test scores of run {run.id}: SHA-256 .*expected 000000000000"),
        open_results("wandb:damaged"),
    ):
        pass
    put = next(r for r in reversed(reader.requests) if r.method == "PUT" and r.path.endswith("scores.parquet"))
    damaged = urllib.request.Request(reader.url + put.path, put.body[:-1] + b"x", method="PUT")
    urllib.request.urlopen(damaged, timeout=10).close()
    with (
        pytest.raises(UserError, match=f"artifact scores-(dev|test)-{run.id}: it does not have the"),
        open_results("wandb:damaged"),
    ):
        pass


def test_curves_are_whole_or_refused(reader: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    from wandb.apis import public

    scan = public.Run.scan_history
    for lost in (slice(1, None), slice(None, -1)):
        monkeypatch.setattr(public.Run, "scan_history", lambda run, lost=lost, **kind: list(scan(run, **kind))[lost])
        with open_results("wandb:whole") as results:
            run = next(run for run in results.runs if run.config["variant"] == "LS")
            with pytest.raises(UserError, match=f"curve of run {run.id}: 21 rows; expected the 22 that"):
                run.curve()


def test_numbers_that_json_does_not_have(reader: Server, tmp_path: Path) -> None:
    run = Made("LS", 1, 1.0, 0.2, state="failed")
    plan, place = plan_of([run], seeds=[1]), tmp_path / "client"
    log_study("diverged", plan, [], place)
    values = [math.inf, math.nan, "-Infinity", "NaN"]  # as the client sends them, and as W&B's own server tells them
    rows = [{"instances": number, "train/loss": value} for number, value in enumerate(values)]
    log("diverged", place, run.id, "search", run.config(plan), history=rows, summary={"state": "failed", "x": math.nan})
    with open_results("wandb:diverged") as results:
        (failed,) = results.runs
        assert [str(row["train/loss"]) for row in failed.history] == ["inf", "nan", "-inf", "nan"]
        assert all(isinstance(row["train/loss"], float) for row in failed.history)
        assert failed.summary == {"state": "failed"}


@pytest.mark.long
def test_several_studies_in_a_project(reader: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = {name: Made("LS", seed, 1.0, 0.2, state="failed") for seed, name in enumerate(("first", "second"))}
    for name, run in own.items():
        log_study("several", plan_of([run], study=name), [run], tmp_path / "client")
    for name, run in own.items():
        with open_results("wandb:several", study=name) as results:
            assert (results.plan.study, [run.id for run in results.runs]) == (name, [run.id])
    assert main(["wandb:several"]) == 2
    told = "analysis.report: wandb:several: 2 studies: first, second; expected --study with one of them\n"
    assert capsys.readouterr().err == told
    assert main(["wandb:several", "--study", "third"]) == 2
    assert capsys.readouterr().err == "analysis.report: --study: third; expected one of wandb:several: first, second\n"


def test_a_specification_in_two_wandb_runs_counts_once(reader: Server, tmp_path: Path) -> None:
    run = Made("LS", 1, 1.0, 0.2, scores={"dev": scores("dev", 20, 1.0, 1)})
    plan = plan_of([run], seeds=[1])
    log_study("twice", plan, [run], tmp_path / "client")
    log_run("twice", plan, run, tmp_path / "client", id="a-sweeps-own")
    log("twice", tmp_path / "client", "begun", "search", run.config(plan))
    with open_results("wandb:twice") as results:
        assert [run.id for run in results.runs] == [run.id]
        assert results.unfinished == []


@pytest.mark.parametrize(
    ("address", "variables", "told"),
    [
        ("wandb:", {}, "wandb:: not the address of a project; expected wandb:ENTITY/PROJECT or wandb:PROJECT"),
        ("wandb:a/b/c", {}, "wandb:a/b/c: not the address of a project; expected"),
        ("wandb:absent", {}, "wandb:absent: no such project; expected one that"),
        ("wandb:others/whole", {}, "wandb:others/whole: no such project; expected one that"),
        ("wandb:empty", {}, "wandb:empty: no plan of a study in it; expected"),
        ("wandb:whole", {"WANDB_API_KEY": "w" * 40}, "W&B: the server rejects the API key; expected a key of http://"),
        ("wandb:whole", {"WANDB_API_KEY": "short"}, "W&B: the server rejects the API key; expected a key of http://"),
        ("wandb:whole", {"WANDB_API_KEY": ""}, "W&B: no API key; expected WANDB_API_KEY"),
        ("wandb:whole", {"WANDB_BASE_URL": "nowhere"}, "W&B: its client has no valid settings"),
    ],
)
def test_mistakes_are_one_line(
    reader: Server,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    address: str,
    variables: dict[str, str],
    told: str,
) -> None:
    if address == "wandb:empty":
        log("empty", tmp_path / "client", "anything", "search", {"study": "synthetic"})
    with client(reader, tmp_path / "client", **variables):
        assert main([address]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"analysis.report: {told}")
    assert captured.err.count("\n") == 1
    assert not [key for key in (reader.key, variables.get("WANDB_API_KEY")) if key and key in captured.err]


def test_a_server_that_is_away_is_nobodys_mistake(reader: Server, tmp_path: Path, capfd: Captured) -> None:
    with client(reader, tmp_path / "client", **NOBODY):
        assert main(["wandb:whole"]) == 1
    assert capfd.readouterr().err == AWAY


@pytest.mark.parametrize("fault", ["killed", pytest.param("failed", marks=pytest.mark.long)])
def test_how_the_clients_service_ends_is_nobodys_mistake_either(
    fault: str, reader: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = ServiceProcess.join

    def ended(process: ServiceProcess) -> int:
        if fault == "killed":
            os.kill(process._process.pid, signal.SIGKILL)
        return joined(process) or 1

    monkeypatch.setattr(ServiceProcess, "join", ended)
    for variables, status in (({}, 0), (NOBODY, 1)):
        with client(reader, tmp_path / "client", **variables):
            assert main(["wandb:whole"]) == status
    assert capfd.readouterr().err == AWAY


@pytest.mark.long  # the client waits
def test_a_server_that_goes_while_it_is_read_is_waited_for_no_longer_than_that(
    reader: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.readers.wandb_project._TIMEOUT_S", 20.0)
    with client(reader, tmp_path / "client", WANDB_HTTP_TIMEOUT="1"), open_results("wandb:whole") as results:
        reader.fail(0, times=None)
        with pytest.raises(ServerError, match="wandb:whole"):
            results.runs[0].curve()
    with client(reader, tmp_path / "client", WANDB_HTTP_TIMEOUT="1"):
        reader.heal()
        reader.fail(0, times=None, path="RunOutputArtifacts")
        with pytest.raises(ServerError), open_results("wandb:whole"):
            pass


@pytest.mark.long
def test_a_service_that_does_not_end_is_killed(reader: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    joined, teardown, ended = ServiceProcess.join, wandb.teardown, list[int]()

    def stalled() -> None:
        connection = wandb_setup.singleton()._connection
        if connection is not None:
            os.kill(connection._proc._process.pid, signal.SIGSTOP)
        teardown()

    def watched(process: ServiceProcess) -> int:
        ended.append(joined(process))
        return ended[-1]

    monkeypatch.setattr(wandb, "teardown", stalled)
    monkeypatch.setattr(ServiceProcess, "join", watched)
    monkeypatch.setattr(wandb_server, "_TEARDOWN_S", 0.5)
    with open_results("wandb:whole"):
        pass
    assert ended == [-signal.SIGKILL]


@pytest.mark.long
def test_a_run_of_the_caller_goes_on_while_and_after_results_are_read(reader: Server, tmp_path: Path) -> None:
    import wandb

    with wandb.init(project="own", dir=tmp_path, settings=wandb.Settings(x_disable_stats=True)) as run:
        run.log({"x": 1})
        with open_results("wandb:whole") as results:
            run.log({"x": 2})
            assert len(results.runs) == 13
        run.log({"x": 3})
    assert [row["x"] for row in wandb.Api().run(f"own/{run.id}").scan_history()] == [1, 2, 3]
