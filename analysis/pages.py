"""The report as one HTML page, as Markdown and as text for a terminal: the same tables in the same order."""

import base64
import html
import json
from typing import NamedTuple

from analysis import confirmation, figures, importance, render
from analysis.notes import notes
from analysis.tables import Analysis, Comparison

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


class _Section(NamedTuple):
    """A further table: title, header, rows, what its columns are."""

    title: str
    header: list[str]
    rows: list[list[str]]
    legend: str


def page(analysis: Analysis, drawings: dict[str, bytes]) -> str:
    """The whole report, figures included, without a reference to another file.

    Args:
        analysis: what was found.
        drawings: SVG of each figure, by its name.
    """
    plan = analysis.results.plan
    title = html.escape(f"{plan.study}: {plan.task}")
    body = [
        f"<h1>{title}</h1>",
        f'<p class="answer"><strong>{html.escape(analysis.conclusion)}</strong></p>',
        f'<div class="wide">{render.html_table(*render.table_cells(analysis.table))}</div>',
        f'<p class="small">{html.escape(render.legend(analysis.table))}</p>',
    ]
    if told := notes(analysis):
        body.append("<ul>" + "".join(f"<li>{html.escape(note)}</li>" for note in told) + "</ul>")
    for section in _sections(analysis):
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        body.append(f'<div class="wide">{render.html_table(section.header, section.rows)}</div>')
        body.append(f'<p class="small">{html.escape(section.legend)}</p>')
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


def markdown(analysis: Analysis) -> str:
    """The main table, what it leaves out, and the tables of the search."""
    parts = [render.markdown(analysis.table)]
    for section in _sections(analysis):
        table = render.markdown_table(section.header, section.rows)
        parts.append(f"## {section.title}\n\n{table}\n{section.legend}\n")
    return "\n".join(parts)


def text(analysis: Analysis) -> str:
    """The tables and notes for a terminal; the last line answers."""
    table, plan = analysis.table, analysis.results.plan
    parts = [
        render.terminal(f"{plan.study}: {plan.task}", *render.table_cells(table)),
        render.legend(table),
        *notes(analysis),
    ]
    for section in _sections(analysis):
        parts += [render.terminal(f"\n{section.title}", section.header, section.rows), section.legend]
    for name, correction, rows in _families(analysis):
        cells = render.comparison_cells(rows, correction, plan.alpha)
        parts.append(render.terminal(f"\nfamily {name}: {len(rows)} comparisons, {correction}", *cells))
    return "\n".join([*parts, "", analysis.conclusion])


def _sections(analysis: Analysis) -> list[_Section]:
    """The tables of the search, as far as there was one."""
    plan, found = analysis.results.plan, []
    if analysis.confirmed:
        rows = confirmation.cells(analysis.confirmed)
        found.append(_Section("Search, confirmed and test", confirmation.HEADER, rows, confirmation.legend(plan)))
    if analysis.importances:
        cells = importance.cells(analysis.importances, plan.searched_for)
        found.append(
            _Section("Importance of the hyperparameters", *cells, importance.LEGEND.format(split=plan.search_split))
        )
    return found


def _families(analysis: Analysis) -> list[tuple[str, str, list[Comparison]]]:
    return [
        (family.name, family.correction, [c for c in analysis.comparisons if c.family == family.name])
        for family in analysis.results.plan.families
    ]
