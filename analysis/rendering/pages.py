"""Renders the report as an HTML page, Markdown and terminal text: the same tables in the same order."""

import base64
import hashlib
import html
import json
from importlib import resources

from analysis import figures
from analysis.rendering import cells as render
from analysis.rendering.notes import collect_notes
from analysis.rendering.sections import (
    Section,
    build_comparison_sections,
    build_corrections_section,
    build_dev_sections,
    build_metric_sections,
    build_runs_section,
    build_sample_size_sections,
    build_search_sections,
    build_seed_sections,
    build_strata_sections,
)
from analysis.rendering.summary import answer_questions
from analysis.tables.main import ReportData


def render_html(analysis: ReportData, drawings: dict[str, bytes]) -> str:
    """Render the whole report as one HTML page, figures included, that refers to no other file.

    The page forbids the browser to load anything and to run any script except its own.

    Args:
        analysis: data of the report.
        drawings: SVG of each figure, by name.
    """
    plan, table = analysis.results.plan, analysis.table
    title = html.escape(f"{plan.study}: {plan.task}")
    links = {run.id: run.url for run in analysis.results.runs if run.url}
    items = "".join(f"<li>{html.escape(note)}</li>" for note in collect_notes(analysis))
    stored = json.dumps(plan.model_dump(mode="json"), indent=1, ensure_ascii=False)
    body = [
        f"<h1>{title}</h1>",
        _render_answers(analysis),
        _render_section(Section("Systems", *render.format_main_table(table), render.format_legend(table))),
        f"<ul>{items}</ul>" if items else "",
        *map(_render_section, _collect_sections(analysis)),
        "<h2>Figures</h2>" if drawings else "",
        *(_render_figure(drawing, figures.get_caption(name)) for name, drawing in drawings.items()),
        _render_section(build_runs_section(analysis), links),
        f"<details><summary>Plan {html.escape(analysis.results.plan_hash)}, version {plan.version}</summary>"
        f"<pre>{html.escape(stored)}</pre></details>",
    ]
    files = resources.files("analysis.rendering")
    style, script = (files.joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    allowed = f"default-src 'none'; img-src data:; style-src {_hash_for_csp(style)}; script-src {_hash_for_csp(script)}"
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


def render_markdown(analysis: ReportData) -> str:
    """Render the conclusion, the main table, the notes, the comparisons and the tables of the search."""
    plan, table = analysis.results.plan, analysis.table
    parts = [
        f"# {render.escape_markdown(f'{plan.study}: {plan.task}')}\n",
        f"{render.escape_markdown(analysis.conclusion)}\n",
        render.format_markdown_table(*render.format_main_table(table)),
        f"{render.escape_markdown(render.format_legend(table))}\n",
    ]
    if lines := collect_notes(analysis):
        parts.append("".join(f"- {render.escape_markdown(note)}\n" for note in lines))
    for section in _collect_sections(analysis):
        parts += [
            f"## {render.escape_markdown(section.title)}\n",
            render.format_markdown_table(section.header, section.rows, section.bold),
        ]
        parts += [f"{render.escape_markdown(section.legend)}\n"] if section.legend else []
    return "\n".join(parts)


def render_text(analysis: ReportData) -> str:
    """Render the tables and notes for a terminal; the last line is the conclusion."""
    table, plan = analysis.table, analysis.results.plan
    parts = [
        render.format_terminal_table(f"{plan.study}: {plan.task}", *render.format_main_table(table)),
        render.format_legend(table),
        *collect_notes(analysis),
    ]
    for section in [
        *build_metric_sections(analysis),
        *build_dev_sections(analysis),
        *build_search_sections(analysis),
        *build_comparison_sections(analysis),
    ]:
        parts += [render.format_terminal_table(f"\n{section.title}", section.header, section.rows), section.legend]
    cost = " ".join(dict(answer_questions(analysis))["What did it cost?"])
    return "\n".join([*filter(None, parts), cost, "", analysis.conclusion])


def _collect_sections(analysis: ReportData) -> list[Section]:
    compared = [
        *build_comparison_sections(analysis),
        build_corrections_section(analysis),
        *build_seed_sections(analysis),
        *build_sample_size_sections(analysis),
    ]
    return [
        *build_metric_sections(analysis),
        *build_dev_sections(analysis),
        *compared,
        *build_search_sections(analysis),
        *build_strata_sections(analysis),
    ]


def _render_answers(analysis: ReportData) -> str:
    items = ""
    for question, lines in answer_questions(analysis):
        shown = "".join(f"<dd>{html.escape(line)}</dd>" for line in lines)
        items += f"<div><dt>{html.escape(question)}</dt>{shown}</div>\n"
    return f'<dl class="answers">\n{items}</dl>'


def _render_section(section: Section, links: dict[str, str] | None = None) -> str:
    legend = f'\n<p class="small">{html.escape(section.legend)}</p>' if section.legend else ""
    table = render.format_html_table(section.header, section.rows, links, section.bold)
    kind = ' class="broad"' if section.is_wide else ""
    title = html.escape(section.title)
    return f'<section{kind}><h2>{title}</h2>\n<div class="wide">{table}</div>{legend}</section>'


def _render_figure(drawing: bytes, caption: str) -> str:
    """Render a figure on white, also in dark mode, because its colours are made for paper."""
    source, words = base64.b64encode(drawing).decode(), html.escape(caption)
    return (
        f'<figure><img src="data:image/svg+xml;base64,{source}" alt="{words}"><figcaption>{words}</figcaption></figure>'
    )


def _hash_for_csp(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
