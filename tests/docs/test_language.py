"""Plain English in documentation, docstrings, comments and messages: no words of the old dialect, few long sentences.

`python -m tests.docs.test_language PAGE...` prints what it finds in Markdown pages, Python files and folders.
"""

import ast
import inspect
import math
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

from tests.docs.blocks import PAGES, ROOT

MOST_WORDS = 30
SHARE = 0.01
"""The share of sentences that may be longer, of a page or of a package; one is allowed in any case."""
DIALECT = re.compile(
    r"\b(as well|beside|anew|whose|(?:for|in|by|of|to|from|with|without|under|after|on) whom|of which|but for|whatever"
    r"|whoever|whichever|there(?:by|in|of|from|with|upon)|here(?:by|in|of|with)|where(?:by|in|of|upon)|hitherto"
    r"|(?:is|are|was|were|be|been|being|gets?) refused|to be had|hangs? together|as far as there)\b"
    r"|(?-i:\bSo that\b|(?:^|(?<=[.!?:] ))Of (?!course))",
    re.IGNORECASE,
)
OPENERS = re.compile(r"(What|Who|Whoever|Whose|How|Which|Whether|Of|Where)\b")
"""Words with which no docstring begins: its first line says what the thing does, or is."""
ALLOWED: dict[str, set[str]] = {}
"""Words that a file may use, since it quotes them or has an honest use for them."""
MARKDOWN = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"]
PRODUCT = ("analysis", "records", "search_spaces", "study", "trainables")
PACKAGES = (*PRODUCT, "benchmarks", "docs/scripts", "examples", "tests", "wandb_server")
SETTINGS = sorted(
    path for ending in ("toml", "yaml", "j2") for top in PRODUCT for path in (ROOT / top).rglob(f"*.{ending}")
)
_SHORT_FORMS = re.compile(r"\b(e\.g|i\.e|cf|et al|vs|[Ff]ig|[Ee]q|[Nn]o|p|pp|[A-Z])\.(?=\s)")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9`])")
_ATTRIBUTES = re.compile(r"\{ ?[:#.][^}]*\}")
_DIRECTIVE = re.compile(r"#:? ?(noqa|type:|fmt:|mypy|ruff|pragma)")
_ITEM = re.compile(r"\*{0,2}\w[\w.\[\], ]{0,30}: |- ")


class Passage(NamedTuple):
    """A paragraph, a cell of a table or another piece of text; sentences are counted in prose only."""

    line: int
    text: str
    is_prose: bool = True

    def find_dialect(self) -> list[str]:
        return [match[0].lower() for match in DIALECT.finditer(self.text)]

    def list_sentences(self) -> list[str]:
        return _END.split(_SHORT_FORMS.sub(r"\1", self.text)) if self.is_prose and self.text.strip() else []


def count_words(sentence: str) -> int:
    return sum(re.search(r"\w", word) is not None for word in sentence.split())


def parse_markdown(text: str) -> Iterator[Passage]:
    """Yield the text of paragraphs, items, headings and cells, without code, comments and addresses of links."""
    lines, is_inside = list[str](), False
    for line in text.splitlines():  # the body of an admonition is indented, which is code in plain Markdown
        is_inside = line.startswith(("!!! ", "??? ")) or (is_inside and line[:1] in ("", " "))
        lines.append("" if line.startswith(("!!! ", "??? ")) else line.removeprefix("    ") if is_inside else line)
    is_table, line = False, 0
    for token in MarkdownIt("commonmark").enable("table").parse("\n".join(lines)):
        line = token.map[0] + 1 if token.map else line
        if token.type in ("table_open", "table_close"):
            is_table = token.type == "table_open"
        if token.type == "inline":
            kinds = {"text": None, "code_inline": "`code`", "softbreak": " ", "hardbreak": " "}
            parts = [kinds[part.type] or part.content for part in token.children or () if part.type in kinds]
            yield Passage(line, _ATTRIBUTES.sub("", "".join(parts)), not is_table)


def parse_docstring(text: str, start: int) -> Iterator[Passage]:
    """Yield the paragraphs and items of a docstring, without its examples."""
    lines, is_example = list[str](), False
    for line in map(str.strip, inspect.cleandoc(text).splitlines()):
        is_example = line.startswith(">>>") or (is_example and line != "")
        if not is_example and _ITEM.match(line):
            lines.append("")
        lines.append("" if is_example else line)
    yield from (passage._replace(line=start) for passage in parse_markdown("\n".join(lines)))


def parse_comments(path: Path) -> Iterator[Passage]:
    """Yield the comments of a file; comments in lines one below the other are one."""
    text, last = "", (0, 0)
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
                content = token.string.lstrip("#: ")
                if text and token.start == (last[0] + 1, last[1]):
                    text += f" {content}"
                else:
                    yield Passage(last[0], re.sub("`[^`]+`", "`code`", text))
                    text = content
                last = token.start
    yield Passage(last[0], text)


def parse_python(path: Path, is_product: bool) -> Iterator[Passage]:
    """Yield docstrings, comments and names of functions; of the product also texts, such as messages."""
    tree, documented = ast.parse(path.read_text(encoding="utf-8")), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.add(id(node.value))
            yield from parse_docstring(node.value.value, node.lineno)
        elif isinstance(node, ast.FunctionDef):
            yield Passage(node.lineno, node.name.replace("_", " "), is_prose=False)
        elif (
            is_product and isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented
        ):
            yield Passage(node.lineno, node.value, is_prose=False)
    yield from parse_comments(path)


@cache
def read_passages(path: Path) -> dict[str, list[Passage]]:
    """Read a page, a file, or all Python files below a folder: name of the file -> its passages."""
    if path.is_dir():
        return {name: found for file in sorted(path.rglob("*.py")) for name, found in read_passages(file).items()}
    name = str(path.relative_to(ROOT))
    if path.suffix == ".py":
        return {name: [*parse_python(path, name.startswith(PRODUCT))]}
    text = path.read_text(encoding="utf-8")
    return {name: [*parse_markdown(text)] if path.suffix == ".md" else [Passage(1, text, is_prose=False)]}


def find_dialect(path: Path) -> list[str]:
    return [
        f"{name}:{passage.line}: {word}"
        for name, passages in read_passages(path).items()
        for passage in passages
        for word in passage.find_dialect()
        if word not in ALLOWED.get(name, set())
    ]


def find_long_sentences(path: Path) -> tuple[list[str], int]:
    """Return the sentences with more than MOST_WORDS words, and how many may be so long."""
    sentences = [
        (f"{name}:{passage.line}: {count_words(sentence)} words: {sentence}", count_words(sentence))
        for name, passages in read_passages(path).items()
        for passage in passages
        for sentence in passage.list_sentences()
    ]
    return [text for text, words in sentences if words > MOST_WORDS], math.ceil(SHARE * len(sentences))


def find_openers(package: Path) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return [
        f"{path.relative_to(ROOT)}: {text.partition(chr(10))[0]}"
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds) and OPENERS.match(text := ast.get_docstring(node) or "")
    ]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


PLACES = [*MARKDOWN, *(ROOT / package for package in PACKAGES)]


@pytest.mark.parametrize("path", [*PLACES, *SETTINGS], ids=name)
def test_words_are_those_of_today(path):
    found = find_dialect(path)
    assert not found, f"{len(found)} words of the dialect:\n" + "\n".join(found)


@pytest.mark.parametrize("path", PLACES, ids=name)
def test_long_sentences_are_rare(path):
    found, most = find_long_sentences(path)
    assert len(found) <= most, f"{len(found)} sentences with more than {MOST_WORDS} words:\n" + "\n".join(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_begin_with_what_the_thing_does(package):
    assert find_openers(ROOT / package) == []


def test_the_words_of_prose_are_counted_without_code_and_addresses():
    page = """# Of `a b`

Of course. See [the page](https://whose.example), e.g. here. No
more.

```sh
anew
```

| a |
| - |
| whose |

!!! note
    But for one.
"""
    passages = [*parse_markdown(page)]
    sentences = [sentence for passage in passages for sentence in passage.list_sentences()]
    assert sentences == ["Of `code`", "Of course.", "See the page, e.g here.", "No more.", "But for one."]
    assert [count_words(sentence) for sentence in sentences] == [2, 2, 5, 2, 3]
    assert [word for passage in passages for word in passage.find_dialect()] == ["of ", "whose", "but for"]


def test_docstrings_comments_names_and_messages_are_read(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        '"""One whose\n\n>>> 1\n"anew"\n\nArgs:\n    a: As well.\n    b: Two.\n"""\n'
        "# A line\n# of which\nx = 'but for'  # noqa: anew\n\n\ndef test_whatever():\n    pass\n",
        encoding="utf-8",
    )
    found = [word for passage in parse_python(file, is_product=True) for word in passage.find_dialect()]
    assert sorted(found) == ["as well", "but for", "of which", "whatever", "whose"]


if __name__ == "__main__":
    for argument in sys.argv[1:] or [name(path) for path in PLACES]:
        page = (ROOT / argument).resolve()
        dialect, (long, allowed) = find_dialect(page), find_long_sentences(page)
        print(f"{argument}: {len(dialect)} words of the dialect, {len(long)} long sentences ({allowed} allowed)")
        print(*(f"  {text}" for text in (*dialect, *long) if len(sys.argv) > 1), sep="\n", end="")
