"""What is kept of a study gives its tables again, and the results pages have these tables."""

from pathlib import Path

import pytest

from analysis.readers.results import read_records
from analysis.tables.main import build_report_data
from docs.scripts import evidence
from tests.analysis.builders import plan_of, study_runs, write_records

KEPT = sorted(path.stem for path in evidence.FOLDER.glob("*.json"))
LARGEST = 400_000
"""Bytes that the files of one study may take in the repository."""


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"margin": 0.5}, {"seed_variance": "pooled"}], ids=["own", "margin", "pooled"])
def test_the_comparisons_made_from_what_is_kept_are_those_of_the_report(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    runs = study_runs(seeds=(1, 2, 3))
    plan = plan_of(runs, seeds=[1, 2, 3], **changes)
    corrections = {"variants": "holm", "sanity": "bonferroni"}
    for family in plan["families"]:
        family["correction"] = corrections[family["name"]]
    write_records(tmp_path / "study", plan, runs)
    report = build_report_data(read_records(tmp_path / "study"))
    evidence.keep_evidence("made", str(tmp_path / "study"), tmp_path)
    again = {(c.family, c.system, c.baseline): c for c in evidence.compare_kept("made", tmp_path)}
    declared = [c for c in report.comparisons if c.metric == report.results.plan.metric]
    assert len(again) == len(declared) == 7
    for c in declared:
        own = again[c.family, c.system, c.baseline]
        assert (own.verdict, own.comparisons) == (c.verdict, c.comparisons)
        assert own.difference == pytest.approx(c.difference, abs=1e-7)
        assert own.interval == pytest.approx(c.interval, abs=1e-6)
        decisive = corrections[c.family]
        assert own.adjusted[decisive] == pytest.approx(c.adjusted[decisive], abs=1e-6)
    tables = evidence.format_tables("made", tmp_path)
    for row in report.table.rows:
        assert row.test is not None
        assert f"| {row.test[0]:.4f}" in next(
            line for line in tables.splitlines() if line.startswith(f"| {row.system} |")
        )


def test_pages_and_figures_are_those_made_from_what_is_kept() -> None:
    outputs = evidence.make_outputs()
    assert [path for path, text in outputs.items() if path.read_text("utf-8") != text] == []
    pages = {path: text for path, text in outputs.items() if path.suffix == ".md"}
    for name in KEPT:
        assert any(evidence.format_tables(name) in text for text in pages.values())
        for kind in ("effects", "losses"):
            assert any(f"evidence-{name}-{kind}.svg" in text for text in pages.values())
        assert sum(path.stat().st_size for path in evidence.FOLDER.glob(f"{name}.*")) < LARGEST


def test_a_page_gets_the_tables_of_the_names_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n\n<!-- evidence: {KEPT[0]} -->\n\n| old |\n\n<!-- end of evidence -->\n\nAfter.\n")
    monkeypatch.setattr(evidence, "PAGES", tmp_path)
    monkeypatch.setattr(evidence, "IMAGES", tmp_path)
    assert evidence.main(["write"]) == 0
    text = page.read_text("utf-8")
    assert "| old |" not in text
    assert text.startswith("Before.\n\n<!-- evidence: ")
    assert text.endswith("\n\n<!-- end of evidence -->\n\nAfter.\n")
    assert evidence.format_tables(KEPT[0]) in text
    assert (tmp_path / f"evidence-{KEPT[0]}-effects.svg").read_text("utf-8").startswith("<?xml")
