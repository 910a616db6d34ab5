"""The page of a report, without a browser: well formed, escaped, alone, complete; its Markdown and terminal text."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from analysis.data.measured_cost import compute_cost
from analysis.readers.study_reader import read_records
from analysis.rendering.cells import format_p_value, format_terminal_table
from analysis.rendering.conclusion import answer_study
from analysis.rendering.document import build_document, render_html, render_latex, render_markdown, render_text
from analysis.rendering.sections import Section, build_run_section, build_test_section, describe_plan
from analysis.tables.main import ReportData, build_report_data
from tests.analysis.builders import PLAN, STATISTICS, Made, analyse, plan_of, scores, study_runs, write_records
from tests.damages import DAMAGES
from trainables.utils.files import write_json

EVIL = "<script>alert(1)</script>&\"'|</style>"
_VOID = {"meta", "img", "br"}


class _Page(HTMLParser):
    """Checks that every element is closed in its order; collects elements, attributes, tables' cells and all text."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.words: dict[str, str] = {}
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & {*self.open}:
            self.tables[-1][-1][-1] += data
        if self.open:
            self.words[self.open[-1]] = self.words.get(self.open[-1], "") + data


def _render_all(analysis: ReportData) -> list[str]:
    document = build_document(analysis)
    return [render(document) for render in (render_html, render_markdown, render_latex)]


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> ReportData:
    return analyse(tmp_path_factory.mktemp("page") / "study", study_runs())


def test_the_page_is_well_formed_and_needs_nothing_else(analysis: ReportData) -> None:
    source = render_html(build_document(analysis), {"effects": b"<svg/>"})
    found = _Page(source)
    assert {"link", "iframe", "object"}.isdisjoint(tag for tag, _ in found.elements)
    for tag, attributes in found.elements:
        if tag in ("img", "script"):
            assert (attributes.get("src") or "data:").startswith("data:")
        assert not any(name.startswith("on") or name in ("style", "srcset") for name in attributes)
    (style,), (script,) = (re.findall(rf"<{tag}>(.*?)</{tag}>", source, re.DOTALL) for tag in ("style", "script"))
    assert "url(" not in style
    assert "@import" not in style
    policy = next(a["content"] for tag, a in found.elements if tag == "meta" and "http-equiv" in a) or ""
    assert "default-src 'none'" in policy
    for kind, content in (("style", style), ("script", script)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


def test_every_format_but_the_terminal_shows_the_data_if_it_was_written(analysis: ReportData, tmp_path: Path) -> None:
    without = _render_all(analysis)
    made = study_runs()
    write_records(tmp_path, plan_of(made), made, statistics=STATISTICS | {"legend": EVIL})
    shown = build_report_data(read_records(tmp_path))
    assert shown.results.plan_hash == analysis.results.plan_hash
    page, markdown, latex = _render_all(shown)
    rows = [["queries", "1,234", "40", "60"], ["words per query", "8.0", "7.3", "-"]]
    assert [["statistic", "train", "dev", "test"], *rows] in _Page(page).tables
    assert EVIL in _Page(page).words["p"]
    assert "1,234 | 40 | 60" in markdown
    assert "1,234 & 40 & 60" in latex
    for old, new in zip(without, (page, markdown, latex), strict=True):
        assert "1,234" not in old
        assert len(new) > len(old)
    assert "tab:data" in latex


def test_the_page_begins_with_the_answer_and_folds_all_else(analysis: ReportData) -> None:
    source, answer = render_html(build_document(analysis), {"effects": b"<svg/>"}), answer_study(analysis)
    found, tags = _Page(source), [tag for tag, _ in _Page(source).elements]
    assert html.unescape(source).index(answer.sentence) < html.unescape(source).index(answer.line)
    assert tags.index("table") < tags.index("img") < tags.index("details")
    assert found.tables[0] == [
        answer.table.header,
        *([c.replace("± ", "±\N{NO-BREAK SPACE}") for c in row] for row in answer.table.rows),
    ]
    assert found.words["h2"] == "All testsDataSearchReproduce"
    assert not any("open" in attributes for tag, attributes in found.elements if tag == "details")
    assert "beforeprint" in found.words["script"]
    assert f"plan {analysis.results.plan_hash}" in found.words["li"]


def test_every_format_has_the_line_and_the_warnings_before_what_is_folded(analysis: ReportData) -> None:
    document = replace(build_document(analysis), warnings=["T-LS seed 3 looks collapsed", "BERT is incomplete"])
    page, text = render_html(document), render_markdown(document)
    first = html.unescape(page).partition("<details")[0], text.partition("\n## ")[0], render_text(document)
    for shown in (" ".join(own.replace("\\", "").split()) for own in first):
        for said in (document.answer.sentence, document.answer.line, *document.warnings):
            assert said in shown
    plan = html.unescape(page).partition("<summary>Plan</summary><pre>")[2].partition("</pre>")[0]
    assert json.loads(plan) == analysis.results.plan.model_dump(mode="json")


def test_the_terminal_shows_the_first_screen_and_where_the_page_is(analysis: ReportData) -> None:
    text = render_text(build_document(analysis), Path("here/report.html"))
    assert len(text.splitlines()) <= 25
    assert max(map(len, text.splitlines())) <= 100
    assert text.splitlines()[-1] == "All else: here/report.html"
    assert " ".join(text.split()).startswith(answer_study(analysis).sentence)


def test_the_cost_is_what_the_runs_say(tmp_path: Path) -> None:
    made = study_runs(seeds=(1,), grid=False)
    made[2].state = "failed"
    write_records(tmp_path, plan_of(made, seeds=[1]), made)
    for number, path in enumerate(sorted(tmp_path.glob("runs/*/record.json"))):
        record = json.loads(path.read_text())
        record["summary"] |= {"seconds": 100.0 * number, "instances_reused": 160}
        path.write_text(json.dumps(record))
    for path in sorted(tmp_path.glob("runs/*/test.json"))[:2]:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"summary": {"test/seconds": 750.0}}))
    found = build_report_data(read_records(tmp_path))
    spent = compute_cost(found.results)
    assert (spent.runs, spent.failed, spent.trained, spent.shared) == (7, 1, 7 * 640, 7 * 160)
    assert spent.hours == pytest.approx((2100 + 1500) / 3600)
    assert describe_plan(found)[1] == (
        "Cost: 1.00 trial hours in 7 runs, 1 of them failed; 4,480 instances trained, 1,120 (20 %) shared with other "
        "runs instead."
    )


def test_one_seed_is_said_to_say_nothing_of_others_and_a_late_comparison_to_be_late(tmp_path: Path) -> None:
    made = study_runs(seeds=(1,), grid=False)
    made[2].state, made[3].state = "failed", "running"
    found = analyse(tmp_path, made, seeds=[1], exploratory=[["WSLS", "BERT"]], version=2)
    declared = "declared before any test score, except the exploratory WSLS over BERT: plan "
    page, *others = (render(build_document(found)) for render in (render_html, render_markdown, render_text))
    assert declared in page
    for text in (page, *others):
        assert "This holds for these trained models only." in " ".join(text.split())
    section = build_run_section(found)
    states = {row[section.header.index("W&B run")]: row[section.header.index("state")] for row in section.rows}
    assert len(states) == len(made)
    assert (states[made[2].id], states[made[3].id]) == ("failed: out of memory", "unfinished")


def test_no_text_of_a_user_becomes_a_tag(tmp_path: Path) -> None:
    made = study_runs(seeds=(1, 2), grid=False)
    for run in made:
        run.variant = run.variant.replace("LS", f"{EVIL}LS")
        run.further = {"schedule": EVIL}
        run.role = EVIL
    failed = Made(EVIL, 1, 1.0, state="failed", further={"schedule": EVIL + "2"})
    families = json.loads(json.dumps(PLAN["families"]).replace("LS", json.dumps(f"{EVIL}LS")[1:-1]))
    for family in families:
        family["name"] += EVIL
    systems = [name.replace("LS", f"{EVIL}LS") for name in PLAN["systems"]]
    changes = {"seeds": [1, 2], "study": EVIL, "task": EVIL, "systems": [*systems, EVIL], "families": families}
    write_records(tmp_path, plan_of([*made, failed], **changes), [*made, failed])
    record = next(path for path in tmp_path.glob("runs/*/record.json") if "failed" in path.read_text())
    stored = json.loads(record.read_text())
    stored["summary"]["error"] = EVIL
    record.write_text(json.dumps(stored))
    found = build_report_data(read_records(tmp_path))
    parsed = _Page(render_html(build_document(found), {}))
    assert [tag for tag, _ in parsed.elements].count("script") == 1
    assert [tag for tag, _ in parsed.elements].count("style") == 1
    assert any(f"failed: {EVIL}" in cell for row in parsed.tables[-1] for cell in row)
    assert parsed.words["title"] == f"{EVIL}: {EVIL}"
    markdown = render_markdown(build_document(found))
    assert not re.search(r"(?<!\\)<[a-z/!]", markdown)
    for table in re.findall(r"(?m)(?:^\|.*\n)+", markdown):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_every_run_has_its_row(analysis: ReportData) -> None:
    section = build_run_section(analysis)
    assert len(section.rows) == len(analysis.results.runs)
    place = section.header.index
    by_id = {row[place("W&B run")]: row for row in section.rows}
    for run in analysis.results.runs:
        row = by_id[run.id]
        assert row[place("configuration")] == run.config["configuration_id"]
        assert row[place("seed")] == ("-" if run.seed is None else str(run.seed))
        assert row[place("dev R10@1")] == f"{run.evaluate_queries('dev', 'R10@1').mean():.4f}"
        assert (row[place("test R10@1")] == "-") == ("test" not in run.files)
        assert (row[place("trained")], row[place("shared")], row[place("seconds")]) == ("640", "0", "1.5")
    assert _Page(render_html(build_document(analysis), {})).tables[-1][1:] == section.rows


def test_a_run_links_to_where_intact_files_say_it_is_and_nowhere_else(tmp_path: Path) -> None:
    made = study_runs(seeds=(1,), grid=False)
    write_records(tmp_path, plan_of(made, seeds=[1]), made)
    urls = {made[1].id: "https://wandb.ai/someone/study/runs/a?b=1&c", made[2].id: "javascript:alert(1)", made[3].id: 3}
    for key, url in urls.items():
        (tmp_path / "runs" / key / "mirrored-dev.json").write_text(json.dumps({"mode": "online", "url": url}))
    (tmp_path / "runs" / made[4].id / "mirrored-dev.json").write_text(json.dumps({"mode": "offline"}))
    for number, damaged in ((0, '{"url": "https://'), (5, "[1]")):
        (tmp_path / "runs" / made[number].id / "mirrored-dev.json").write_text(damaged)
    write_json(tmp_path / "runs" / made[6].id / "mirrored-dev.json", {"url": "https://a.test"}, with_checksum=True)
    DAMAGES["flipped"](tmp_path / "runs" / made[6].id / "mirrored-dev.json")
    source = render_html(build_document(build_report_data(read_records(tmp_path))), {})
    links = [attributes["href"] for tag, attributes in _Page(source).elements if tag == "a"]
    assert links == [urls[made[1].id]]


def test_columns_of_numbers_are_told_apart() -> None:
    header = ["system", "p", "interval", "score", "id", "none", "won"]
    rows = [["BERT", "<.0001", "[-0.1, +0.2]", "0.1 ± 0.2", "12ab", "-", "1/2/3"],
            ["4", "0.5", "-", "incomplete", "34", "-", "11/0/1"]]  # fmt: skip
    numeric = Section("Told apart", header, rows, "").numeric_columns
    assert [header[index] for index in sorted(numeric)] == ["p", "interval", "score", "won"]


def test_numbers_are_set_to_the_right(analysis: ReportData) -> None:
    section = build_run_section(analysis)
    titles = [
        attributes for tag, attributes in _Page(render_html(build_document(analysis), {})).elements if tag == "th"
    ]
    classes = [attributes.get("class") == "n" for attributes in titles[-len(section.header) :]]
    assert classes == [index in section.numeric_columns for index in range(len(section.header))]
    assert all(attributes["scope"] == "col" for attributes in titles)


def test_markdown_has_the_answer_the_notes_and_the_comparisons(analysis: ReportData) -> None:
    told = render_markdown(build_document(analysis))
    assert told.splitlines()[2] == answer_study(analysis).sentence
    assert [line for line in told.splitlines() if line.startswith("## ")] == [
        "## All tests", "## Data", "## Search", "## Reproduce",
    ]  # fmt: skip
    assert "- Skipped while reading the task: 3 x pair with an empty question" in told
    for name, count in (("variants", 5), ("sanity", 2)):
        assert f"### Comparisons: {name} ({count}, bonferroni)" in told
    for c in analysis.comparisons:
        assert f"| {c.system} | {c.baseline} | {c.difference:+.4f} |" in told
    for line in told.splitlines():
        assert line.count("|") == 0 or line.startswith("| ")


def test_a_terminal_breaks_what_does_not_fit_and_loses_nothing() -> None:
    header, row = [f"column {n}" for n in range(14)], [f"{'v' * 12}{n:02}" for n in range(14)]
    shown = format_terminal_table(header, [row], width=80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    assert shown.count("v") == 14 * 12


def test_a_report_says_what_was_pooled_and_what_was_not(tmp_path: Path) -> None:
    found = analyse(tmp_path, study_runs(), seed_variance="pooled")
    variants = [c for c in found.comparisons if c.family == "variants"]
    pool = variants[0].pooled
    assert pool.comparisons == len(variants) == 5
    larger = [c for c in variants if c.pooled and c.pooled.ratio > pool.mean_ratio]
    sentence = (
        f"Spread over seeds: pooled over 5 comparisons, {pool.mean_ratio:.2f} times the rest with {pool.df:.1f} "
        "degrees of freedom, or the comparison's own where that is larger: "
        + ", ".join(f"{c.system} over {c.baseline}" for c in larger)
        + "."
    )
    # BM25 is the same for all seeds, which leaves one comparison
    alone = "Spread over seeds, own: BERT over BM25, BERT over untrained."
    for text in (render_markdown(build_document(found)), render_latex(build_document(found))):
        assert sentence in text
        assert alone in text
    assert "pooled" not in render_markdown(build_document(analyse(tmp_path / "own", study_runs())))


def test_pooled_seeds_know_which_systems_begin_alike(tmp_path: Path) -> None:
    apart, alike = (
        analyse(tmp_path / str(number), study_runs(), seed_variance="pooled", shared_beginnings=pairs)
        for number, pairs in enumerate(([], [["T-LS", "LS"]]))
    )
    pools = [[c.pooled for c in found.comparisons if c.pooled] for found in (apart, alike)]
    for one, other in zip(*pools, strict=True):
        assert other.df < one.df
        assert other.mean_ratio == one.mean_ratio


def test_a_comparison_that_varies_more_is_named(tmp_path: Path) -> None:
    runs = study_runs()
    for number, run in enumerate(run for run in runs if run.variant == "WSLS" and "test" in run.scores):
        run.scores["test"] = scores("test", 60, (-1.0, 1.5, 4.0)[number % 3], number)
    found = analyse(tmp_path, runs, seed_variance="pooled")
    assert [c.system for c in found.comparisons if c.pooled and c.pooled.varies_more] == ["WSLS"]
    assert "Varies more over seeds than the others: WSLS over BERT." in render_markdown(build_document(found))


def test_what_is_added_later_changes_no_declared_test(tmp_path: Path) -> None:
    """A comparison that is added when test scores exist is tested with its own seeds, and not pooled with others."""
    families = [{"name": "variants", "comparisons": [["LS", "BERT"], ["T-LS", "BERT"], ["WSLS", "BERT"]]}]
    late = analyse(tmp_path, study_runs(), families=families, seed_variance="pooled", exploratory=[["WSLS", "BERT"]])
    families = [{"name": "variants", "comparisons": [["LS", "BERT"], ["T-LS", "BERT"]]}]
    before = analyse(tmp_path / "before", study_runs(), families=families, seed_variance="pooled")
    *declared, added = late.comparisons
    assert [(c.targets, c.pooled) for c in declared] == [(c.targets, c.pooled) for c in before.comparisons]
    assert (added.system, added.pooled) == ("WSLS", None)


def test_every_test_is_shown_once(analysis: ReportData) -> None:
    section = build_test_section(analysis)
    assert section.header[3:] == [
        "p", "p (queries)", "p (queries), Bonferroni", "p (seeds)", "p (classical)", "MDE", "W/T/L",
    ]  # fmt: skip
    for row, c in zip(section.rows, analysis.comparisons, strict=True):
        tests = c.p, c.targets["queries"].p, c.adjusted_queries["bonferroni"], c.targets["seeds"].p, c.classical
        assert row == [c.family, c.system, c.baseline, *map(format_p_value, tests), f"{c.detectable:.4f}",
                       "/".join(map(str, c.wins_ties_losses))]  # fmt: skip
