"""The code that runs and judges studies does not ask what is trained: it contains no name of a trainable."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from search_spaces.study_type import STUDY_TYPES, StudyType, get_study_type

ROOT = Path(__file__).parents[3]
MODULES = sorted(path for top in ("analysis", "records", "study") for path in (ROOT / top).rglob("*.py"))
MODULES.append(ROOT / "search_spaces" / "search.py")
ALL = [get_study_type(name) for name in STUDY_TYPES]
ENGLISH = {"weight", "multiple"}
STRENGTHS = {name for own in ALL for name in own.defaults} - ENGLISH
KNOWN = {
    "records/plan.py",
    "analysis/figures/__init__.py",
    "analysis/rendering/escaping.py",
    "analysis/rendering/sections.py",
}
"""What plans have that name no hyperparameters, and its symbol; names of the figures' files; TeX's own name."""


@cache
def list_texts(source: str) -> list[tuple[int, str]]:
    """Line and text of every name and string in some code, except for comments and docstrings."""
    tree, found = ast.parse(source), list[tuple[int, str]]()
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in alone:
                found.append((node.lineno, text))
            case ast.Name(id=text) | ast.Attribute(attr=text):
                found.append((node.lineno, text))
            case ast.keyword(arg=str(text)) | ast.arg(arg=text) | ast.alias(name=text):
                found.append((node.lineno, text))
            case ast.ImportFrom(module=str(text)):
                found.append((node.lineno, text))
    return found


def naming(names: set[str]) -> dict[str, list[int]]:
    """Lines with one of the names as a word, by file."""
    any_of = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])")
    found: dict[str, list[int]] = {}
    for file in MODULES:
        for line, text in list_texts(file.read_text(encoding="utf-8")):
            if any_of.search(text):
                found.setdefault(file.relative_to(ROOT).as_posix(), []).append(line)
    return found


@pytest.mark.parametrize(
    "names",
    [
        {*STUDY_TYPES, *(name for own in ALL for name in (*own.variants, *own.reference_rankings))},
        {own.unit for own in ALL} - {StudyType.unit},
        {own.target.partition(":")[0] for own in STUDY_TYPES.entries} | {own.specification.__module__ for own in ALL},
        {name for own in ALL for name in (own.trainable.training_module, own.trainable.data_module)},
    ],
    ids=["trainables and variants", "units of metrics", "modules of study types", "modules of trainables"],
)
def test_nobody_names_what_is_a_trainables_own(names):
    assert not naming(names)


def test_the_strength_is_named_only_for_plans_that_do_not_name_it():
    assert {*naming(STRENGTHS)} == KNOWN
