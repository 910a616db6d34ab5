"""Layout of the product: folders with a charter, names that say what they do."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(
    path.parent
    for top in ("analysis", "records", "search_spaces", "study", "trainables")
    for path in (ROOT / top).rglob("__init__.py")
)
FILES = sorted(path for package in PACKAGES for path in package.glob("*.py"))
LARGEST = 12
BARE = {"check", "file", "files", "folder", "keep", "load", "name", "of", "read", "say", "state", "write"}
IRREGULAR = {
    "begun", "bound", "built", "chosen", "done", "drawn", "found", "given", "gone", "held", "hidden", "kept", "known",
    "left", "lost", "made", "met", "said", "seen", "sent", "shown", "spent", "taken", "told", "written",
}  # fmt: skip
USED_WITH_THEIR_MODULE = {"study/api.py"}
NOT_PARTICIPLES = {"embed", "exceed", "feed", "need", "seed", "shed", "speed"}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function with the class that it stands in, or nothing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield inside, node
        yield from functions(node, node.name if isinstance(node, ast.ClassDef) else inside)


def is_value(function: ast.FunctionDef) -> bool:
    """Returns True if a function is read like an attribute."""
    found = (ast.unparse(decorator) for decorator in function.decorator_list)
    return any(decorator.rpartition(".")[2] in ("property", "cached_property") for decorator in found)


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (re.fullmatch("[a-z]+ed", word) is not None and word not in NOT_PARTICIPLES)


@pytest.mark.parametrize("package", PACKAGES, ids=name)
def test_a_folder_is_a_room_with_a_charter(package):
    charter = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    assert charter
    assert len(charter.partition("\n")[0]) <= 120
    assert len([path for path in package.glob("*.py") if path.name != "__init__.py"]) <= LARGEST


def test_every_folder_is_in_the_contract_of_imports():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [layer for contract in contracts if contract["type"] == "layers" for layer in contract["layers"]]
    known = {place for layer in layers for place in re.split(r"[|:\s]+", layer)}
    for package in PACKAGES:
        dotted = name(package).replace("/", ".")
        own = {dotted} | {f"{dotted}.{path.stem}" for path in package.glob("*.py") if path.name != "__init__.py"}
        assert own & known or "." not in dotted, dotted


@pytest.mark.parametrize("path", FILES, ids=name)
def test_functions_are_named_by_verbs(path):
    found, bare = [], set() if name(path) in USED_WITH_THEIR_MODULE else BARE
    for inside, function in functions(ast.parse(path.read_text())):
        word = function.name.strip("_")
        if (word in bare and not inside) or (is_participle(word) and not is_value(function)):
            found.append(f"{inside}.{function.name}" if inside else function.name)
    assert found == []


def test_no_two_classes_have_the_same_name():
    names = Counter(
        node.name for path in FILES for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_every_long_test_is_in_one_part():
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    parts = {part: paths.split() for part, paths in re.findall(r"^LONG\.([\w-]+) := (.+)$", makefile, re.MULTILINE)}
    assert {*re.findall(r"^PARTS := (.+)$", makefile, re.MULTILINE)[0].split()} == {*parts, "wandb-server"}
    for file in ROOT.glob("tests/**/test_*.py"):
        if "mark.long" in file.read_text() and file != Path(__file__):
            within = [part for part, paths in parts.items() if any(file.is_relative_to(ROOT / path) for path in paths)]
            assert len(within) == 1, (file, within)
