"""Templates escape what they print: no value can command the page, the table or the paper that it stands in."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from analysis.rendering.answer import Answer
from analysis.rendering.document import Document, render_html
from analysis.rendering.escaping import Raw, escape_latex, escape_markdown, escape_markdown_cell, render_template
from analysis.rendering.sections import Fold
from analysis.tables.section import Section
from records.suite_plan import SuitePlan

TEXTS = st.text(st.sampled_from("ab1 -.|<>&\"'$%#_{}~^\\[]±ε▲\n/!"), max_size=30)


def _render_page(section: Section) -> str:
    text = section.legend
    plan = SuitePlan.model_construct(suite=section.title)
    fold = Fold(section.title, [section], [text])
    document = Document(section.title, Answer(text, section, text), [text], [fold], plan, text, {"y": "x"})
    return render_html(document, {"effects": b""})


@given(TEXTS)
def test_a_value_adds_no_element_to_the_page(text: str) -> None:
    def build(value: str) -> Section:
        return Section(value, [value, "x"], [[value, "y"]], value or "-", bold=frozenset({(0, 0)}))

    def list_tags(source: str) -> list[str]:
        return re.findall(r"</?\w+", source)

    assert list_tags(_render_page(build(text))) == list_tags(_render_page(build("a")))
    if text:
        assert text in html.unescape(_render_page(build(text)))


@given(TEXTS)
def test_markdown_shows_text_and_no_tags(text: str) -> None:
    assert not re.search(r"(?<!\\)<[A-Za-z/!?]", escape_markdown(text))
    assert "\n" not in escape_markdown(text)
    assert "|" not in escape_markdown_cell(text).replace(r"\|", "")


@given(TEXTS)
def test_latex_has_balanced_braces_and_no_open_command(text: str) -> None:
    shown = escape_latex(text)
    unescaped = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|\\[&%$#_{}]", "", shown)
    math = re.sub(r"\$(\\[A-Za-z]+|[<>|-])\$", "", unescaped)
    assert not set("&%$#_~^\\<>|") & set(math)
    assert math.replace("{[}", "").replace("{]}", "").count("{") == 0


def test_raw_text_is_printed_as_it_is_and_all_other_text_escaped() -> None:
    table = {
        "caption": "50 % of a_b",
        "label": Raw("main"),
        "columns": Raw("l{r}"),
        "header": ["a_b", Raw(r"\textbf{b}")],
        "rows": [["-", "x & y"]],
        "environment": "table*",
    }
    shown = render_template("report.tex.j2", floats=[table], document={"warnings": [Raw("50 %")]})
    assert r"\caption{50 \% of a\_b}" in shown
    assert r"\begin{tabular}{l{r}}" in shown
    assert r"a\_b & \textbf{b} \\" in shown
    assert r"-- & x \& y \\" in shown
    assert "\n% 50 %\n" in shown


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="answer"):
        render_template("report.md.j2", document={"title": "t"})
