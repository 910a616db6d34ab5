"""The kept records of a study give its tables again, and the results pages have these tables."""

import pytest

from analysis.readers.study_reader import read_records
from analysis.rendering.conclusion import write_conclusion
from analysis.tables.main import build_report_data
from docs.scripts import evidence, kept_studies
from tests.analysis.builders import plan_of, study_runs, write_records
from tests.analysis.searching import searched

KEPT = sorted(path.stem for path in kept_studies.FOLDER.glob("*.json"))
LARGEST = 400_000
"""Bytes that the files of one study may take in the repository."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("most_scores", "changes"),
    [
        (100_000, {}),
        (0, {"margin": 0.5}),
        (100_000, {"seed_variance": "pooled"}),
        (0, {"confirm_seeds": [1, 2, 3, 4], "group_size": 2}),
    ],
    ids=["scores own", "results margin", "scores pooled", "results sequential"],
)
def test_the_comparisons_made_from_what_is_kept_are_those_of_the_report(tmp_path, changes, most_scores, monkeypatch):
    monkeypatch.setattr(kept_studies, "_MOST_SCORES", most_scores)
    runs = study_runs(seeds=(1, 2, 3, 4))
    plan = plan_of(runs, seeds=[1, 2, 3, 4], **changes)
    corrections = {"variants": "holm", "sanity": "bonferroni"}
    for family in plan["families"]:
        family["correction"] = corrections[family["name"]]
    write_records(tmp_path / "study", plan, runs)
    report = build_report_data(read_records(tmp_path / "study"))
    kept_studies.keep_evidence("made", str(tmp_path / "study"), tmp_path)
    again = {(c.family, c.system, c.baseline): c for c in kept_studies.compare_kept("made", tmp_path)}
    declared = [c for c in report.comparisons if c.metric == report.results.plan.metric]
    assert len(again) == len(declared) == 7
    for c in declared:
        own = again[c.family, c.system, c.baseline]
        assert own.verdict == c.verdict
        assert own.difference == pytest.approx(c.difference, abs=1e-7)
        assert own.interval == pytest.approx(c.interval, abs=1e-6)
        assert own.p == pytest.approx(c.p, abs=1e-6)
        assert own.corrected == pytest.approx(c.adjusted[corrections[c.family]], abs=1e-6)
    assert (tmp_path / "made.parquet").exists() == bool(most_scores)
    tables = evidence.format_tables("made", tmp_path)
    assert write_conclusion(report) in " ".join(tables.replace("\n> ", "\n").split())
    for row in report.table.rows:
        assert f"| {row.test[0]:.4f}" in next(
            line for line in tables.splitlines() if line.startswith(f"| {row.system} |")
        )


def test_what_racing_and_looks_saved_is_kept(tmp_path):
    raced = searched(dropped=(3, 5), failed=(), proposals=9)
    write_records(tmp_path / "raced", raced.plan | {"pruning": "race"}, raced.runs, raced.search)
    kept_studies.keep_evidence("raced", str(tmp_path / "raced"), tmp_path)
    proposals = [proposal for system in raced.search["systems"].values() for proposal in system["proposals"]]
    given_up = [proposal for proposal in proposals if proposal["state"] == "dropped"]
    missing = sum(len(raced.plan["seeds"]) - len(proposal["seeds"]) for proposal in given_up)
    assert missing > 0
    assert kept_studies.read_summary("raced", tmp_path)["saved"] == {"raced": missing}

    seeds = list(range(1, 9))
    runs = study_runs(seeds=tuple(seeds), grid=False)
    changes = {"confirm_seeds": seeds, "group_size": 4, "margin": 0.9}
    write_records(tmp_path / "looks", plan_of(runs, seeds=seeds, **changes), runs)
    kept_studies.keep_evidence("looks", str(tmp_path / "looks"), tmp_path)
    assert kept_studies.read_summary("looks", tmp_path)["saved"] == {"seeds": 4, "planned_seeds": 8}


def test_pages_and_figures_are_those_made_from_what_is_kept():
    outputs = evidence.make_outputs()
    assert [path for path, text in outputs.items() if path.read_text("utf-8") != text] == []
    pages = {path: text for path, text in outputs.items() if path.suffix == ".md"}
    for name in KEPT:
        assert any(evidence.format_tables(name) in text for text in pages.values())
        for kind in ("effects", "losses"):
            assert any(f"evidence-{name}-{kind}.svg" in text for text in pages.values())
        assert sum(path.stat().st_size for path in kept_studies.FOLDER.glob(f"{name}.*")) < LARGEST


def test_a_page_gets_the_tables_of_the_names_in_it(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    new = f"<!-- evidence: {KEPT[1]} -->\n\n<!-- end of evidence -->\n\nAfter.\n"
    page.write_text(
        f"Before.\n\n<!-- evidence: {KEPT[0]} -->\n\n| old |\n\n<!-- end of evidence -->\n\nBetween.\n\n{new}"
    )
    monkeypatch.setattr(evidence, "PAGES", tmp_path)
    monkeypatch.setattr(evidence, "IMAGES", tmp_path)
    evidence.main(["write"])
    text = page.read_text("utf-8")
    assert "| old |" not in text
    assert text.startswith("Before.\n\n<!-- evidence: ")
    assert text.endswith("\n\n<!-- end of evidence -->\n\nAfter.\n")
    assert f"{evidence.format_tables(KEPT[0])}\n\n<!-- end of evidence -->\n\nBetween.\n" in text
    assert evidence.format_tables(KEPT[1]) in text
    assert (tmp_path / f"evidence-{KEPT[0]}-effects.svg").read_text("utf-8").startswith("<?xml")


def test_the_overviews_have_every_kept_study():
    assert sorted(evidence.read_overview([])["studies"]) == KEPT
    for claim in evidence.read_overview([])["claims"]:
        c = evidence.get_comparison(claim["study"], claim["system"], claim["baseline"])
        (row,) = [row for row in evidence.format_claims([]) if row[0] == claim["claim"]]
        assert row[2].startswith(f"{c.difference:+.4f} [")
        assert row[3].startswith(c.verdict)
    assert len(evidence.format_cost([])) == 1 + len(KEPT)
    first = next(iter(evidence.read_overview([])["studies"]))
    rows = evidence.format_evidence(f"cost {first}").splitlines()
    assert len(rows) == 3
    own = rows[2].strip("| ").split(" | ")
    assert evidence.format_cost([])[1][: len(own)] == own  # with columns of looks behind, if any has them


def test_the_baselines_are_compared_with_bm25_and_the_untrained():
    name = "smoothing-qqp-bm25"
    (cells,) = evidence.format_baselines([name])[1:]
    assert cells[1:3] == ["R10@1", "BERT"]
    systems, comparisons, _ = (
        [line.strip("| ").split(" | ") for line in table.splitlines()]
        for table in evidence.format_tables(name).split("\n\n")
    )
    scores = {line[0]: line[4] for line in systems[2:]}
    differences = {(line[0], line[1]): f"{line[2]} {line[3]}" for line in comparisons[2:]}
    assert [cells[3], cells[4], cells[6]] == [scores[system] for system in ("BERT", "BM25", "untrained")]
    assert [cells[5], cells[7]] == [differences["BERT", other] for other in ("BM25", "untrained")]
