"""Makes the tables of the results pages from what is kept of their studies.

    python -m docs.scripts.evidence keep NAME FOLDER     # of a finished study, in the archive and docs/results/evidence
    python -m docs.scripts.evidence write                # the tables of all pages; `make evidence`

A page of docs/results and the data card of the archive have tables between the lines `<!-- evidence: NAME -->` and
`<!-- end of evidence -->`: of a kept study, or of several named one after the other. `claims` stands for the papers'
claims, `archive` for the list of kept scores, `test NAME` for a table of benchmarks.statistics.replication. The
published figures and the titles of the studies are in docs/results/evidence/overview.toml.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.archive import FILE, load_scores
from analysis.data.configurations import format_score, mean_and_std
from analysis.rendering.cells import format_interval, format_p_value
from benchmarks.statistics import replication
from docs.scripts.kept_studies import FOLDER, KeptComparison, average_seeds, compare_kept, keep_evidence, read_summary

PAGES = Path(__file__).parents[1] / "results"
CARD = FILE.with_name("README.md")
"""Data card of the archive."""
_TABLES = re.compile(r"(<!-- evidence: ([^>]+) -->\n).*?(?=<!-- end of evidence -->)", re.DOTALL)


def read_overview() -> dict[str, Any]:
    """Read the title of every kept study and what papers published of its comparisons."""
    return tomllib.loads((FOLDER / "overview.toml").read_text("utf-8"))


def format_claims() -> list[list[str]]:
    """Return a row for each claim of the papers: published, measured and verdict."""
    rows = [["study", "comparison", "published", "measured", "verdict"]]
    for name, study in read_overview().items():
        compared = {(c.system, c.baseline): c for c in compare_kept(name)}
        seeds, queries = len(next(iter(average_seeds(name).values()))), read_summary(name)["queries"]
        title = f"[{study['title']}]({study['page']}): {seeds} seeds, {queries:,} queries"
        for system, baseline, published in study["claims"]:
            c = compared[system, baseline]
            rows.append([title, f"{system} over {baseline}", published, _format_difference(c), _format_verdict(c)])
            title = ""
    return rows


def format_results(names: Sequence[str], folder: Path = FOLDER, archive: Path = FILE) -> list[list[str]]:
    """Return a row for each declared comparison of kept studies, with the test score of the system."""
    (metric,) = {read_summary(name, folder)["metric"] for name in names}
    rows = [["study", "system", f"test {metric}", "baseline", "difference", "verdict"]]
    for name in names:
        means, compared = average_seeds(name, folder, archive), compare_kept(name, folder, archive)
        title = read_overview()[name]["title"] if len(names) > 1 else ""
        for system in read_summary(name, folder)["systems"]:
            score = _format_seeds(means[system])
            own = [[c.baseline, _format_difference(c), _format_verdict(c)] for c in compared if c.system == system]
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


def _format_verdict(c: KeptComparison) -> str:
    return f"{c.verdict} (p {format_p_value(c.corrected)})" if c.verdict in ("better", "worse") else c.verdict


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
