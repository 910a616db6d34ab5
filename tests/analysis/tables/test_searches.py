"""A study with a search: seeds by phase, the race, fresh seeds, what the notes say; and how it is read."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.data.configurations import collect_configurations
from analysis.data.study_results import per_query
from analysis.readers.study_reader import read_records, read_wandb_files
from analysis.rendering.document import build_document, render_html, render_markdown, render_text
from analysis.rendering.notes import list_search_notes
from analysis.tables.confirmation import build_confirmation_section
from analysis.tables.frames import build_runs_frame
from analysis.tables.main import ReportData, build_report_data
from records.scores import Evaluator
from tests.analysis.builders import content_of, write_records
from tests.analysis.logged import write_wandb
from tests.analysis.searching import Searched, metric, searched

DROPPED, FAILED = (3, 5), (7,)


@pytest.fixture(scope="module")
def made() -> Searched:
    return searched(dropped=DROPPED, failed=FAILED, proposals=14)


@pytest.fixture(scope="module")
def folder(made: Searched, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("searched") / "study"
    write_records(place, made.plan, made.runs, made.search)
    return place


@pytest.fixture(scope="module")
def analysis(folder: Path) -> ReportData:
    return build_report_data(read_records(folder))


def test_the_latest_search_that_was_written_counts(study: Path) -> None:
    first = read_wandb_files(study)
    assert len(first.search.systems["T-LS"].proposals) == 14
    stored = json.loads((study / "search.json").read_text())
    stored["systems"]["T-LS"]["proposals"] = stored["systems"]["T-LS"]["proposals"][:2]
    (study / "search.json").write_text(json.dumps(stored))
    plan = json.loads((study / "plan.json").read_text())["plan"]
    write_wandb(study, plan, [], search=stored)
    second = read_wandb_files(study)
    assert len(second.search.systems["T-LS"].proposals) == 2
    assert content_of(second) == content_of(read_records(study))
    assert len(second.runs) == len(first.runs)


def test_what_search_json_says_is_what_the_runs_say(made: Searched, analysis: ReportData) -> None:
    found = {c.id: c for c in analysis.configurations}
    for system in made.systems.values():
        for proposal in system["proposals"]:
            values = found[proposal["configuration_id"]].evaluate_queries(analysis.results.plan, "search")
            assert (values is not None) == (proposal["state"] == "complete")
            if values is not None:
                assert values.mean() == pytest.approx(proposal["mean"])


def test_systems_are_compared_on_test_with_the_fresh_seeds(made: Searched, analysis: ReportData) -> None:
    table = per_query(analysis.results, "test", "R10@1")
    assert set(table["seed"].dropna()) == {11, 12}
    means = table.groupby(["system", "query_id"])["value"].mean().unstack(0)
    for c in analysis.comparisons:
        assert c.targets["queries"].p == pytest.approx(stats.ttest_rel(means[c.system], means[c.baseline]).pvalue)
    for row in analysis.table.rows:
        if row.system in made.systems:
            assert row.configuration == made.systems[row.system]["winner"]
            dev = [run for run in made.runs if run.configuration == row.configuration and run.seed in (1, 2, 3)]
            assert row.dev[0] == pytest.approx(np.mean([metric(run.scores["dev"]) for run in dev]))
    assert "2 fresh seeds, which no choice has seen" in " ".join(render_text(build_document(analysis)).split())
    assert not any("undeclared" in note for note in analysis.table.notes)


def test_without_confirmation_test_scores_belong_to_the_seeds_of_the_search(tmp_path: Path) -> None:
    made = searched(fresh=(), proposals=3, queries=(10, 20))
    write_records(tmp_path, made.plan, made.runs, made.search)
    analysis = build_report_data(read_records(tmp_path))
    assert analysis.table.seeds == 3
    assert analysis.confirmed == []
    assert all(c.difference is not None for c in analysis.comparisons)
    assert "Search, confirmed and test" not in render_text(build_document(analysis))


def test_what_the_race_dropped_is_no_fault_and_is_never_chosen(made: Searched, analysis: ReportData) -> None:
    lost = {made.systems["T-LS"]["proposals"][number]["configuration_id"] for number in DROPPED}
    assert {c.id for c in analysis.configurations if c.pruned} == lost
    (incomplete,) = [note for note in analysis.table.notes if "is incomplete" in note]
    assert "seed 3 failed" in incomplete
    (dropped,) = [note for note in analysis.table.notes if "pruned by racing" in note]
    assert dropped.startswith("pruned by racing after 1 of 3 seeds: T-LS (")
    assert all(f"[{key}]" in dropped for key in lost)
    run = next(run for run in analysis.results.runs if run.config["configuration_id"] in lost)
    run.files["test"] = next(run.files["test"] for run in analysis.results.runs if "test" in run.files)
    again = build_report_data(analysis.results)
    del run.files["test"]
    assert {name: c and c.id for name, c in again.chosen.items()} == {n: c and c.id for n, c in analysis.chosen.items()}
    assert any("it was pruned by racing" in note for note in again.table.notes)


def test_test_scores_do_not_make_a_dropped_configuration_the_chosen_one(tmp_path: Path) -> None:
    made = searched(proposals=3, queries=(10, 20))
    system = made.systems["T-LS"]
    winner = next(p for p in system["proposals"] if p["configuration_id"] == system["winner"])
    write_records(tmp_path / "before", made.plan, made.runs, made.search)
    chosen = build_report_data(read_records(tmp_path / "before")).chosen["T-LS"]
    assert chosen.id == system["winner"]
    winner["state"] = "dropped"
    write_records(tmp_path / "after", made.plan, made.runs, made.search)
    assert build_report_data(read_records(tmp_path / "after")).chosen["T-LS"] is None


def test_the_luck_of_a_search_by_hand(made: Searched, analysis: ReportData) -> None:
    def mean(configuration: str, seeds: tuple[int, ...], split: str = "dev") -> float:
        own = [run for run in made.runs if run.configuration == configuration and run.seed in seeds]
        assert len(own) == len(seeds)
        return float(np.mean([metric(run.scores[split]) for run in own]))

    rows = {(row.system, row.tuned): row for row in analysis.confirmed}
    assert list(rows) == [("LS", True), ("LS", False), ("T-LS", True), ("T-LS", False)]
    for name, system in made.systems.items():
        won, default = system["winner"], system["untuned"]
        row, other = rows[name, True], rows[name, False]
        gain, fresh = (mean(won, seeds) - mean(default, seeds) for seeds in ((1, 2, 3), (11, 12)))
        assert (row.gain, row.fresh_gain, row.optimism) == pytest.approx((gain, fresh, gain - fresh))
        assert row.test[0] == pytest.approx(mean(won, (11, 12), "test"))
        assert other.confirmed[0] == pytest.approx(mean(default, (11, 12)))
        assert (other.gain, other.test) == (None, None)
    document = build_document(analysis)
    for shown in (render_markdown(document), render_html(document)):
        assert "Search, confirmed and test" in shown
        assert f"{rows['T-LS', True].gain:+.4f}" in shown


def test_a_default_outside_the_grid_has_a_gain_on_fresh_seeds_only(tmp_path: Path) -> None:
    made = searched(proposals=4, queries=(10, 20))
    system = made.systems["T-LS"]
    default = system["untuned"]
    system["proposals"] = [p for p in system["proposals"] if p["configuration_id"] != default]
    runs = [run for run in made.runs if run.configuration != default or run.role == "confirm"]
    write_records(tmp_path, made.plan, runs, made.search)
    analysis = build_report_data(read_records(tmp_path))
    row = next(row for row in analysis.confirmed if (row.system, row.tuned) == ("T-LS", True))
    assert (row.gain, row.optimism) == (None, None)
    assert row.fresh_gain is not None
    shown = render_markdown(build_document(analysis))
    assert "The default is not in the grid of T-LS" in shown
    assert "not in the grid of LS" not in shown
    assert "## Search\n\n- T-LS is incomplete: seed 1 is missing" in shown  # its test scores are complete


def test_a_winner_that_is_the_default_has_nothing_to_gain(tmp_path: Path) -> None:
    made = searched(proposals=3, queries=(10, 20))
    for system in made.systems.values():
        system["untuned"] = system["winner"]
    write_records(tmp_path, made.plan, made.runs, made.search)
    analysis = build_report_data(read_records(tmp_path))
    rows, section = analysis.confirmed, build_confirmation_section(analysis.results.plan, analysis.confirmed)
    assert [(row.gain, row.fresh_gain, row.optimism) for row in rows] == [(0.0, 0.0, 0.0)] * 2
    assert all("= default" in cells[1] for cells in section.rows)


def test_the_notes_say_what_the_search_did_not_do(made: Searched, tmp_path: Path) -> None:
    changed = searched(dropped=(2,), proposals=5, queries=(10, 20))
    changed.systems["T-LS"] |= {"stopped": "search.hours", "wanted": 12}
    write_records(tmp_path, changed.plan, changed.runs, changed.search)
    told = list_search_notes(build_report_data(read_records(tmp_path)))
    stopped = "search.hours stopped the search of T-LS after 5 of 12 proposals"
    assert f"{stopped}; with such a limit the results depend on the machine" in told
    assert any(note.startswith("Racing pruned 1 of 9 configurations") for note in told)


def test_fresh_runs_are_told_apart_in_the_results(analysis: ReportData) -> None:
    rows = list(csv.DictReader(build_runs_frame(analysis).to_csv(index=False).splitlines()))
    for row in rows:
        assert (row["role"] == "confirm") == (row["seed"] in ("11", "12"))
    assert {row["role"] for row in rows} == {"search", "confirm", "baseline"}
    labels = {c.label for c in collect_configurations(analysis.results)}
    assert len([label for label in labels if label.startswith("T-LS")]) == 14
    assert {"LS (ε 0.1)", "LS (ε 0.2)", "BERT", "BM25"} < labels


def test_the_order_of_candidates_is_worked_out_once_and_never_mistaken(folder: Path, tmp_path: Path) -> None:
    results = read_records(folder)
    runs = [run for run in results.runs if "dev" in run.files][:6]
    alone = [Evaluator().evaluate_queries(run.files["dev"], "dev", "R10@1", "") for run in runs]
    shared = Evaluator()
    for number, run in enumerate(runs):
        frame = run.read_scores("dev").sample(frac=1, random_state=number) if number % 2 else run.read_scores("dev")
        frame.to_parquet(tmp_path / f"{number}.parquet", index=False)
        values = shared.evaluate_queries(tmp_path / f"{number}.parquet", "dev", "R10@1", "")
        assert values.equals(alone[number])
    again = [shared.evaluate_queries(run.files["dev"], "dev", "R10@1", "") for run in runs]
    assert again[0].index is again[-1].index


def test_a_file_of_several_splits(tmp_path: Path, folder: Path) -> None:
    run = next(run for run in read_records(folder).runs if "test" in run.files)
    both = pd.concat([run.read_scores("dev"), run.read_scores("test")])
    both.to_parquet(tmp_path / "both.parquet")
    for split in ("dev", "test"):
        found = Evaluator().evaluate_queries(tmp_path / "both.parquet", split, "R10@1", "")
        assert found.equals(run.evaluate_queries(split, "R10@1"))
