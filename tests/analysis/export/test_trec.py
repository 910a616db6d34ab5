"""A study as TREC files: ir-measures reads there what the product computes, and nothing is written by halves."""

import os
import shutil
import time
from pathlib import Path
from urllib.parse import unquote

import ir_measures
import numpy as np
import pandas as pd
import pytest

from analysis.data.study_results import Results
from analysis.export.trec import escape_blanks, export_trec
from analysis.readers.study_reader import read_records
from study.run import main
from tests.analysis.builders import Made, plan_of, scores, study_runs, write_records
from tests.study.command import light
from trainables.utils.errors import UserError

ORACLES = {
    "R10@1": ir_measures.R @ 1,
    "MAP": ir_measures.AP,
    "MRR": ir_measures.RR,
    "nDCG@3": ir_measures.nDCG @ 3,
    "nDCG@10": ir_measures.nDCG @ 10,
}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Records alone, of several systems and two splits."""
    runs = study_runs(seeds=(1,), dev=10, test=12, grid=False)
    write_records(tmp_path / "study", plan_of(runs, seeds=[1]), runs)
    return read_records(tmp_path / "study")


def made(tmp_path: Path, *frames: pd.DataFrame) -> Results:
    """A study with runs that have these development scores."""
    runs = [Made("BERT", seed, 1.0, scores={"dev": frame}) for seed, frame in enumerate(frames)]
    write_records(tmp_path / "study", plan_of(runs, seeds=list(range(len(runs)))), runs)
    return read_records(tmp_path / "study")


def test_ir_measures_reads_the_metrics_of_the_product(results: Results, tmp_path: Path) -> None:
    written = export_trec(results, tmp_path / "trec")
    assert len(written) == 2 * len(results.runs) + 2
    for split in ("dev", "test"):
        qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "trec" / f"{split}.qrels")))
        for run in results.runs:
            (path,) = (tmp_path / "trec" / split).glob(f"{run.config['variant']}-*{run.id}.run")
            ranking = list(ir_measures.read_trec_run(str(path)))
            for name, oracle in ORACLES.items():
                found = {one.query_id: one.value for one in ir_measures.iter_calc([oracle], qrels, ranking)}
                own = run.evaluate_queries(split, name)
                np.testing.assert_allclose(own, [found[query] for query in own.index], rtol=0, atol=1e-10)


def test_the_lines_of_a_run(tmp_path: Path) -> None:
    frame = scores("dev", 1, 0.0, 1, candidates=4).assign(score=[0.5, 2.0, 0.5, 1 / 3])
    results = made(tmp_path, frame)
    export_trec(results, tmp_path / "trec")
    tag = f"BERT-{results.runs[0].id}"
    lines = (tmp_path / "trec" / "dev" / f"BERT-seed-0-{results.runs[0].id}.run").read_text().splitlines()
    expected = [("d1", 1, "2.0"), ("d0", 2, "0.5"), ("d2", 3, "0.5"), ("d3", 4, "0.3333333333333333")]
    assert lines == [f"dev-0 Q0 {document} {rank} {score} {tag}" for document, rank, score in expected]
    assert (tmp_path / "trec" / "dev.qrels").read_text().splitlines() == [
        f"dev-0 0 d{number} {int(number == 0)}" for number in range(4)
    ]


@pytest.mark.parametrize("text", ["plain", "a b", "100%", "a%20b", "tab\tline\u2028\u00a0end", "ä", "#1"])
def test_ids_have_no_blanks_and_can_be_read_back(text: str) -> None:
    assert unquote(escape_blanks(text)) == text
    assert escape_blanks(text).split() == [escape_blanks(text)]
    assert (escape_blanks(text) == text) == (not set(text) & set(" %\t\u2028\u00a0#"))


def test_ids_with_blanks_are_escaped_in_both_files(tmp_path: Path) -> None:
    frame = scores("dev", 2, 0.0, 1)
    results = made(tmp_path, frame.assign(query_id="the " + frame["query_id"], document_id="a " + frame["document_id"]))
    for path in export_trec(results, tmp_path / "trec"):
        fields = [line.split(" ") for line in path.read_text().splitlines()]
        assert {line[0] for line in fields} == {"the%20dev-0", "the%20dev-1"}
        assert {line[2] for line in fields} == {f"a%20d{number}" for number in range(10)}


def test_failed_runs_and_those_that_only_tell_difficulties_are_left_out(tmp_path: Path) -> None:
    frame = scores("dev", 2, 1.0, 1)
    own = [Made("BERT", seed, 1.0, scores={"dev": frame}, role=role) for seed, role in ((1, "baseline"), (0, "scorer"))]
    runs = [*own, Made("LS", 1, 1.0, 0.1, state="failed")]
    write_records(tmp_path / "study", plan_of(runs, seeds=[1]), runs)
    written = export_trec(read_records(tmp_path / "study"), tmp_path / "trec")
    assert {path.name for path in written} == {"dev.qrels", f"BERT-seed-1-{runs[0].id}.run"}


def damaged(kind: str) -> list[pd.DataFrame]:
    first, second = scores("dev", 2, 0.0, 1), scores("dev", 2, 0.0, 2)
    if kind == "relevance":
        return [first, second.assign(relevant=1 - second["relevant"])]
    if kind == "twice":
        return [first, pd.concat([second, second.head(1)])]
    if kind == "score":
        return [first, second.assign(score=np.nan)]
    return [first, second.assign(document_id="")]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("relevance", "relevance of document d0 for query dev-0"),
        ("twice", "the same candidate twice"),
        ("score", "20 candidates without a score"),
        ("id", "without an id"),
    ],
)
def test_what_has_no_ranking_is_an_error_and_nothing_is_written(tmp_path: Path, kind: str, message: str) -> None:
    results = made(tmp_path, *damaged(kind))
    with pytest.raises(UserError, match=message):
        export_trec(results, tmp_path / "trec")
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_what_is_there_is_left_alone(results: Results, tmp_path: Path) -> None:
    (tmp_path / "trec").mkdir()
    (tmp_path / "link").symlink_to("trec")
    killed = tmp_path / ".trec.0123abcd-1-01234567"  # of another machine, two days ago
    killed.mkdir()
    os.utime(killed, (time.time() - 2 * 24 * 3600,) * 2)
    assert export_trec(results, tmp_path / "link")
    assert not killed.exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "trec").rglob("*")}
    with pytest.raises(UserError, match="a new or an empty folder"):
        export_trec(results, tmp_path / "trec")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "trec").rglob("*")} == before


def test_the_command_writes_them_without_torch_or_ray(results: Results, tmp_path: Path) -> None:
    done = light(tmp_path, "quick", f"output.folder={tmp_path / 'study'}", "--export-trec", "trec")
    assert done.returncode == 0, done.stderr
    assert f"{2 * len(results.runs)} rankings and 2 files of qrels to trec" in done.stdout
    assert (tmp_path / "trec" / "test.qrels").is_file()


def test_mistakes_of_the_command_are_one_line(
    results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, folder = f"output.folder={tmp_path / 'study'}", str(tmp_path / "trec")
    inside = str(tmp_path / "study" / "plan.json" / "trec")
    for arguments, part in [
        ([place, "--export-trec", str(tmp_path)], "a new or an empty folder"),
        ([place, "--export-trec", inside], "expected a folder that can be created"),
        ([f"output.folder={tmp_path / 'nowhere'}", "--export-trec", folder], "a study that has been run"),
    ]:
        assert main(["quick", *arguments]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert part in said
    shutil.rmtree(tmp_path / "study" / "runs")
    assert main(["quick", place, "--export-trec", folder]) == 2
    assert "no finished run" in capsys.readouterr().err
    assert not Path(folder).exists()
