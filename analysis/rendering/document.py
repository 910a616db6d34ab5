"""A report as HTML, Markdown, LaTeX and terminal text: one list of tables and four templates."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from markupsafe import Markup
from pydantic import BaseModel

from analysis import figures
from analysis.data.cautions import format_caption
from analysis.rendering.cells import format_terminal_table
from analysis.rendering.conclusion import write_conclusion
from analysis.rendering.escaping import render_template
from analysis.rendering.latex import make_floats
from analysis.rendering.notes import collect_notes
from analysis.rendering.sections import list_sections
from analysis.rendering.summary import answer_questions
from analysis.tables.main import ReportData
from analysis.tables.section import Section


@dataclass(frozen=True)
class Document:
    """Texts and tables of a report, for any format.

    Attributes:
        title: title of the report.
        conclusions: conclusion of the study, or one for each study of a suite.
        answers: questions with the lines of their answers, at the head of the page.
        sections: tables in their order. The first of a study has no title but that of the report.
        plan: the plan.
        plan_title: name, hash and version of the plan.
        notes: notes below the first table.
        caution: what the scores cannot be compared with.
        cost: what a study cost, for the terminal.
        links: address by text of a cell of the last table.
        is_suite: True if it is the joint report of a suite.
    """

    title: str
    conclusions: Sequence[str]
    answers: Sequence[tuple[str, Sequence[str]]]
    sections: Sequence[Section]
    plan: BaseModel
    plan_title: str
    notes: Sequence[str] = ()
    caution: str = ""
    cost: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    is_suite: bool = False


def build_document(analysis: ReportData) -> Document:
    """Return what the report of a study says."""
    results, plan = analysis.results, analysis.results.plan
    answers = answer_questions(analysis)
    return Document(
        title=f"{plan.study}: {plan.task}",
        conclusions=[write_conclusion(analysis)],
        answers=answers,
        sections=list_sections(analysis),
        plan=plan,
        plan_title=f"Plan {results.plan_hash}, version {plan.version}",
        notes=collect_notes(analysis),
        caution=format_caption(results),
        cost=" ".join(dict(answers)["What did it cost?"]),
        links={run.id: run.url for run in results.runs if run.url},
    )


def render_html(document: Document, drawings: Mapping[str, bytes] | None = None) -> str:
    """Render the whole report as one HTML page, figures included, that refers to no other file.

    The page forbids the browser to load anything and to run any script except its own.

    Args:
        document: the report.
        drawings: SVG of each figure, by name.
    """
    files = resources.files("analysis.rendering").joinpath("templates")
    style, script = (Markup(files.joinpath(f"page.{kind}").read_text("utf-8")) for kind in ("css", "js"))
    return render_template(
        "report.html.j2",
        document=document,
        style=style,
        script=script,
        figures=[(base64.b64encode(svg).decode(), figures.CAPTIONS[name]) for name, svg in (drawings or {}).items()],
        plan_text=json.dumps(document.plan.model_dump(mode="json"), indent=1, ensure_ascii=False),
    )


def render_markdown(document: Document) -> str:
    """Render the conclusion, the tables and the notes, without the table of the runs."""
    return render_template("report.md.j2", document=document)


def render_latex(document: Document) -> str:
    r"""Render the tables of a paper as floats for \input."""
    return render_template("report.tex.j2", floats=make_floats(document.sections, document.caution), document=document)


def render_text(document: Document) -> str:
    """Render tables and notes for a terminal; the last lines are the conclusions."""
    return render_template("report.txt.j2", document=document, format_table=format_terminal_table).rstrip("\n")
