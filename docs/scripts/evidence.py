"""Makes the tables and figures of the results pages from what is kept of their studies.

    python -m docs.scripts.evidence keep NAME FOLDER     # of a finished study, into docs/results/evidence
    python -m docs.scripts.evidence write                # tables and figures of all that is kept; `make evidence`

A page of docs/results has the tables of NAME and its conclusion between the lines `<!-- evidence: NAME -->` and
`<!-- end of evidence -->`. Instead of a name, there can be one of the overviews `claims`, `baselines` and `cost`, of
all studies or of those whose names follow. docs/results/evidence/overview.toml has what they need besides: the claims
of the papers, and titles and planned costs of the studies.
"""

import re
import sys
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from textwrap import wrap
from typing import Any

import numpy as np

from analysis.figures.effects import draw_effects
from analysis.figures.style import COLOURS, subplots
from analysis.rendering.cells import format_p_value
from docs.scripts.kept_studies import FOLDER, KeptComparison, average_seeds, compare_kept, keep_evidence, read_summary
from docs.scripts.pacing import render_svg

DOCS = Path(__file__).parents[1]
PAGES, IMAGES = DOCS / "results", DOCS / "images"
_TABLES = re.compile(r"(<!-- evidence: ([^>]+) -->\n).*?(?=<!-- end of evidence -->)", re.DOTALL)


def format_evidence(what: str) -> str:
    """Return what belongs between the lines of a page that name it."""
    first, *names = what.split()
    overviews = {"claims": format_claims, "baselines": format_baselines, "cost": format_cost}
    return "\n".join(_format_rows(overviews[first](names))) if first in overviews else format_tables(what)


def read_overview(names: Sequence[str]) -> dict[str, Any]:
    """Read the claims, titles and planned costs of some studies, or of all."""
    overview = tomllib.loads((FOLDER / "overview.toml").read_text("utf-8"))
    names = names or list(overview["studies"])
    claims = [claim for claim in overview["claims"] if claim["study"] in names]
    return {"claims": claims, "studies": {name: overview["studies"][name] for name in names}}


def format_claims(names: Sequence[str]) -> list[list[str]]:
    """Return a row for each claim of the papers: published, measured, verdict, seeds and queries."""
    rows = [["claim", "published", "measured", "verdict", "seeds, queries"]]
    for claim in read_overview(names)["claims"]:
        name, summary = claim["study"], read_summary(claim["study"])
        c = get_comparison(name, claim["system"], claim["baseline"])
        seeds, verdict = len(average_seeds(name)[claim["system"]]), c.verdict
        if verdict == "equivalent":
            verdict += f" (margin {summary['families'][c.family]['settings']['margin']})"
        elif verdict in ("better", "worse"):
            verdict += f" (corrected p {format_p_value(c.corrected)})"
        measured = f"{_format_difference(c)} {summary['metric']}"
        rows.append([claim["claim"], claim["published"], measured, verdict, f"{seeds}, {summary['queries']:,}"])
    return rows


def format_baselines(names: Sequence[str]) -> list[list[str]]:
    """Return a row for each ranker that a study compares with BM25, with its comparison with the untrained model."""
    rows = [["study", "metric", "ranker", "score", "BM25", "ranker over BM25", "untrained", "ranker over untrained"]]
    for name, study in read_overview(names)["studies"].items():
        metric, means = read_summary(name)["metric"], average_seeds(name)
        for c in compare_kept(name):
            if c.baseline == "BM25":
                row = [study["title"], metric, c.system, _format_seeds(means[c.system])]
                for other in ("BM25", "untrained"):
                    row += [_format_seeds(means[other]), _format_difference(get_comparison(name, c.system, other))]
                rows.append(row)
    return rows


def format_cost(names: Sequence[str]) -> list[list[str]]:
    """Return a row for each study: hours planned and used, runs, and what was saved."""
    rows = [["study", "planned", "trial hours used", "runs", "shared instances", "runs raced off", "fresh seeds"]]
    for name, study in read_overview(names)["studies"].items():
        cost, saved = read_summary(name)["cost"], read_summary(name)["saved"]
        share = cost["shared"] / (cost["trained"] + cost["shared"])
        row = [study["title"], study["planned"], f"{cost['hours']:.2f}", str(cost["runs"]), f"{share * 100:.0f} %"]
        row.append(str(saved["raced"]) if "raced" in saved else "-")
        row.append(f"{saved['seeds']} of {saved['planned_seeds']}" if "seeds" in saved else "-")
        rows.append(row)
    return _drop_empty(rows)


def get_comparison(name: str, system: str, baseline: str) -> KeptComparison:
    """Return the declared comparison of a system with a baseline."""
    (found,) = [c for c in compare_kept(name) if (c.system, c.baseline) == (system, baseline)]
    return found


def format_tables(name: str, folder: Path = FOLDER) -> str:
    """Return the tables of a kept study in Markdown, its systems and their comparisons, and its conclusion."""
    summary, seed_means = read_summary(name, folder), average_seeds(name, folder)
    metric = summary["metric"]
    rows = [["system", "strength", "switch", f"dev {metric}", f"test {metric}", "loss", "ECE"]]
    for system, own in summary["systems"].items():
        loss = [f"{value:.3f}" for value in summary["losses"].get(system) or ()]
        settings = ["-" if own[key] is None else f"{own[key]:g}" for key in ("strength", "switch")]
        scores = [_format_mean(*own["dev"]), _format_seeds(seed_means[system])]
        calibration = "-" if own["ECE"] is None else f"{own['ECE']:.3f}"
        rows.append([system, *settings, *scores, loss[-1] if loss else "-", calibration])
    compared = [["system", "baseline", "difference", "interval", "p", "corrected p", "verdict"]]
    for c in compare_kept(name, folder):
        cells = [c.system, c.baseline, *_format_difference(c).split(maxsplit=1)]
        compared.append([*cells, format_p_value(c.p), format_p_value(c.corrected), c.verdict])
    conclusion = wrap(summary["conclusion"], 118, initial_indent="> ", subsequent_indent="> ")
    return "\n".join([*_format_rows(_drop_empty(rows)), "", *_format_rows(compared), "", *conclusion])


def draw_kept_effects(name: str) -> Any:
    """Return the figure of the declared comparisons of a kept study."""
    summary = read_summary(name)
    margins = [declared["settings"]["margin"] for declared in summary["families"].values()]
    return draw_effects(compare_kept(name), list(summary["families"]), summary["metric"], margins[0], "test")


def draw_losses(name: str) -> Any:
    """Return the figure of the training losses of a kept study."""
    summary = read_summary(name)
    figure, (panel,) = subplots(1, (6.4, 3.0))
    trained = {system: losses for system, losses in summary["losses"].items() if losses}
    for (system, losses), colour in zip(trained.items(), COLOURS, strict=False):
        middles = (np.arange(len(losses)) + 0.5) / len(losses) * summary["instances"]
        panel.plot(middles, losses, label=system, color=colour, marker="o", markersize=3)
    panel.set(xlabel="training instances", ylabel="training loss", xlim=(0, None), ylim=(0, None))
    figure.legend(loc="outside lower center", ncols=6)
    return figure


def make_outputs() -> dict[Path, str]:
    """Return the contents of all figures and pages that are made from what is kept."""
    outputs = dict[Path, str]()
    for path in sorted(FOLDER.glob("*.json")):
        for kind, draw in (("effects", draw_kept_effects), ("losses", draw_losses)):
            outputs[IMAGES / f"evidence-{path.stem}-{kind}.svg"] = render_svg(partial(draw, path.stem))
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text("utf-8")
        if _TABLES.search(text):
            outputs[page] = _TABLES.sub(lambda found: f"{found[1]}\n{format_evidence(found[2])}\n\n", text)
    return outputs


def _drop_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Drop the columns in which nothing but the header is filled."""
    used = [column for column in range(len(rows[0])) if any(row[column] != "-" for row in rows[1:])]
    return [[row[column] for column in used] for row in rows]


def _format_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def _format_mean(mean: float, deviation: float | None) -> str:
    return f"{mean:.4f}" if deviation is None else f"{mean:.4f} ± {deviation:.4f}"


def _format_seeds(means: Sequence[float]) -> str:
    return _format_mean(fmean(means), stdev(means) if len(means) > 1 else None)


def _format_difference(c: KeptComparison) -> str:
    low, high = c.interval or (float("nan"), float("nan"))
    return f"{c.difference:+.4f} [{low:+.4f}, {high:+.4f}]"


def main(argv: Sequence[str] | None = None) -> None:
    """Keep a study, or write what is made from all that are kept."""
    match sys.argv[1:] if argv is None else argv:
        case "keep", name, source:
            keep_evidence(name, source)
            print(format_tables(name))
        case ["write"]:
            for path, text in make_outputs().items():
                path.write_text(text, "utf-8")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
