"""A report as HTML, Markdown, LaTeX and terminal text: a first screen, headings with tables, and four templates."""

import base64
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from markupsafe import Markup
from pydantic import BaseModel

from analysis import figures
from analysis.data.cautions import format_caption
from analysis.rendering.answer import Answer
from analysis.rendering.cells import format_terminal_table
from analysis.rendering.conclusion import answer_study, list_warnings
from analysis.rendering.escaping import render_template
from analysis.rendering.latex import make_floats
from analysis.rendering.sections import Fold, list_folds
from analysis.tables.main import ReportData

_WIDTH = 100
"""Columns of the texts in a terminal."""


@dataclass(frozen=True)
class Document:
    """Texts and tables of a report, for any format.

    Attributes:
        title: title of the report; empty for the comparisons of a table of scores.
        warnings: what must be known before a verdict is believed, below the first table.
        plan: the plan; None for the comparisons of a table of scores.
        caution: what the scores cannot be compared with, for the captions in a paper.
        links: address by text of a cell.
    """

    title: str
    answer: Answer
    warnings: Sequence[str] = ()
    folds: Sequence[Fold] = ()
    plan: BaseModel | None = None
    caution: str = ""
    links: Mapping[str, str] = field(default_factory=dict)


def build_document(analysis: ReportData) -> Document:
    """Return what the report of a study says."""
    results, plan = analysis.results, analysis.results.plan
    return Document(
        title=f"{plan.study}: {plan.task}",
        answer=answer_study(analysis),
        warnings=list_warnings(analysis),
        folds=list_folds(analysis),
        plan=plan,
        caution=format_caption(results),
        links={run.id: run.url for run in results.runs if run.url},
    )


def render_html(document: Document, drawings: Mapping[str, bytes] | None = None) -> str:
    """Render the whole report as one HTML page, figures included, that refers to no other file.

    The page forbids the browser to load anything and to run any script except its own.
    """
    files = resources.files("analysis.rendering").joinpath("templates")
    style, script = (Markup(files.joinpath(f"page.{kind}").read_text("utf-8")) for kind in ("css", "js"))
    return render_template(
        "report.html.j2",
        document=document,
        style=style,
        script=script,
        drawings={name: base64.b64encode(svg).decode() for name, svg in (drawings or {}).items()},
        captions=figures.CAPTIONS,
        plan_text=json.dumps(document.plan.model_dump(mode="json"), indent=1, ensure_ascii=False)
        if document.plan
        else "",
    )


def render_markdown(document: Document) -> str:
    """Render the first screen, then the headings with their tables except that of the runs."""
    return render_template("report.md.j2", document=document)


def render_latex(document: Document) -> str:
    r"""Render the tables of a paper as floats for \input."""
    sections = [document.answer.table, *(section for fold in document.folds for section in fold.sections)]
    return render_template("report.tex.j2", floats=make_floats(sections, document.caution), document=document)


def render_text(document: Document, page: Path | None = None) -> str:
    """Render the first screen for a terminal."""
    sentence, table, line = document.answer
    head, *tail = (textwrap.fill(text, _WIDTH, break_on_hyphens=False) for text in (sentence, line, *document.warnings))
    last = [f"All else: {page}"] if page else []  # in one line, however long the path
    return "\n".join([head, format_terminal_table(table.header, table.rows), *tail, *last])
