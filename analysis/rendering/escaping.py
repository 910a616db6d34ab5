"""Jinja2 environments in which everything that a template prints is escaped for the template's format."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from trainables.text.text_files import parse_number

if TYPE_CHECKING:
    import pandas as pd

_LATEX_DELIMITERS: dict[str, Any] = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}
"""Delimiters without braces, which LaTeX needs itself."""
_LATEX_CHARACTERS = {
    **{character: "\\" + character for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "[": "{[}",
    "]": "{]}",
    "±": r"$\pm$",
    "ε": r"$\epsilon$",
    "\N{MINUS SIGN}": "$-$",
    "“": "``",
    "”": "''",
}


class Raw(str):
    """Text in the format of its template already, which is not escaped again."""

    __slots__ = ()


def escape_latex(text: str) -> Raw:
    r"""Return the text on one line, without LaTeX commands.

    Example:
        >>> print(escape_latex("50 % of A_B"))
        50 \% of A\_B
    """
    shown = re.sub(r"(?<!\w)-(?=\d)", "\N{MINUS SIGN}", " ".join(text.split()))
    return Raw("".join(_LATEX_CHARACTERS.get(character, character) for character in shown))


def escape_markdown(text: str) -> Raw:
    r"""Return the text on one line, without HTML tags.

    Example:
        >>> print(escape_markdown("p <.05, <b>"))
        p <.05, \<b>
    """
    return Raw(re.sub(r"<(?=[A-Za-z/!?])", r"\\<", " ".join(text.split())))


def escape_markdown_cell(text: str) -> Raw:
    """Return the text for a cell of a Markdown table, which a bar would end."""
    return Raw(escape_markdown(text).replace("|", r"\|"))


def render_csv(frame: "pd.DataFrame") -> str:
    """Render a table as CSV in which no text is a formula: one that looks like it begins with an apostrophe.

    Lists are JSON.

    Example:
        >>> import pandas as pd
        >>> render_csv(pd.DataFrame({"system": ["=1+1", "-0.5", "BERT"], "value": [-1, 2, 3]})).split()
        ['system,value', "'=1+1,-1", '-0.5,2', 'BERT,3']
    """
    lists = frame.map(lambda cell: json.dumps(cell) if isinstance(cell, list | tuple) else cell)
    shown = lists.map(lambda cell: f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell)
    return str(shown.to_csv(index=False, lineterminator="\n"))


def _is_formula(text: str) -> bool:
    return len(text) > 1 and text[0] in "=+-@\t\r" and math.isnan(parse_number(text))


def render_template(name: str, **values: Any) -> str:
    """Render a template of `analysis/rendering/templates`.

    Args:
        name: its file name. The end of it names the format.
        **values: what the template prints. A value that it prints and that is missing is an error.
    """
    text = _make_environment(name.split(".")[-2]).get_template(name).render(values)
    return text.rstrip("\n") + "\n"


@cache
def _make_environment(file_format: str) -> Environment:
    """Return the environment of a format: html, md, tex or txt."""
    escapes: dict[str, Callable[[str], Raw]] = {"md": escape_markdown, "tex": escape_latex, "txt": Raw}
    escape = escapes.get(file_format)
    environment = Environment(
        loader=PackageLoader("analysis.rendering"),
        autoescape=escape is None,
        finalize=(lambda value: value if isinstance(value, Raw) else escape(str(value))) if escape else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **(_LATEX_DELIMITERS if file_format == "tex" else {}),
    )
    environment.filters |= {"cell": escape_markdown_cell, "raw": Raw, "sha256": _hash_source}
    return environment


def _hash_source(content: str) -> str:
    """Return the hash that a Content-Security-Policy names a style or a script by."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
