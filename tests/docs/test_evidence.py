"""The kept records of a study give its tables again, and the results pages have these tables."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.archive import FILE, load_scores
from analysis.data.score_table import build_score_table
from analysis.readers.study_reader import read_records
from analysis.rendering.cells import format_p_value
from analysis.stats.paired_tests import estimate_over_both
from analysis.suites.comparisons import build_suite_data
from analysis.suites.suite_results import read_suite_folder
from analysis.tables.main import build_report_data
from benchmarks.statistics import replication
from docs.scripts import evidence, kept_studies
from tests.analysis.builders import plan_of, study_runs, write_records
from tests.analysis.similarity import encoder_plan, encoder_runs
from tests.analysis.suites.builders import write_suite
from trainables.utils.checksums import DamagedError
from trainables.utils.errors import UserError

KEPT = sorted(path.stem for path in kept_studies.FOLDER.glob("*.json"))
SHOWN = sorted(evidence.read_overview().keys() - {"claims"})
"""Kept studies with a page; of the others, the archive alone has scores."""
LARGEST = 1_000_000
"""Bytes that a kept file may take in the repository."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"margin": 0.5}, {"seed_variance": "pooled"}, {"confirm_seeds": [1, 2, 3, 4], "group_size": 2}],
    ids=["own", "pooled", "sequential"],
)
def test_the_comparisons_made_from_what_is_kept_are_those_of_the_report(tmp_path, changes):
    archive = tmp_path / "scores.parquet"
    runs = study_runs(seeds=(1, 2, 3, 4))
    plan = plan_of(runs, seeds=[1, 2, 3, 4], **changes)
    corrections = {"variants": "holm", "sanity": "bonferroni"}
    for family in plan["families"]:
        family["correction"] = corrections[family["name"]]
    write_records(tmp_path / "study", plan, runs)
    report = build_report_data(read_records(tmp_path / "study"))
    kept_studies.keep_evidence("made", str(tmp_path / "study"), tmp_path, archive)
    again = {(c.family, c.system, c.baseline): c for c in kept_studies.compare_kept("made", tmp_path, archive)}
    declared = [c for c in report.comparisons if c.metric == report.results.plan.metric]
    assert len(again) == len(declared) == 7
    for c in declared:
        own = again[c.family, c.system, c.baseline]
        assert own.verdict == c.verdict
        assert own.difference == pytest.approx(c.difference, abs=1e-7)
        assert own.interval == pytest.approx(c.interval, abs=1e-6)
        assert own.p == pytest.approx(c.p, abs=1e-6)
        assert own.corrected == pytest.approx(c.adjusted[corrections[c.family]], abs=1e-6)
    kept = load_scores("made", archive)
    assert {*kept.loc[kept["trained"], "system"]} == {*kept["system"]} - {"BM25", "untrained"}
    rows = evidence.format_results(["made"], tmp_path, archive)[1:]
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
    assert {*SHOWN, *replication.TABLES, "archive", "claims"} <= {*marked}
    assert {*marked} & {*KEPT} == {*SHOWN}
    for path in (FILE, *kept_studies.FOLDER.glob("*.json")):
        assert path.stat().st_size < LARGEST


def test_a_correlation_is_kept_as_means_of_seeds_and_comparisons(tmp_path):
    runs = encoder_runs()
    write_records(tmp_path / "study", encoder_plan(runs), runs)
    report = build_report_data(read_records(tmp_path / "study"))
    kept_studies.keep_evidence("made", str(tmp_path / "study"), tmp_path, tmp_path / "scores.parquet")
    assert not (tmp_path / "scores.parquet").exists()
    again = {(c.family, c.system, c.baseline): c.difference for c in kept_studies.compare_kept("made", tmp_path)}
    declared = [c for c in report.comparisons if c.metric == report.results.plan.metric]
    assert again == {(c.family, c.system, c.baseline): c.difference for c in declared}
    means = kept_studies.average_seeds("made", tmp_path)
    for row in report.table.rows:
        assert np.mean(means[row.system]) == pytest.approx(row.test[0], abs=1e-5)


def test_the_archive_has_a_study_once_and_is_checked_when_it_is_read(tmp_path):
    file, scores = tmp_path / "scores.parquet", load_scores("smoothing-qqp-bm25")
    other = scores.assign(study="other", value=scores["value"] + 1)
    for own in (other, scores.iloc[:5], scores):
        kept_studies.add_scores(own, file)
    pd.testing.assert_frame_equal(load_scores("smoothing-qqp-bm25", file), scores)
    assert load_scores("other", file)["value"].tolist() == other["value"].tolist()
    with pytest.raises(UserError, match=r"^study: none; expected one of other, smoothing-qqp-bm25$"):
        load_scores("none", file)
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedError, match="does not match its checksum"):
        load_scores(file=file)


def test_the_archive_has_each_query_of_each_run_once():
    scores = load_scores()
    assert not scores.duplicated(["study", "system", "seed", "query"]).any()
    assert sorted(set(KEPT) - set(scores["study"])) == [name for name in KEPT if name.startswith("noise-")]
    for _, own in scores.groupby("study", observed=True):
        runs = own.fillna({"seed": -1}).groupby(["system", "seed"], observed=True)["query"].nunique()
        assert runs.nunique() == 1


def test_a_page_gets_the_tables_of_the_names_in_it(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    new = "<!-- evidence: noise-0-1 noise-0-2 -->\n\n<!-- end of evidence -->\n\nAfter.\n"
    page.write_text(
        f"Before.\n\n<!-- evidence: {SHOWN[0]} -->\n\n| old |\n\n<!-- end of evidence -->\n\nBetween.\n\n{new}"
    )
    monkeypatch.setattr(evidence, "PAGES", tmp_path)
    monkeypatch.setattr(evidence, "CARD", page)
    evidence.main(["write"])
    text = page.read_text("utf-8")
    assert "| old |" not in text
    assert text.startswith("Before.\n\n<!-- evidence: ")
    assert text.endswith("\n\n<!-- end of evidence -->\n\nAfter.\n")
    one, both = [SHOWN[0]], ["noise-0-1", "noise-0-2"]
    assert f"{evidence.format_table(evidence.format_results(one))}\n\n<!-- end of evidence -->\n\nBetween.\n" in text
    assert evidence.format_table(evidence.format_results(both)) in text
    for name in both:
        alone = evidence.format_results([name])[1:]
        assert [
            row[1:] for row in evidence.format_results(both) if row[0] == evidence.read_overview()[name]["title"]
        ] == alone


def test_the_claims_are_declared_comparisons_and_corrected_together():
    claims, rows = evidence.read_overview()["claims"], evidence.format_claims()[1:]
    assert len(rows) == len(claims)
    for claim, row in zip(claims, rows, strict=True):
        names, pair = claim["studies"], (claim["system"], claim["baseline"])
        declared = [c for name in names for c in kept_studies.compare_kept(name) if (c.system, c.baseline) == pair]
        assert len(declared) == len(names)
        difference = np.mean([c.difference for c in declared])
        assert row[1:3] == [f"{pair[0]} over {pair[1]}", claim["published"]]
        assert row[3].startswith(f"{difference:+.4f} [")
        if len(names) == 1:
            assert row[4] == format_p_value(min(1.0, declared[0].p * len(claims)))


def test_the_mean_over_kept_studies_is_that_of_a_suite(tmp_path):
    write_suite(tmp_path / "suite")
    data = build_suite_data(read_suite_folder(tmp_path / "suite"))
    for name in ("bm25-qqp", "bm25-mantis"):
        kept_studies.keep_evidence(name, str(tmp_path / "suite" / name), tmp_path, tmp_path / "scores.parquet")
    kept = kept_studies.average_kept(("bm25-qqp", "bm25-mantis"), tmp_path, tmp_path / "scores.parquet")
    averages = {(each.system, each.baseline): each for each in data.averages if each.labels == ("BM25",)}
    assert len(kept) == len(averages)
    for c in kept:
        same = averages[c.system, c.baseline]
        assert c.difference == pytest.approx(same.difference, abs=1e-6)
        assert c.p == pytest.approx(same.test.p, abs=1e-6)
        assert c.corrected == pytest.approx(min(1.0, same.test.p * len(kept)), abs=1e-5)


@pytest.mark.parametrize(
    ("interval", "verdict"), [((-0.004, 0.004), "equivalent"), ((-0.006, 0.001), "undecided"), (None, "undecided")]
)
def test_a_page_says_equivalent_only_where_the_interval_is_within_the_margin(interval, verdict):
    c = kept_studies.KeptComparison("variants", "MAP", "LS", "BERT", 0.0, interval, 0.9, 1.0, "equivalent")
    assert evidence._format_verdict(c, 0.005) == verdict


def test_published_runs_are_compared_as_runs():
    header, first, *_ = evidence.format_runs("curriculum-2020.table-4", ["CL-random", "CL-BERT_pred"])
    runs = [0.7272, 0.7159, 0.7296, 0.7154, 0.7322], [0.7142, 0.7044, 0.7126, 0.7031, 0.7148]
    test = stats.ttest_rel(*runs)
    assert first[:3] == ["MSDialog", "CL-BERT_pred", "CL-random"]
    assert first[3].startswith("+0.0142 [")
    assert header[-1] == "p x 14"
    assert first[5:] == [format_p_value(test.pvalue), format_p_value(14 * test.pvalue)]


def test_a_control_is_compared_with_the_same_system_of_the_study_with_the_same_seeds():
    own, mean = kept_studies.average_control(("smoothing-qqp-bm25",), ("smoothing-qqp-random",), "BERT")
    tables = [build_score_table(load_scores(f"smoothing-qqp-{name}")).values["BERT"] for name in ("bm25", "random")]
    same = estimate_over_both(tables[0] - tables[1])
    assert own == pytest.approx([same.mean])
    assert mean == pytest.approx(same)
    header, row = evidence.format_control("BERT", ["control-docstrings", "smoothing-docstrings"])
    assert len(header) == len(row)
    assert row[3].startswith(f"{row[2]} [")
