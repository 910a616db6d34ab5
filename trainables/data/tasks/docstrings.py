"""Task docstrings: find the rest of a docstring, given its summary.

The docstrings are those of the public functions, classes and methods of installed libraries. The query is the summary
(first paragraph) of a docstring, and the document is the rest of it. The sources are parsed, never imported.
"""

import ast
import hashlib
import importlib.util
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from trainables.data.tasks import IRDataset, Qrel, Task
from trainables.data.tasks.splits import split_by_hash
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.text.words import fold_text
from trainables.utils.errors import UserError

QUERY_WORDS = (3, 30)
"""Fewest and most words of a query."""
DOCUMENT_WORDS = 10
"""Fewest words of a document."""
_READER_VERSION = 4
"""Part of the source version. Increase it when the same sources give a different dataset."""
SKIPPED_NAMES = {"tests", "test", "testing", "conftest", "conftest.py", "__pycache__"}

# Most of a source is bodies of functions, without public docstrings. Without them, parsing takes a third of the time.
# Strings and comments are matched first, since they can contain what looks like a function. Only single characters are
# repeated possessively: Python 3.11.2 backtracks wrongly out of a possessive group.
_STRING = (
    r"(?:\"{3}(?:[^\"\\]++|\\.|\"(?!\"\"))*\"{3}|'{3}(?:[^'\\]++|\\.|'(?!''))*'{3}"
    r"|\"(?:[^\"\\\n]++|\\.)*\"|'(?:[^'\\\n]++|\\.)*')"
)
_COMMENT = r"\#[^\n]*+"
_PART = rf"[^\"'#()]++|{_STRING}|{_COMMENT}"
_ARGUMENTS = rf"\((?:{_PART}|\((?:{_PART}|\((?:{_PART})*\))*\))*\)"
_FUNCTION = re.compile(
    rf"""
    {_STRING} | {_COMMENT}
    | (?P<header>\n(?P<indent>[ \t]*+)(?:async[ ]+)?def[ ]\w++{_ARGUMENTS}(?:[ ]*->(?:[^:\"'#\n]++|{_STRING})+)?:)
      [ \t]*+(?:{_COMMENT})?(?=\n)
      (?P<docstring>(?:\s++|{_COMMENT})*[rRuU]?{_STRING})?
      (?:\n(?:[ \t]*+(?=\n)|[ \t]*{_COMMENT}|(?P=indent)[ \t](?:[^\"'#\n]++|{_STRING}|{_COMMENT})*))*
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
    r"""Yield name and raw docstring of every public class, function and method of a module's source, if it parses.

    The names are qualified within the module. Definitions in a function or in a private class are not public. A
    docstring in parentheses is left out.

    Example:
        >>> list(find_definitions("class A:\n    def f():\n        'Do it.'"))
        [('A.f', 'Do it.')]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of an invalid escape
        for text in (_FUNCTION.sub(_leave_out_body, f"\n{source}"), source):
            with suppress(SyntaxError, ValueError):
                yield from _walk_definitions(ast.parse(text).body, "")
                return


def _leave_out_body(match: re.Match[str]) -> str:
    return match["header"] + (match["docstring"] or " 0") if match["header"] else match[0]


def _walk_definitions(nodes: Iterable[ast.AST], prefix: str) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name.startswith("_"):
                continue
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None and not _begins_with_parenthesis(node.body[0]):
                yield prefix + node.name, docstring
            if isinstance(node, ast.ClassDef):
                yield from _walk_definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):  # if, try, with, ...
            yield from _walk_definitions(ast.iter_child_nodes(node), prefix)


def _begins_with_parenthesis(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else node
    return (node.lineno, node.col_offset) != (value.lineno, value.col_offset)


def strip_markup(text: str) -> str:
    """Return the text on one line, without the markup of reStructuredText.

    The markup is underlines, directives, roles, backticks and prompts.

    Example:
        >>> strip_markup("See :func:`numpy.dot` for ``a`` and ``b``")
        'See numpy.dot for a and b'
    """
    return " ".join(_MARKUP.sub(" ", _RULES.sub(" ", text)).split())


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
