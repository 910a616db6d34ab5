"""The report as one HTML page, as Markdown and as text for a terminal: the same tables in the same order."""

import base64
import hashlib
import html
import json
from importlib import resources

from analysis import figures
from analysis.rendering import cells as render
from analysis.rendering.notes import notes
from analysis.rendering.sections import (
    Section,
    by_metric,
    comparisons,
    corrections,
    next_study,
    of_the_search,
    on_dev,
    runs,
    seed_by_seed,
    strata,
)
from analysis.rendering.summary import answers
from analysis.tables.main import Analysis


def page(analysis: Analysis, drawings: dict[str, bytes]) -> str:
    """The whole report, figures included, without a reference to another file.

    The page itself forbids the browser to load anything, and to run any script but its own.

    Args:
        analysis: what was found.
        drawings: SVG of each figure, by its name.
    """
    plan, table = analysis.results.plan, analysis.table
    title = html.escape(f"{plan.study}: {plan.task}")
    links = {run.id: run.url for run in analysis.results.runs if run.url}
    told = "".join(f"<li>{html.escape(note)}</li>" for note in notes(analysis))
    stored = json.dumps(plan.model_dump(mode="json"), indent=1, ensure_ascii=False)
    body = [
        f"<h1>{title}</h1>",
        _answers(analysis),
        _section(Section("Systems", *render.table_cells(table), render.legend(table))),
        f"<ul>{told}</ul>" if told else "",
        *map(_section, _tables(analysis)),
        "<h2>Figures</h2>" if drawings else "",
        *(_figure(drawing, figures.CAPTIONS[name]) for name, drawing in drawings.items()),
        _section(runs(analysis), links),
        f"<details><summary>Plan {html.escape(analysis.results.plan_hash)}, version {plan.version}</summary>"
        f"<pre>{html.escape(stored)}</pre></details>",
    ]
    files = resources.files("analysis.rendering")
    style, script = (files.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    allowed = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}"
    head = (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{allowed}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>"
    )
    content = "\n".join(filter(None, body))
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n<main>\n{content}\n</main>\n'
        f"<script>{script}</script></body></html>\n"
    )


def markdown(analysis: Analysis) -> str:
    """The answer, the main table, the notes, the comparisons, and the tables of the search."""
    plan, table = analysis.results.plan, analysis.table
    parts = [
        f"# {render.markdown_text(f'{plan.study}: {plan.task}')}\n",
        f"{render.markdown_text(analysis.conclusion)}\n",
        render.markdown_table(*render.table_cells(table)),
        f"{render.markdown_text(render.legend(table))}\n",
    ]
    if told := notes(analysis):
        parts.append("".join(f"- {render.markdown_text(note)}\n" for note in told))
    for section in _tables(analysis):
        parts += [
            f"## {render.markdown_text(section.title)}\n",
            render.markdown_table(section.header, section.rows, section.bold),
        ]
        parts += [f"{render.markdown_text(section.legend)}\n"] if section.legend else []
    return "\n".join(parts)


def text(analysis: Analysis) -> str:
    """The tables and notes for a terminal; the last line answers."""
    table, plan = analysis.table, analysis.results.plan
    parts = [
        render.terminal(f"{plan.study}: {plan.task}", *render.table_cells(table)),
        render.legend(table),
        *notes(analysis),
    ]
    for section in [*by_metric(analysis), *on_dev(analysis), *of_the_search(analysis), *comparisons(analysis)]:
        parts += [render.terminal(f"\n{section.title}", section.header, section.rows), section.legend]
    cost = " ".join(dict(answers(analysis))["What did it cost?"])
    return "\n".join([*filter(None, parts), cost, "", analysis.conclusion])


def _tables(analysis: Analysis) -> list[Section]:
    compared = [*comparisons(analysis), corrections(analysis), *seed_by_seed(analysis), *next_study(analysis)]
    return [*by_metric(analysis), *on_dev(analysis), *compared, *of_the_search(analysis), *strata(analysis)]


def _answers(analysis: Analysis) -> str:
    told = ""
    for question, lines in answers(analysis):
        shown = "".join(f"<dd>{html.escape(line)}</dd>" for line in lines)
        told += f"<div><dt>{html.escape(question)}</dt>{shown}</div>\n"
    return f'<dl class="answers">\n{told}</dl>'


def _section(section: Section, links: dict[str, str] | None = None) -> str:
    legend = f'\n<p class="small">{html.escape(section.legend)}</p>' if section.legend else ""
    table = render.html_table(section.header, section.rows, links, section.bold)
    kind = ' class="broad"' if section.broad else ""
    title = html.escape(section.title)
    return f'<section{kind}><h2>{title}</h2>\n<div class="wide">{table}</div>{legend}</section>'


def _figure(drawing: bytes, caption: str) -> str:
    """On white, in the dark too: its colours are made for paper."""
    source, words = base64.b64encode(drawing).decode(), html.escape(caption)
    return (
        f'<figure><img src="data:image/svg+xml;base64,{source}" alt="{words}"><figcaption>{words}</figcaption></figure>'
    )


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
