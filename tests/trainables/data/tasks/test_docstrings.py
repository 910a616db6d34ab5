import inspect
import sys
from pathlib import Path

import pytest

from tests.trainables.data.library import tiny_settings, write_library
from trainables.data.tasks.docstrings import find_definitions, get_source_version, read_dataset, strip_markup
from trainables.specs.ranking_task import RankerTaskSettings
from trainables.utils.errors import UserError

CASES = {
    "def f():\n    'Plain.'": {"f": "Plain."},
    "def f(): 'Same line.'": {"f": "Same line."},
    'async def f(a=\'\\n\'):\n    r"""Raw \\d."""': {"f": r"Raw \d."},
    "def f():\n    def g():\n        'Nested.'": {},
    "def _f():\n    'Private.'\nclass _A:\n    def f():\n        'Private.'": {},
    "class A:\n    'A.'\n    class B:\n        def f():\n            'F.'": {"A": "A.", "A.B.f": "F."},
    "def f():\n    x = 1\n    'No docstring.'": {},
    "def f():\n    (\n    'In parentheses.'\n    )": {},
    "if 1:\n    def f():\n        'F.'\nelse:\n    def g():\n        'G.'": {"f": "F.", "g": "G."},
    "try:\n    x = 1\nexcept OSError:\n    def f():\n        'F.'": {"f": "F."},
    "def f(:\n    'No syntax.'": {},
    'class A:\n    """A:\n\n        def f():\n            cut = 1\n    """': {
        "A": "A:\n\n        def f():\n            cut = 1\n    "
    },
    'def f(a=(1, "):"), b={2: 3}) -> "a:b":  # c\n    x = """\ndef g():\n    \'G.\'\n"""\ndef h():\n    "H."': {
        "h": "H."
    },
    "def f():\n    x = [\n1]\n# a comment\n    y = 2\nclass A:\n    'A.'": {"A": "A."},
}


@pytest.mark.parametrize("source", CASES)
def test_definitions_are_those_that_are_public(source: str) -> None:
    assert dict(find_definitions(source)) == CASES[source]


def test_definitions_of_a_real_library_are_those_that_it_has() -> None:
    convert = pytest.importorskip("networkx").convert
    found = dict(find_definitions(Path(convert.__file__).read_text(encoding="utf-8")))
    assert len(found) >= 6
    for name, docstring in found.items():
        assert inspect.unwrap(getattr(convert, name)).__doc__ == docstring


def test_clean_removes_markup() -> None:
    text = "Notes\n-----\n.. math:: x\n\nSee :func:`~a.b` and ``c``::\n\n    >>> f(1)\n"
    assert strip_markup(text) == "Notes x See ~a.b and c f(1)"


def test_queries_and_documents_have_the_stated_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_library(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    collection = read_dataset(tiny_settings())
    assert len(collection.queries) == 60
    assert "tinylib" not in sys.modules
    assert all(text.endswith("guide of this package for more.") for text in collection.documents.values())
    assert collection.queries["tinylib.core.f3"] == "Invert the polynomial number 3."
    for texts in (collection.queries, collection.documents):
        assert len({text.lower() for text in texts.values()}) == len(texts)


def test_a_query_belongs_to_one_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_library(tmp_path, functions=400)
    monkeypatch.syspath_prepend(tmp_path)
    relevant = read_dataset(tiny_settings()).qrels
    assert len({pair.query_id for pair in relevant}) == len({pair.document_id for pair in relevant}) == len(relevant)
    share = {split: sum(pair.split == split for pair in relevant) / len(relevant) for split in ("train", "dev", "test")}
    assert share == pytest.approx({"train": 0.8, "dev": 0.1, "test": 0.1}, abs=0.05)


def test_tests_and_private_names_are_left_out_and_equal_texts_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = write_library(tmp_path, functions=3)
    (module.parent / "tests").mkdir()
    (module.parent / "tests" / "test_core.py").write_text(module.read_text().replace("the", "a"))
    (module.parent / "_again.py").write_text(module.read_text())
    module.with_name("broken.py").write_text("def f(:\n  '''A B C D\n\n" + "w " * 20 + "'''\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert sorted(read_dataset(tiny_settings()).queries) == [f"tinylib._again.f{i}" for i in range(3)]


def test_state_changes_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = write_library(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = get_source_version(tiny_settings())
    assert get_source_version(tiny_settings()) == before
    module.write_text(module.read_text() + "\n")
    changed = get_source_version(tiny_settings())
    assert changed != before
    monkeypatch.setattr("trainables.data.tasks.docstrings._READER_VERSION", 0)  # the same files, read in another way
    assert get_source_version(tiny_settings()) != changed


@pytest.mark.parametrize("library", ["nosuchlibrary", "os.path", ""])
def test_a_library_that_is_not_installed_is_named(library: str) -> None:
    with pytest.raises(UserError, match=f"task.libraries: '{library}' is not installed; expected"):
        read_dataset(RankerTaskSettings(libraries=(library,)))
