"""Writes what a study found: table, comparisons, figures and one HTML page.

    python -m analysis.report FOLDER [--output DIR]

FOLDER is a study's folder or its wandb folder; without W&B files in it, the study's records are read.
"""

import argparse
import base64
import html
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pandas as pd

from analysis import figures, render
from analysis.results import Results, read, read_records
from analysis.tables import Analysis, Comparison, analyse
from trainables.errors import UserError

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; white-space: nowrap; }
th { border-bottom: 1px solid #333; } thead th { border-top: 2px solid #333; }
tbody tr:last-child td { border-bottom: 2px solid #333; }
.wide { overflow-x: auto; } .answer { font-size: 1.15rem; } img { max-width: 100%; }
figure { margin: 2rem 0; } figcaption, .small { color: #555; font-size: .85rem; } pre { overflow-x: auto; }
"""
_READING = (
    "The p-values under “queries” ask whether these trained checkpoints differ on new queries; “seeds” whether other "
    "seeds would differ on these queries; “both” whether the method differs on new queries and seeds, which is what "
    "“the method is better” means. The verdict is that of the queries, corrected for the comparisons of the family. "
    "“Detectable” is the difference that this test finds with 80 % power."
)


@dataclass(frozen=True)
class Report:
    """What was written: the folder, the names of its files, the terminal text, the last line of which answers."""

    folder: Path
    files: list[str]
    text: str
    analysis: Analysis


def write_report(results: Results, folder: Path) -> Report:
    """Analyses a study and writes the report's files into `folder`, each whole or not at all.

    Raises:
        UserError: if the runs cannot be compared.
    """
    analysis = analyse(results)
    folder.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
    try:
        names = figures.draw(analysis, staging)
        texts = {
            "table.md": render.markdown(analysis.table),
            "table.tex": render.latex(analysis.table),
            "comparisons.json": json.dumps([c.as_dict() for c in analysis.comparisons], indent=1, allow_nan=False),
            "results.csv": _tidy(analysis).to_csv(index=False, lineterminator="\n"),
            "report.html": _page(analysis, {name: (staging / f"{name}.svg").read_bytes() for name in names}),
        }
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
        written = sorted(path.name for path in staging.iterdir())
        for name in written:
            os.replace(staging / name, folder / name)
        for name in figures.FIGURES:  # of an earlier report that had more to show
            for suffix in ("png", "svg"):
                if f"{name}.{suffix}" not in written:
                    (folder / f"{name}.{suffix}").unlink(missing_ok=True)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Report(folder, written, _text(analysis), analysis)


def main(argv: Sequence[str] | None = None, output: TextIO | None = None) -> int:
    """The command line; returns the exit status: 0 done, 2 bad input."""
    parser = argparse.ArgumentParser(prog="python -m analysis.report", description="Tables, figures and one HTML page.")
    parser.add_argument("folder", type=Path, help="a study's folder or its wandb folder")
    parser.add_argument("--output", type=Path, help="where the report goes (default: FOLDER/report)")
    arguments = parser.parse_args(argv)
    stream = output or sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    try:
        report = write_report(load(arguments.folder), arguments.output or arguments.folder / "report")
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename or arguments.folder}: {error.strerror}; expected a folder to write to", file=sys.stderr)
        return 2
    print(f"{report.folder}: {', '.join(report.files)}\n", file=stream)
    print(report.text, file=stream)
    return 0


def load(folder: Path) -> Results:
    """The study's W&B files if there are any, else its records."""
    has_records = (folder / "plan.json").is_file() and (folder / "runs").is_dir()
    has_wandb = any(folder.glob("wandb/offline-run-*")) or any(folder.glob("offline-run-*"))
    return read_records(folder) if has_records and not has_wandb else read(folder)


def _text(analysis: Analysis) -> str:
    table, plan = analysis.table, analysis.results.plan
    parts = [
        render.terminal(f"{plan.study}: {plan.task}", *render.table_cells(table)),
        render.legend(table),
        *_notes(analysis),
    ]
    for name, correction, rows in _families(analysis):
        cells = render.comparison_cells(rows, correction, plan.alpha)
        parts.append(render.terminal(f"\nfamily {name}: {len(rows)} comparisons, {correction}", *cells))
    return "\n".join([*parts, "", analysis.conclusion])


def _notes(analysis: Analysis) -> list[str]:
    killed = analysis.results.unfinished
    late = (analysis.results.plan.model_extra or {}).get("exploratory", [])
    named = ", ".join(f"{system} over {baseline}" for system, baseline in late)
    data = analysis.results.plan.data or {}
    drawn = {split: counts["back_filled"] for split, counts in data.get("splits", {}).items() if counts["back_filled"]}
    filled = ", ".join(f"{count} in {split}" for split, count in drawn.items())
    lost = sum(counts.get("relevant_left_out", 0) for counts in data.get("splits", {}).values())
    skipped = ", ".join(f"{count} x {reason}" for reason, count in data.get("skipped", {}).items())
    exploratory = [f"Exploratory, declared after the first version of the plan: {named}"] if late else []
    return [
        *analysis.table.notes,
        *exploratory,
        *([f"Candidates drawn at random, because the negative sampler found too few: {filled}"] if drawn else []),
        *([f"Relevant documents left out, more than a query's candidates have room for: {lost}"] if lost else []),
        *([f"Skipped while reading the task: {skipped}"] if skipped else []),
        *([f"Not counted, because unfinished: {', '.join(killed)}"] if killed else []),
    ]


def _families(analysis: Analysis) -> list[tuple[str, str, list[Comparison]]]:
    return [
        (family.name, family.correction, [c for c in analysis.comparisons if c.family == family.name])
        for family in analysis.results.plan.families
    ]


def _tidy(analysis: Analysis) -> pd.DataFrame:
    """Columns system, configuration, seed, metric, split, value: one row a finished run and split."""
    plan = analysis.results.plan
    rows = []
    for configuration in analysis.found:
        for seed, run in sorted(configuration.runs.items(), key=lambda item: -1 if item[0] is None else item[0]):
            for split in (plan.search_split, plan.test_split):
                if run.finished and split in run.files:
                    value = run.per_query(split, plan.metric).mean(skipna=False)
                    rows.append((configuration.system, configuration.id, seed, plan.metric, split, value))
    frame = pd.DataFrame(rows, columns=["system", "configuration", "seed", "metric", "split", "value"])
    return frame.astype({"seed": "Int64"})


def _page(analysis: Analysis, drawings: dict[str, bytes]) -> str:
    plan = analysis.results.plan
    title = html.escape(f"{plan.study}: {plan.task}")
    body = [
        f"<h1>{title}</h1>",
        f'<p class="answer"><strong>{html.escape(analysis.conclusion)}</strong></p>',
        f'<div class="wide">{render.html_table(*render.table_cells(analysis.table))}</div>',
        f'<p class="small">{html.escape(render.legend(analysis.table))}</p>',
    ]
    if notes := _notes(analysis):
        body.append("<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in notes) + "</ul>")
    for name, correction, rows in _families(analysis):
        body.append(f"<h2>Comparisons: {html.escape(name)} ({len(rows)}, {html.escape(correction)})</h2>")
        cells = render.comparison_cells(rows, correction, plan.alpha)
        body.append(f'<div class="wide">{render.html_table(*cells)}</div>')
    body.append(f'<p class="small">{_READING}</p>')
    for name, drawing in drawings.items():
        source, caption = base64.b64encode(drawing).decode(), html.escape(figures.CAPTIONS[name])
        body.append(f'<figure><img src="data:image/svg+xml;base64,{source}" alt="{caption}">'
                    f"<figcaption>{caption}</figcaption></figure>")  # fmt: skip
    stored = json.dumps(plan.model_dump(mode="json"), indent=1, ensure_ascii=False)
    body.append(
        f"<details><summary>Plan {html.escape(analysis.results.plan_hash)}, version {plan.version}</summary>"
        f"<pre>{html.escape(stored)}</pre></details>"
    )
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


if __name__ == "__main__":
    raise SystemExit(main())
