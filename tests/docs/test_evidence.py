"""The kept records of a study give its tables again, and the results pages have these tables."""

import re

import pytest

from analysis.readers.study_reader import read_records
from analysis.tables.main import build_report_data
from docs.scripts import evidence, kept_studies
from tests.analysis.builders import plan_of, study_runs, write_records

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
    rows = evidence.format_results(["made"], tmp_path)[1:]
    for row in report.table.rows:
        assert [own for own in rows if own[0] == row.system and own[1].startswith(f"{row.test[0]:.4f}")]
    verdicts = {(own[0], own[2]): own[3:] for own in rows}
    for c in declared:
        difference, verdict = verdicts[c.system, c.baseline]
        assert difference.startswith(f"{c.difference:+.4f} [{c.interval[0]:+.4f}, ")
        assert verdict.split()[0] == c.verdict


def test_pages_have_the_tables_made_from_what_is_kept():
    pages = evidence.make_pages()
    assert [path for path, text in pages.items() if path.read_text("utf-8") != text] == []
    marked = " ".join(re.findall("<!-- evidence: (.+?) -->", "".join(pages.values()))).split()
    assert sorted(marked) == sorted([*KEPT, "claims"])
    for name in KEPT:
        assert sum(path.stat().st_size for path in kept_studies.FOLDER.glob(f"{name}.*")) < LARGEST


def test_a_page_gets_the_tables_of_the_names_in_it(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    new = "<!-- evidence: noise-0-1 noise-0-2 -->\n\n<!-- end of evidence -->\n\nAfter.\n"
    page.write_text(
        f"Before.\n\n<!-- evidence: {KEPT[0]} -->\n\n| old |\n\n<!-- end of evidence -->\n\nBetween.\n\n{new}"
    )
    monkeypatch.setattr(evidence, "PAGES", tmp_path)
    evidence.main(["write"])
    text = page.read_text("utf-8")
    assert "| old |" not in text
    assert text.startswith("Before.\n\n<!-- evidence: ")
    assert text.endswith("\n\n<!-- end of evidence -->\n\nAfter.\n")
    one, both = [KEPT[0]], ["noise-0-1", "noise-0-2"]
    assert f"{evidence.format_table(evidence.format_results(one))}\n\n<!-- end of evidence -->\n\nBetween.\n" in text
    assert evidence.format_table(evidence.format_results(both)) in text
    for name in both:
        alone = evidence.format_results([name])[1:]
        assert [
            row[1:] for row in evidence.format_results(both) if row[0] == evidence.read_overview()[name]["title"]
        ] == alone


def test_the_claims_are_declared_comparisons_of_every_kept_study():
    overview = evidence.read_overview()
    assert sorted(overview) == KEPT
    claims = [(name, *claim) for name, study in overview.items() for claim in study["claims"]]
    rows = evidence.format_claims()[1:]
    assert len(rows) == len(claims)
    for (name, system, baseline, published), row in zip(claims, rows, strict=True):
        (c,) = [c for c in kept_studies.compare_kept(name) if (c.system, c.baseline) == (system, baseline)]
        assert row[1:3] == [f"{system} over {baseline}", published]
        assert row[3].startswith(f"{c.difference:+.4f} [")
        assert row[4].startswith(c.verdict)
        assert row[0] == "" or row[0].startswith(f"[{overview[name]['title']}](")
