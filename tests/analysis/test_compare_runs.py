"""`python -m analysis.compare --qrels QRELS --runs ...`: the same as from a table, and one line for each mistake."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ir_measures
import pandas as pd
import pytest

from analysis.compare import main
from tests.analysis.trec import write_qrels, write_runs
from tests.study.command import light

METRIC = ["--metric", "nDCG@10"]
TREC_DL = Path(__file__).parents[3] / "shared" / "data" / "trec-dl-text"


def arguments(qrels: Path, runs: dict[str, list[Path]]) -> list[str]:
    return ["--qrels", str(qrels), "--runs", *(f"{name}={','.join(map(str, own))}" for name, own in runs.items())]


def oracle(qrels: Path, runs: dict[str, list[Path]], metric: str) -> pd.DataFrame:
    """The table of scores as ir_measures computes it from the files."""
    rows = []
    grades = list(ir_measures.read_trec_qrels(str(qrels)))
    for system, own in runs.items():
        for number, path in enumerate(own, 1):
            values = ir_measures.iter_calc(
                [ir_measures.parse_measure(metric)], grades, list(ir_measures.read_trec_run(str(path)))
            )
            seed = number if len(own) > 1 else None
            rows += [(system, seed, value.query_id, value.value) for value in values]
    return pd.DataFrame(rows, columns=["system", "seed", "query", "value"])


@pytest.mark.parametrize("options", [[], ["--baseline", "bm25"], ["--correction", "holm", "--seeds", "pooled"]])
def test_runs_are_compared_as_the_table_of_their_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    qrels = write_qrels(tmp_path, queries=20, irrelevant=2)
    runs = write_runs(tmp_path, queries=20, lacking={"bert.2.run": 3})
    oracle(qrels, runs, "nDCG@10").to_csv(tmp_path / "s.csv", index=False)
    of_runs, of_table = tmp_path / "runs.json", tmp_path / "table.json"
    assert main([*arguments(qrels, runs), *METRIC, "--json", str(of_runs), *options]) == 0
    notes, _, table = capsys.readouterr().out.partition("q01, q02, q03\n")
    assert notes.splitlines()[0] == "nDCG@10 of 20 judged queries"
    assert main([str(tmp_path / "s.csv"), "--json", str(of_table), *options]) == 0
    assert table.replace("nDCG@10 ± sd", "value ± sd").split() == capsys.readouterr().out.split()
    assert of_runs.read_bytes() == of_table.read_bytes()
    assert {row["target"] for row in json.loads(of_runs.read_text())} == {"both"}


@pytest.mark.skipif(not TREC_DL.exists(), reason="the runs of TREC DL are not here")
@pytest.mark.parametrize("year", ["19", "20"])
def test_the_page_about_trec_dl_has_the_values_of_ir_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], year: str
) -> None:
    names = {"BM25": "bm25", "RM3": "bm25-rm3", "TAS-B": "tas-b", "SPLADE++": "splade-pp-ed", "ada2": "ada2"}
    runs = {name: [TREC_DL / f"runs/dl{year}.{stem}.run"] for name, stem in names.items()}
    beir = TREC_DL / f"qrels/dl{year}.tsv"
    trec = tmp_path / "qrels"
    judged = [line.split("\t") for line in beir.read_text().splitlines()[1:]]
    trec.write_text("\n".join(f"{query} 0 {document} {grade}" for query, document, grade in judged))
    assert main([*arguments(beir, runs), *METRIC, "--groups"]) == 0
    printed = capsys.readouterr().out
    for name, mean in oracle(trec, runs, "nDCG@10").groupby("system")["value"].mean().items():
        assert f"\n  {name:8}  {mean:.4f}  " in printed
    page = (Path(__file__).parents[2] / "docs/guide/trec-dl.md").read_text()
    lines = page.partition(f"## TREC DL 20{year}")[2].partition("```text\n")[2].partition("```")[0].splitlines()
    assert len(lines) > len(names)
    assert set(lines) <= set(printed.splitlines())


def test_compressed_runs_and_predictions_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    qrels, runs = write_qrels(tmp_path), write_runs(tmp_path)
    other = {name: [path.with_suffix(".other") for path in own] for name, own in runs.items()}
    for name, own in runs.items():
        for path, copy in zip(own, other[name], strict=True):
            if name == "bert":
                content: dict[str, dict[str, float]] = {}
                for row in ir_measures.read_trec_run(str(path)):
                    content.setdefault(row.query_id, {})[row.doc_id] = row.score
                copy.write_text(json.dumps({"default": {"test": content}}))
            else:
                copy.write_bytes(gzip.compress(path.read_bytes()))
    outputs = []
    for files in (runs, other):
        assert main([*arguments(qrels, files), *METRIC]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_a_table_with_measures_is_read_by_the_same_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = oracle(write_qrels(tmp_path), write_runs(tmp_path), "AP").query("seed != seed or seed == 1")
    frame = frame.drop(columns="seed").rename(columns={"system": "name", "query": "qid"})
    pd.concat([frame.assign(measure="AP"), frame.assign(measure="AP@10", value=0.5)]).to_csv(tmp_path / "p.csv")
    assert main([str(tmp_path / "p.csv"), "--metric", "AP", "--baseline", "bm25"]) == 0
    assert "AP" in capsys.readouterr().out.splitlines()[4]
    assert main([str(tmp_path / "p.csv")]) == 2
    assert "2 measures, AP, AP@10; expected one of them, named by --metric" in capsys.readouterr().err


def test_runs_need_no_torch(tmp_path: Path) -> None:
    options = [*arguments(write_qrels(tmp_path), write_runs(tmp_path)), *METRIC]
    done = light(tmp_path, *options, module="analysis.compare", more=("sentence_transformers",))
    assert (done.returncode, done.stderr) == (0, "")


RUN = "q01 Q0 d0 1 2.0 t\nq02 Q0 d1 1 1.0 t\n"
QRELS = "q01 0 d0 1\nq02 0 d1 1\n"


def content(name: str, text: str | bytes) -> Callable[[Path], None]:
    """Gives a file this content."""
    return lambda folder: (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode()) and None


BAD_FILES: dict[str, tuple[str, str | bytes, str]] = {
    "repeated document": ("b.run", RUN + "q01 Q0 d0 2 1.0 t\n", "b.run, line 3: document d0 twice for query q01"),
    "score is a word": ("b.run", RUN.replace("1.0", "high"), "b.run, line 2: score 'high'; expected a finite number"),
    "no common query": ("b.run", "1 Q0 d0 1 2.0 t\n", "no query of "),
    "empty run": ("b.run", "", "b.run: no lines; expected a run"),
    "damaged gzip": ("b.run", gzip.compress(RUN.encode() * 99)[:40], "b.run: a damaged gzip file"),
    "broken JSON": ("b.run", '{"q01": {"d0": 1}', "b.run, line 1: no JSON"),
    "means of MTEB": ("b.run", '{"task_name": "x", "scores": {}}', "expected one ranking"),
    "means of an evaluator": ("b.run", "epoch,steps,MAP\n1,-1,0.5\n", "b.run, line 1: fields: 1; expected a run"),
    "qrels as a run": ("b.run", QRELS, "b.run, line 1: fields: 4; expected a run"),
    "run as qrels": ("qrels", RUN, "qrels, line 1: fields: 6; expected TREC qrels"),
    "grade is no integer": ("qrels", QRELS.replace("d1 1", "d1 0.5"), "qrels, line 2: grade '0.5'; expected a whole"),
    "two grades": ("qrels", QRELS + "q01 0 d0 2\n", "line 3: grade 2 of document d0 for query q01, but 1 before"),
    "empty qrels": ("qrels", "", "qrels: no lines; expected TREC qrels"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    name, text, message = BAD_FILES[kind]
    for file, good in (("qrels", QRELS), ("a.run", RUN), ("b.run", RUN)):
        content(file, text if file == name else good)(tmp_path)
    runs = {"a": [tmp_path / "a.run"], "b": [tmp_path / "b.run"]}
    assert main([*arguments(tmp_path / "qrels", runs), *METRIC]) == 2
    check_line(capsys, message)


def check_line(capsys: pytest.CaptureFixture[str], message: str) -> None:
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("analysis.compare: ")
    assert told.err.count("\n") == 1
    assert message in told.err
    assert "Traceback" not in told.err


def test_names_of_files_hand_a_terminal_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[Any]) -> None:
    content("q\x1b[1m", QRELS)(tmp_path)
    content("a.run", RUN + "\u202e\u2066 Q0 d 1 1 t\n")(tmp_path)
    content("b.run", RUN)(tmp_path)
    runs = {"a": [tmp_path / "a.run"], "b": [tmp_path / "b.run"]}
    assert main([*arguments(tmp_path / "q\x1b[1m", runs), *METRIC]) == 0
    told = capsys.readouterr().out
    assert "\x1b[1m" not in told
    assert "\\u202e" in told
