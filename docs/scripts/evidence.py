"""Makes the tables of the results pages from what is kept of their studies.

    python -m docs.scripts.evidence keep NAME FOLDER     # of a finished study, in the archive and docs/results/evidence
    python -m docs.scripts.evidence write                # the tables of all pages; `make evidence`

A page of docs/results and the data card of the archive have tables between the lines `<!-- evidence: WHAT -->` and
`<!-- end of evidence -->`. WHAT is a kept study, or several one after the other; `references NAME ...`, their baselines
and rankings without training; `averages NAME ...`, the mean over them; `control SYSTEM NAME ...`, a system in control
studies and in as many others; `claims`, those of the papers; `runs TABLE SYSTEM ...`, published runs; `archive`, the
list of kept scores; `test NAME`, a table of benchmarks.statistics.replication. The claims and the titles of the studies
are in docs/results/evidence/overview.toml.
"Equivalent" stands only where the interval is within the margin.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from analysis.archive import FILE, load_scores
from analysis.data.configurations import format_score, mean_and_std
from analysis.rendering.cells import format_interval, format_p_value
from benchmarks.statistics import replication
from docs.scripts.kept_studies import (
    FOLDER,
    KeptComparison,
    average_control,
    average_kept,
    average_seeds,
    compare_kept,
    keep_evidence,
    read_summary,
)
from study.suites.published import FOLDER as PUBLISHED

PAGES = Path(__file__).parents[1] / "results"
CARD = FILE.with_name("README.md")
"""Data card of the archive."""
_TABLES = re.compile(r"(<!-- evidence: ([^>]+) -->\n).*?(?=<!-- end of evidence -->)", re.DOTALL)


def read_overview() -> dict[str, Any]:
    """Read the titles of the kept studies, and the claims of papers about them."""
    return tomllib.loads((FOLDER / "overview.toml").read_text("utf-8"))


def format_claims() -> list[list[str]]:
    """Return a row for each claim of the papers: published, measured, p for all claims together, and verdict."""
    rows = [["question", "comparison", "published", "measured", "p, all claims", "verdict"]]
    overview = read_overview()
    claims = overview["claims"]
    for claim in claims:
        names, pair = claim["studies"], (claim["system"], claim["baseline"])
        compared = average_kept(tuple(names)) if len(names) > 1 else compare_kept(*names)
        (c,) = [each for each in compared if (each.system, each.baseline) == pair]
        study = overview[names[0]]
        title, p = f"[{claim.get('title', study['title'])}]({study['page']})", c.p
        p_all = "-" if p is None else format_p_value(min(1.0, p * len(claims)))
        difference, verdict = _format_difference(c), _name_verdict(c, _read_margin(names[0]))
        rows.append([title, f"{c.system} over {c.baseline}", claim["published"], difference, p_all, verdict])
    return rows


def format_references(names: Sequence[str], folder: Path = FOLDER, archive: Path = FILE) -> list[list[str]]:
    """Return a row for each kept study: its baseline and what it ranks better than without training."""
    rows = list[list[str]]()
    for name in names:
        means, compared = average_seeds(name, folder, archive), compare_kept(name, folder, archive)
        own = [c for c in compared if c.family == "sanity"]
        system, references = own[0].system, [c.baseline for c in own]
        scores = [_format_seeds(means[each]) for each in (*references, system)]
        row = [read_overview()[name]["title"], *scores, *(_format_difference(c) for c in own)]
        rows.append(row)
    return [["data", *references, system, *(f"{system} - {each}" for each in references)], *rows]


def format_averages(names: Sequence[str], folder: Path = FOLDER, archive: Path = FILE) -> list[list[str]]:
    """Return a row for each comparison that kept studies declare, in the mean over them."""
    metric = read_summary(names[0], folder)["metric"]
    rows = [["system", "baseline", *(read_overview()[name]["title"] for name in names), f"mean {metric}", "verdict"]]
    studies = [{(c.system, c.baseline): c for c in compare_kept(name, folder, archive)} for name in names]
    for c in average_kept(tuple(names), folder, archive):
        own = [
            f"{found.difference:+.4f}"
            for each in studies
            if (found := each[c.system, c.baseline]).difference is not None
        ]
        verdict = _format_verdict(c, _read_margin(names[0], folder))
        rows.append([c.system, c.baseline, *own, _format_difference(c), verdict])
    return rows


def format_control(system: str, names: Sequence[str]) -> list[list[str]]:
    """Return the difference of a system in control studies, the first half of the names, from itself in the others."""
    half, overview = len(names) // 2, read_overview()
    own, mean = average_control(tuple(names[:half]), tuple(names[half:]), system)
    test, metric = mean.test(), read_summary(names[0])["metric"]
    row = ["wrong labels", system, *(f"{d:+.4f}" for d in own)]
    row += [f"{mean.mean:+.4f} [{test.low:+.4f}, {test.high:+.4f}]", format_p_value(test.p)]
    return [["system", "baseline", *(overview[name]["title"] for name in names[half:]), f"mean {metric}", "p"], row]


def format_runs(table: str, systems: Sequence[str]) -> list[list[str]]:
    """Return a row for each published difference from the first system, with the runs as units: a paired t-test."""
    file, _, name = table.partition(".")
    scores = tomllib.loads((PUBLISHED / f"{file}.toml").read_text("utf-8"))[name]["scores"]
    baseline, *others = systems
    rows = [["data", "system", "baseline", "difference", "sd of differences", "p", f"p x {_count_others(scores)}"]]
    for task, own in scores.items():
        for system in others:
            d = np.subtract(own[system]["runs"], own[baseline]["runs"])
            test = stats.ttest_1samp(d, 0.0)
            low, high = test.confidence_interval()
            difference = f"{d.mean():+.4f} [{low:+.4f}, {high:+.4f}]"
            p = float(test.pvalue)
            corrected = format_p_value(min(1.0, p * _count_others(scores)))
            rows.append([task, system, baseline, difference, f"{d.std(ddof=1):.4f}", format_p_value(p), corrected])
    return rows


def _count_others(scores: dict[str, Any]) -> int:
    """Count the published differences from one baseline."""
    return sum(len(own) - 1 for own in scores.values())


def format_results(names: Sequence[str], folder: Path = FOLDER, archive: Path = FILE) -> list[list[str]]:
    """Return a row for each declared comparison of kept studies, with the test score of the system."""
    (metric,) = {read_summary(name, folder)["metric"] for name in names}
    rows = [["study", "system", f"test {metric}", "baseline", "difference", "verdict"]]
    for name in names:
        means, compared = average_seeds(name, folder, archive), compare_kept(name, folder, archive)
        title = read_overview()[name]["title"] if len(names) > 1 else ""
        for system in read_summary(name, folder)["systems"]:
            score = _format_seeds(means[system])
            margin = _read_margin(name, folder)
            own = [
                [c.baseline, _format_difference(c), _format_verdict(c, margin)] for c in compared if c.system == system
            ]
            rows += [[title, system, score, *cells] for cells in own or [[""] * 3]]
    return rows if len(names) > 1 else [row[1:] for row in rows]


def format_archive() -> list[list[str]]:
    """Return a row for each study of the archive."""
    rows = [["study", "task", "metric", "systems", "seeds", "queries"]]
    for name, own in load_scores().groupby("study", observed=True):
        row = [name, own["task"].iloc[0], own["metric"].iloc[0], ", ".join(sorted(own["system"].unique()))]
        rows.append([*row, str(own["seed"].nunique()), f"{own['query'].nunique():,}"])
    return rows


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in Markdown; the first is its header."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def make_pages() -> dict[Path, str]:
    """Return the contents of all pages with tables that are made from what is kept."""
    pages = dict[Path, str]()
    for page in (*sorted(PAGES.glob("*.md")), CARD):
        text = page.read_text("utf-8")
        if _TABLES.search(text):
            pages[page] = _TABLES.sub(lambda found: f"{found[1]}\n{_format_marked(found[2])}\n\n", text)
    return pages


def _format_marked(what: str) -> str:
    match what.split():
        case ["averages", *names]:
            return format_table(format_averages(names))
        case ["references", *names]:
            return format_table(format_references(names))
        case ["control", system, *names]:
            return format_table(format_control(system, names))
        case ["runs", table, *systems]:
            return format_table(format_runs(table, systems))
        case ["claims"]:
            return format_table(format_claims())
        case ["archive"]:
            return format_table(format_archive())
        case ["test", name]:
            return format_table(replication.TABLES[name]())
        case names:
            return format_table(format_results(names))


def _format_seeds(means: Sequence[float]) -> str:
    return format_score(mean_and_std(np.reshape(means, (-1, 1))))


def _format_difference(c: KeptComparison) -> str:
    return f"{c.difference:+.4f} {format_interval(c.interval)}"


def _format_verdict(c: KeptComparison, margin: float | None) -> str:
    verdict = _name_verdict(c, margin)
    return f"{verdict} (p {format_p_value(c.corrected)})" if verdict in ("better", "worse") else verdict


def _name_verdict(c: KeptComparison, margin: float | None) -> str:
    """Return the verdict; equivalent only if the interval is within the margin."""
    is_within = margin is not None and c.interval is not None and max(map(abs, c.interval)) <= margin
    return "undecided" if c.verdict == "equivalent" and not is_within else c.verdict


def _read_margin(name: str, folder: Path = FOLDER) -> float | None:
    families = read_summary(name, folder)["families"].values()
    margin: float | None = next(iter(families))["settings"]["margin"]
    return margin


def main(argv: Sequence[str] | None = None) -> None:
    """Keep a study, or write the tables of all pages."""
    match sys.argv[1:] if argv is None else argv:
        case "keep", name, source:
            keep_evidence(name, source)
            print(format_table(format_results([name])))
        case ["write"]:
            for path, text in make_pages().items():
                path.write_text(text, "utf-8")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
