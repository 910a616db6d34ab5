"""Code blocks of README and documentation: each is run, or checked as far as that goes without a server or hours."""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from study import api
from study.config.loader import load_study
from study.config.sources import list_shipped
from study.run import main
from study.suites.suite_loader import load_suite
from tests.docs.blocks import CHECKED, PAGES, ROOT, Block, find_previews, is_printed, read_blocks
from tests.plugins import take_back_plugins

BLOCKS_OF_PAGES = [read_blocks(page) for page in PAGES]
BLOCKS = [block for blocks in BLOCKS_OF_PAGES for block in blocks if block.language in CHECKED]
PREVIEWS = {block: shown for blocks in BLOCKS_OF_PAGES for block, shown in find_previews(blocks).items()}
MARKS = {
    "sh": {"run", "dry-run", "options", "by hand"},
    "python": {"run", "by hand"},
    "toml": {"study", "suite", "keys", "by hand"},
}
OWN = re.compile(r"(study|analysis|benchmarks|docs)(\.\w+)+")


def marked(*marks: str) -> list[Any]:
    return [pytest.param(block, id=block.name) for block in BLOCKS if block.mark in marks]


def check_preview(block: Block, output: str) -> None:
    __tracebackhide__ = True
    if not is_printed(PREVIEWS.get(block, "..."), output):
        pytest.fail(f"{block.name} shows\n{PREVIEWS[block]}\n\nand prints\n{output}", pytrace=False)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the examples, in which a reader would be."""
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    return tmp_path


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in BLOCKS])
def test_every_block_says_how_it_is_checked(block):
    assert block.mark in MARKS[block.language]
    assert (block.mark == "by hand") <= bool(block.detail)


def run_shell(text: str) -> str:
    """Run what a shell alone understands, and return what it prints."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", text]
    own = os.environ | {"PYTHONPATH": str(ROOT), "PATH": path}
    return subprocess.run(command, env=own, stdout=subprocess.PIPE, text=True, timeout=280, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({str(block.page.relative_to(ROOT)) for block in BLOCKS if block.mark == "run"}))
def test_a_page_can_be_followed_line_by_line(name, place, monkeypatch, capsys):
    """Python, and commands that are modules, in this process; any other block of a shell by bash."""
    monkeypatch.setattr(sys, "argv", ["block.py"])
    for block in BLOCKS:
        if block.page != ROOT / name or block.mark != "run":
            continue
        if block.language == "python":
            (place / "block.py").write_text(block.text, encoding="utf-8")
            with take_back_plugins(place):
                runpy.run_path("block.py", run_name="__main__")
        elif all(words[:2] == ["python", "-m"] for words in block.commands()):
            for _, _, module, *words in block.commands():
                assert importlib.import_module(module).main(words) in (0, None), capsys.readouterr().err
        else:
            print(run_shell(block.text))
        check_preview(block, capsys.readouterr().out)


@pytest.mark.parametrize("block", marked("dry-run"))
def test_a_study_could_be_run(block, place, capsys):
    for words in block.commands():
        assert words[:3] == ["python", "-m", "study.run"], words
        assert main([*words[3:], *(["--dry-run"] if "--dry-run" not in words else [])]) == 0, capsys.readouterr().err
    check_preview(block, capsys.readouterr().out)


@pytest.mark.parametrize(
    "block",
    [pytest.param(block, id=block.name) for block in PREVIEWS if block.mark == "options" and "--dry-run" in block.text],
)
def test_a_preview_of_the_file_of_a_page_is_what_the_page_shows(block, place, capsys):
    """The file is the last one that the page shows as a whole, and the tables that it adds to it since then."""
    above = [other for other in BLOCKS if other.page == block.page and other.line < block.line]
    first = max(number for number, other in enumerate(above) if other.mark == "study")
    parts = [other.text for other in above[first:] if other.mark in ("study", "keys")]
    (words,) = block.commands()
    Path(words[3]).write_text("\n".join(parts), encoding="utf-8")
    assert main(words[3:]) == 0, capsys.readouterr().err
    check_preview(block, capsys.readouterr().out)


@pytest.mark.parametrize("block", marked("options"))
def test_options_and_keys_exist(block, place, capsys):
    own = [
        (words[number + 1], words[number + 2 :])
        for words in block.commands()
        for number, word in enumerate(words[:-1])
        if word == "-m" and OWN.fullmatch(words[number + 1])
    ]
    assert own, "nothing of this block is checked: it is by hand"
    for module, arguments in own:
        if module.startswith("benchmarks."):
            assert importlib.util.find_spec(module)
            continue
        with pytest.raises(SystemExit):
            importlib.import_module(module).main(["--help"])
        known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
        assert {word.partition("=")[0] for word in arguments if word.startswith("--")} <= known
        names = [name for name in list_shipped() if name in arguments[:1]]
        keys = [word for word in arguments if re.match(r"[a-z_]+(\.[\w-]+)*=", word)]
        if keys and "--sweep" not in arguments:
            load_study(names[0] if names else None, keys)


@pytest.mark.parametrize("block", marked("study"))
def test_a_study_file_is_whole(block, place):
    (place / "page.toml").write_text(block.text, encoding="utf-8")
    load_study("page.toml")


@pytest.mark.parametrize("block", marked("suite"))
def test_a_suite_file_is_whole(block, place, monkeypatch):
    """Its data need not be there."""
    for name in re.findall(r"\$\{(\w+)\}", block.text):
        monkeypatch.setenv(name, str(place / name))
    (place / "page.toml").write_text(block.text, encoding="utf-8")
    assert load_suite("page.toml").studies


@pytest.mark.parametrize("block", marked("keys"))
def test_keys_fit_into_a_study(block, place):
    api.load(block.detail or "quick", dict(_leaves(tomllib.loads(block.text))))


def _leaves(data: dict[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of a part of a study file."""
    for name, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", value
