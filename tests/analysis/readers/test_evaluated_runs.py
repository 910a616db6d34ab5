"""Values of runs are those of ir_measures, called directly on what it reads itself; what is left out is said."""

from pathlib import Path

import ir_measures
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.readers import evaluated_runs
from analysis.readers.evaluated_runs import compute_values, parse_metric, parse_runs, read_runs
from tests.analysis.trec import write_qrels, write_runs
from trainables.metrics import get_measure
from trainables.utils.errors import UserError

METRICS = ("nDCG@10", "AP", "RR@10", "RR", "R@100", "P@5", "Judged@10", "AP(rel=2)", "Bpref", "Compat", "infAP")


@pytest.mark.parametrize("metric", METRICS)
def test_values_are_those_of_ir_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metric: str) -> None:
    monkeypatch.setattr(evaluated_runs, "_QUERIES_AT_ONCE", 3)
    qrels, runs = write_qrels(tmp_path, queries=10), write_runs(tmp_path, queries=12, lacking={"bert.2.run": 2})
    frame = read_runs(qrels, runs, metric)
    grades = list(ir_measures.read_trec_qrels(str(qrels)))
    for system, paths in runs.items():
        for number, path in enumerate(paths, 1):
            ranking = list(ir_measures.read_trec_run(str(path)))
            oracle = ir_measures.iter_calc([ir_measures.parse_measure(metric)], grades, ranking)
            seeds = frame["seed"].isna() if len(paths) == 1 else frame["seed"] == number
            own = frame[(frame["system"] == system) & seeds].set_index("query")["value"]
            assert own.to_dict() == {row.query_id: row.value for row in oracle}


@pytest.mark.parametrize("names", [("1-1", "2-1"), ("a", "b"), ("q 1", "q 2"), ("0-7", "é")])
def test_an_outside_program_gets_ids_that_it_can_read(tmp_path: Path, names: tuple[str, str]) -> None:
    """gdeval takes numbers alone, drops what is before a hyphen, and splits at blanks; these values are its own."""
    first, second = names
    grades = {first: {"a b": 1, "c-1": 2}, second: {"a b": 3, "d": 0}}
    found = {
        "x": {first: {"a b": 3, "c-1": 2}, second: {"d": 2, "a b": 1}},
        "y": {first: {"c-1": 3, "a b": 2}, second: {"a b": 2, "d": 1}},
    }
    values = {
        name: [
            value
            for own in found.values()
            for value in compute_values(
                {query: (grades[query], own[query]) for query in names}, parse_metric(name)
            ).values()
        ]
        for name in ("nDCG(dcg='exp-log2')@2", "ERR@2")
    }
    assert values["nDCG(dcg='exp-log2')@2"] == [0.79671, 0.63093, 1, 1]
    numbers = {"1": grades[first], "2": grades[second]}
    run = {str(number): own for number, own in enumerate(found["x"].values(), 1)}
    rename = {"a b": "1", "c-1": "2", "d": "3"}
    numbers, run = (
        {query: {rename[document]: value for document, value in own.items()} for query, own in table.items()}
        for table in (numbers, run)
    )
    oracle = ir_measures.iter_calc([ir_measures.ERR @ 2], numbers, run)
    assert values["ERR@2"][:2] == [row.value for row in sorted(oracle)]


def test_a_metric_without_a_value_for_a_judged_query_is_an_error(tmp_path: Path) -> None:
    """Accuracy compares relevant with other documents, so a query without a relevant one has none."""
    qrels, runs = write_qrels(tmp_path, queries=6, irrelevant=2), write_runs(tmp_path, queries=6)
    with pytest.raises(UserError, match="--metric: Accuracy of query q05 is nan; expected a metric with a finite"):
        read_runs(qrels, runs, "Accuracy")


@pytest.mark.parametrize(("metric", "hint"), [("ndcg@10", "nDCG@10"), ("p@5", "P@5"), ("judged@10", "Judged@10")])
def test_a_metric_in_other_capital_letters_gets_a_hint(metric: str, hint: str) -> None:
    for parse in (parse_metric, get_measure):
        with pytest.raises((UserError, ValueError), match=f"; did you mean {hint}[?]"):
            parse(metric)


def test_names_of_trec_eval_are_the_same_metrics() -> None:
    for name, metric in (("ndcg_cut_10", "nDCG@10"), ("map", "AP"), ("recip_rank", "RR"), ("P_5", "P@5")):
        assert parse_metric(name) == parse_metric(metric) == ir_measures.parse_measure(metric)


def test_ties_are_broken_as_in_trec_eval_and_scores_are_single_precision(tmp_path: Path) -> None:
    """The metrics of other providers differ, as the documentation says."""
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq2 0 d1 1\n")
    tied = "q1 Q0 d1 1 0.5 t\nq1 Q0 d2 2 0.5 t\nq2 Q0 d1 1 0.123456789 t\nq2 Q0 d2 2 0.123456788 t\n"
    (tmp_path / "a.run").write_text(tied)
    (tmp_path / "b.run").write_text(tied)
    runs = {"a": tmp_path / "a.run", "b": tmp_path / "b.run"}
    assert read_runs(tmp_path / "qrels", runs, "RR")["value"].tolist() == [0.5] * 4
    assert read_runs(tmp_path / "qrels", runs, "RR@10")["value"].tolist() == [1.0] * 4


def test_seeds_are_the_numbers_of_the_files(tmp_path: Path) -> None:
    qrels, runs = write_qrels(tmp_path), write_runs(tmp_path)
    frame = read_runs(qrels, runs, "AP")
    assert list(frame.columns) == ["system", "seed", "query", "value"]
    seeds = {name: own["seed"].unique().tolist() for name, own in frame.groupby("system")}
    assert seeds["bert"] == [1.0, 2.0, 3.0]
    assert len(seeds["bm25"]) == 1
    assert pd.isna(seeds["bm25"][0])
    single = read_runs(qrels, {name: own[0] for name, own in runs.items()}, "AP")
    assert list(single.columns) == ["system", "query", "value"]


def test_what_is_counted_and_left_out_is_said(tmp_path: Path) -> None:
    qrels = write_qrels(tmp_path, queries=10, irrelevant=1)
    runs = write_runs(tmp_path, queries=12, lacking={"bert.2.run": 4})
    notes: list[str] = []
    frame = read_runs(qrels, runs, "nDCG@10", log=notes.append)
    assert notes == [
        "nDCG@10 of 10 judged queries",
        "bert run 2 lacks 4 of 10 judged queries: counted as 0: q01, q02, q03 and 1 more",
        f"left out, since {qrels} does not judge them: 2 queries: q11, q12",
    ]
    lacking = frame[
        (frame["system"] == "bert") & (frame["seed"] == 2) & frame["query"].isin(["q01", "q02", "q03", "q04"])
    ]
    assert lacking["value"].tolist() == [0.0] * 4
    assert frame["query"].nunique() == 10


@pytest.mark.parametrize(
    "metric",
    ["nDGC@10", "", "nDCG@0", "P@-1", "R@1.5", "P", "nDCG@True", "AP(rel=0)", "nDCG(x=1)", "alpha_nDCG@10", "RBP", "1+",
     "nDCG@10 AP", "nDCG(gains={1:0.5})@10", "all_trec", "P_0"],
)  # fmt: skip
def test_a_metric_that_cannot_be_computed_is_an_error(tmp_path: Path, metric: str) -> None:
    """pytrec_eval would crash the process at a cutoff of 0."""
    qrels, runs = write_qrels(tmp_path), write_runs(tmp_path)
    with pytest.raises(UserError, match="--metric: ") as caught:
        read_runs(qrels, runs, metric)
    assert "\n" not in str(caught.value)


NAMES = st.text("abc ", min_size=1).map(str.strip).filter(bool)
FILES = st.text("xyz=/. ", min_size=1).map(str.strip).filter(bool)


@given(st.dictionaries(NAMES, st.lists(FILES, min_size=1), min_size=1))
def test_arguments_are_names_and_files(runs: dict[str, list[str]]) -> None:
    parsed = parse_runs(f"{name}={','.join(files)}" for name, files in runs.items())
    assert parsed == {name: dict(enumerate(map(Path, files), 1)) for name, files in runs.items()}


def test_a_pattern_pairs_files_by_the_number_of_the_seed(tmp_path: Path) -> None:
    qrels, runs = write_qrels(tmp_path), write_runs(tmp_path)
    for name, seeds in {"a": (2, 10), "b": (10, 3, 2)}.items():
        for seed in seeds:
            (tmp_path / f"{name}-{seed}.run").write_text(runs["bm25"][0].read_text())
    (tmp_path / "b-best.run").write_text("no run")
    parsed = parse_runs([f"a={tmp_path}/a-*.run", f"b={tmp_path}/b-*.run"])
    assert {name: list(files) for name, files in parsed.items()} == {"a": [10, 2], "b": [10, 2, 3]}
    frame = read_runs(qrels, parsed, "AP")
    assert {name: {*own["seed"]} for name, own in frame.groupby("system")} == {"a": {2, 10}, "b": {2, 3, 10}}
    exported = [tmp_path / f"BERT-seed-{seed}-{digest}.run" for seed, digest in ((3, "4d5"), (12, "77e"))]
    for path in (*exported, tmp_path / "BERT-seed-3-4d5.txt"):
        path.write_text("")
    assert parse_runs([f"a={tmp_path}/BERT-seed-*-*.run"]) == {"a": {3: exported[0], 12: exported[1]}}
    (tmp_path / "a-02.run").write_text("")
    for pattern, message in (
        (f"{tmp_path}/a-*.run", "one file for each seed"),
        ("nowhere/*.run", "a pattern of files"),
    ):
        with pytest.raises(UserError, match=message):
            parse_runs([f"a={pattern}"])


def test_python_takes_one_file_or_several_and_refuses_none(tmp_path: Path) -> None:
    qrels, runs = write_qrels(tmp_path), write_runs(tmp_path)
    one = read_runs(str(qrels), {"bert": str(runs["bert"][0]), "bm25": runs["bm25"][0]}, "AP")
    assert set(one["system"]) == {"bert", "bm25"}
    for wrong, message in (({"bert": []}, "no file"), ({"bert": runs["bert"]}, "two systems or more")):
        with pytest.raises(UserError, match=message):
            read_runs(qrels, wrong, "AP")
