"""Renders the report as an HTML page, Markdown and terminal text: the same tables in the same order."""

import base64
import json
from importlib import resources
from typing import Any

from markupsafe import Markup

from analysis import figures
from analysis.rendering import cells as render
from analysis.rendering.escaping import render_template
from analysis.rendering.looks import build_look_sections
from analysis.rendering.notes import collect_notes
from analysis.rendering.sections import (
    Section,
    build_comparison_sections,
    build_corrections_section,
    build_data_sections,
    build_dev_sections,
    build_ensemble_sections,
    build_group_sections,
    build_metric_sections,
    build_retrieval_sections,
    build_runs_section,
    build_sample_size_sections,
    build_search_sections,
    build_seed_sections,
    build_setup_sections,
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
    plan = analysis.results.plan
    files = resources.files("analysis.rendering").joinpath("templates")
    style, script = (Markup(files.joinpath(f"page.{kind}").read_text("utf-8")) for kind in ("css", "js"))
    return render_template(
        "report.html.j2",
        style=style,
        script=script,
        answers=answer_questions(analysis),
        figures=[(base64.b64encode(svg).decode(), figures.get_caption(name)) for name, svg in drawings.items()],
        runs=build_runs_section(analysis),
        links={run.id: run.url for run in analysis.results.runs if run.url},
        plan_hash=analysis.results.plan_hash,
        plan_version=plan.version,
        plan_text=json.dumps(plan.model_dump(mode="json"), indent=1, ensure_ascii=False),
        **_collect_values(analysis),
    )


def render_markdown(analysis: ReportData) -> str:
    """Render the conclusion, the main table, the notes, the comparisons, the tables of the search and the data."""
    return render_template("report.md.j2", conclusion=analysis.conclusion, **_collect_values(analysis))


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
        *build_retrieval_sections(analysis),
        *build_dev_sections(analysis),
        *build_search_sections(analysis),
        *build_look_sections(analysis),
        *build_comparison_sections(analysis),
        *build_data_sections(analysis.results.statistics),
    ]:
        parts += [render.format_terminal_table(f"\n{section.title}", section.header, section.rows), section.legend]
    cost = " ".join(dict(answer_questions(analysis))["What did it cost?"])
    return "\n".join([*filter(None, parts), cost, "", analysis.conclusion])


def _collect_values(analysis: ReportData) -> dict[str, Any]:
    """Return what the HTML page and Markdown both show."""
    plan, table = analysis.results.plan, analysis.table
    return {
        "title": f"{plan.study}: {plan.task}",
        "main_table": Section("Systems", *render.format_main_table(table), render.format_legend(table)),
        "notes": collect_notes(analysis),
        "sections": [
            *build_metric_sections(analysis),
            *build_retrieval_sections(analysis),
            *build_dev_sections(analysis),
            *build_look_sections(analysis),
            *build_comparison_sections(analysis),
            *build_group_sections(analysis),
            build_corrections_section(analysis),
            *build_seed_sections(analysis),
            *build_ensemble_sections(analysis),
            *build_sample_size_sections(analysis),
            *build_search_sections(analysis),
            *build_strata_sections(analysis),
            *build_setup_sections(analysis),
            *build_data_sections(analysis.results.statistics),
        ],
    }
