"""Task docstrings: find the rest of a docstring, given its summary.

The docstrings are those of the public functions, classes and methods of installed libraries. The query is the summary
(first paragraph) of a docstring, and the document is the rest of it. The sources are parsed, never imported.
"""

import ast
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path

from trainables.data.tasks import IRDataset, Qrel, Task
from trainables.data.tasks.splits import split_by_hash
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError
from trainables.utils.words import fold_text

QUERY_WORDS = (3, 30)
"""Fewest and most words of a query."""
DOCUMENT_WORDS = 10
"""Fewest words of a document."""
_READER_VERSION = 3
"""Part of the source version. Increase it when the same sources give a different dataset."""
LONGEST_HEADER = 5000
"""Most characters from the start of a definition to the end of its docstring. A longer text that does not parse is
skipped."""
SKIPPED_NAMES = {"tests", "test", "testing", "conftest", "conftest.py", "__pycache__"}

# Parsing whole files takes 20 s for the default libraries (92 MB). A regular expression therefore finds comments,
# definitions and strings, which can contain one another. Only a header with its first string is passed to the parser.
# Every alternative begins with one of four characters, which makes the search twice as fast. Only single characters are
# repeated possessively: Python 3.11.2 backtracks wrongly out of a possessive group.
_SCANNER = re.compile(
    r"""
      \#[^\n]*+
    | \n(?P<indent>[ \t]*+)(?:(?P<kind>async[ \t]+def|def|class)[ \t]+(?P<name>\w+) | (?:if|else|try|with)\b)
    | (?P<string>\"{3}(?:[^"\\]++|\\.|"(?!""))*\"{3} | '{3}(?:[^'\\]++|\\.|'(?!''))*'{3}
        | "(?:[^"\\\n]++|\\.)*" | '(?:[^'\\\n]++|\\.)*')
    """,
    re.VERBOSE | re.DOTALL,
)
_RULES = re.compile(r"[-=~^*#_.]{3,}")
_MARKUP = re.compile(r"\.\. [\w-]+::|:[\w:]+:(?=`)|>>>|`+|::")


def read_dataset(settings: RankerTaskSettings) -> IRDataset:
    """Read the docstrings of `settings.libraries`.

    The id of a query and of its document is the qualified name, and the domain of a query is its library. Queries have
    3 to 30 words, documents 10 or more. Among equal queries or equal documents (case ignored), only the first by name
    is kept. The queries are split 80/10/10 % by the SHA-256 of the name.

    Raises:
        UserError: If a library is not installed.
    """
    docstrings: dict[str, str] = {}
    for library in settings.libraries:
        for module, path in _find_modules(library):
            for name, docstring in find_definitions(path.read_text(encoding="utf-8", errors="replace")):
                docstrings.setdefault(f"{module}.{name}", docstring)
    dataset = IRDataset({}, {}, [], [], {}, {})
    queries: set[str] = set()
    documents: set[str] = set()
    for name, docstring in sorted(docstrings.items()):
        summary, *rest = re.split(r"\n\s*\n", docstring.strip(), maxsplit=1)
        query = strip_markup(summary)
        if not QUERY_WORDS[0] <= len(query.split()) <= QUERY_WORDS[1] or fold_text(query) in queries:
            continue
        document = strip_markup("".join(rest))
        if len(document.split()) < DOCUMENT_WORDS or fold_text(document) in documents:
            continue
        queries.add(fold_text(query))
        documents.add(fold_text(document))
        dataset.queries[name] = query
        dataset.documents[name] = document
        dataset.qrels.append(Qrel(split_by_hash(name), name, name))
        dataset.domains[name] = name.partition(".")[0]
    return dataset


def get_source_version(settings: RankerTaskSettings) -> str:
    """Return the SHA-256 of the names, sizes and times of all source files.

    No file is opened. 5,000 files take 0.2 s.

    Raises:
        UserError: If a library is not installed.
    """
    hasher = hashlib.sha256(f"reading {_READER_VERSION}\n".encode())
    for library in settings.libraries:
        for module, path in _find_modules(library):
            status = path.stat()
            hasher.update(f"{module} {path.name} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\n".encode())
    return hasher.hexdigest()


def find_definitions(source: str) -> Iterator[tuple[str, str]]:
    r"""Yield name and raw docstring of every public class, function and method of a module's source.

    The names are qualified within the module. Definitions in a function or in a private class are not public. A
    docstring in parentheses is not found.

    Example:
        >>> list(find_definitions("class A:\n    def f():\n        'Do it.'"))
        [('A.f', 'Do it.')]
    """
    scopes: list[tuple[int, str, bool]] = []  # indentation, name, True if its members are public
    start: int | None = None  # position of the latest public definition, while its docstring has not been found
    source = "\n" + source
    for token in _SCANNER.finditer(source):
        if token["indent"] is not None:
            indent = len(token["indent"].expandtabs())
            while scopes and scopes[-1][0] >= indent:
                scopes.pop()
            if (name := token["name"]) is not None:
                is_public = not name.startswith("_") and (not scopes or scopes[-1][2])
                scopes.append((indent, name, is_public and token["kind"] == "class"))
                start = token.start() + 1 if is_public else None
        elif start is not None and token["string"] is not None and _is_at_line_start(source, token.start()):
            if (node := _parse_definition(source[start : token.end()])) is not None:
                if (docstring := ast.get_docstring(node, clean=False)) is not None:
                    yield ".".join(scope[1] for scope in scopes), docstring
                start = None
            elif token.end() - start > LONGEST_HEADER:
                start = None


def strip_markup(text: str) -> str:
    """Return the text on one line, without the markup of reStructuredText.

    The markup is underlines, directives, roles, backticks and prompts.

    Example:
        >>> strip_markup("See :func:`numpy.dot` for ``a`` and ``b``")
        'See numpy.dot for a and b'
    """
    return " ".join(_MARKUP.sub(" ", _RULES.sub(" ", text)).split())


def _is_at_line_start(source: str, position: int) -> bool:
    return source[source.rfind("\n", 0, position) + 1 : position].strip() in ("", "r", "R", "u", "U")


def _parse_definition(text: str) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | None:
    """Return the parsed definition, or None if the text ends within the header.

    This happens because a string within a header can also be at the start of a line.
    """
    try:
        node = ast.parse("if 1:\n" + text if text[0] in " \t" else text).body[0]
    except (SyntaxError, ValueError):
        return None
    if isinstance(node, ast.If):
        node = node.body[0]
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else None


def _find_modules(library: str) -> Iterator[tuple[str, Path]]:
    """Yield the dotted name and the file of every module, in a fixed order."""
    try:
        spec = None if "." in library else importlib.util.find_spec(library)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise UserError("task.libraries", f"{library!r} is not installed", "names of installed top-level packages")
    if spec.submodule_search_locations is None:
        if spec.origin is not None and spec.origin.endswith(".py"):
            yield library, Path(spec.origin)
        return
    for root in spec.submodule_search_locations:
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in SKIPPED_NAMES)
            package = ".".join([library, *Path(folder).relative_to(root).parts])
            for file in sorted(files):
                if file.endswith(".py") and file not in SKIPPED_NAMES:
                    yield package if file == "__init__.py" else f"{package}.{file[:-3]}", Path(folder, file)


TASK = Task(read_dataset, get_source_version)
