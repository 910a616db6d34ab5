"""What conducts and judges studies does not ask what is trained: no name of a trainable's stands in its code."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from search_spaces.registry import STUDY_TYPES, StudyType, get_study_type

ROOT = Path(__file__).parents[3]
MODULES = sorted([*(ROOT / "study").rglob("*.py"), *(ROOT / "analysis").rglob("*.py")])
MODULES.append(ROOT / "search_spaces" / "search.py")
ALL = [get_study_type(name) for name in STUDY_TYPES]
NAMES = {*STUDY_TYPES, *(name for own in ALL for name in (*own.variants, *own.reference_rankings))}
STRENGTHS = {name for own in ALL for name in own.defaults} - {"weight", "multiple"}  # words of English too
UNITS = {own.unit for own in ALL} - {StudyType.unit}
KNOWN = {"analysis/data/plan.py", "analysis/figures/__init__.py", "analysis/rendering/escaping.py"}
"""What plans have that name no hyperparameters, and its symbol; names of the figures' files; TeX's own name."""


def said(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every name and string in some code, but for comments and docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in alone:
                yield node.lineno, text
            case ast.Name(id=text) | ast.Attribute(attr=text):
                yield node.lineno, text
            case ast.keyword(arg=str(text)) | ast.arg(arg=text) | ast.alias(name=text):
                yield node.lineno, text
            case ast.ImportFrom(module=str(text)):
                yield node.lineno, text


@cache
def _said(file: Path) -> list[tuple[int, str]]:
    return list(said(file.read_text(encoding="utf-8")))


def naming(names: set[str]) -> dict[str, list[int]]:
    """Where one of the names stands as a word: lines by file."""
    any_of = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])")
    found: dict[str, list[int]] = {}
    for file in MODULES:
        for line, text in _said(file):
            if any_of.search(text):
                found.setdefault(file.relative_to(ROOT).as_posix(), []).append(line)
    return found


def test_nobody_names_a_trainable_or_its_variants() -> None:
    assert not naming(NAMES)


def test_nobody_names_what_a_metric_of_one_trainable_is_averaged_over() -> None:
    assert not naming(UNITS)


def test_nobody_imports_what_is_a_trainables_own() -> None:
    assert not naming(
        {*(own.target.partition(":")[0] for own in STUDY_TYPES.entries), *(own.specification.__module__ for own in ALL)}
    )
    assert not naming({name for own in ALL for name in (own.trainable.training_module, own.trainable.data_module)})


def test_the_strength_is_named_only_for_plans_that_do_not_name_it() -> None:
    assert {*naming(STRENGTHS)} == KNOWN


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Of BERT."""\nif name == "BERT": pass', 2),
        ('f"{x} over SimCSE"', 1),
        ("from trainables import rankers\nimport search_spaces.ranker", 2),
        ("# BERT\ndef f():\n    '''BERT.'''\nx = 1\n'''BERT.'''", None),
        ("first, sentence = 'BERTology', 'T-BERT'", None),
    ],
)
def test_a_name_is_found_where_it_is_one(tmp_path: Path, source: str, line: int | None) -> None:
    words = re.compile(r"(?<![\w-])(BERT|SimCSE|search_spaces\.ranker)(?![\w-])")
    found = [number for number, text in said(source) if words.search(text)]
    assert found == ([] if line is None else [line])
