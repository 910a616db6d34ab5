"""Code blocks of README and documentation: each is run, or checked as far as that goes without a server or hours."""

import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from study.config.loader import list_shipped_studies, load_study
from study.run import main
from tests.docs.blocks import CHECKED, PAGES, ROOT, Block, read_blocks

BLOCKS = [block for page in PAGES for block in read_blocks(page) if block.language in CHECKED]
MARKS = {
    "sh": {"run", "dry-run", "options", "by hand"},
    "python": {"run", "by hand"},
    "toml": {"study", "keys", "by hand"},
}
OWN = re.compile(r"(study|analysis|trainables|search_spaces)(\.\w+)+")


def marked(*marks: str) -> list[Any]:
    return [pytest.param(block, id=block.name) for block in BLOCKS if block.mark in marks]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, in which a reader would be."""
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    return tmp_path


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in BLOCKS])
def test_every_block_says_how_it_is_checked(block: Block) -> None:
    assert block.mark in MARKS[block.language]
    assert (block.mark == "by hand") <= bool(block.detail)


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_a_page_can_be_followed_line_by_line(page: Path, place: Path) -> None:
    blocks = [block for block in BLOCKS if block.page == page and block.mark == "run"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": path, "HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg"}
    for block in blocks:
        program = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
        result = subprocess.run(
            [*program, block.text], cwd=place, env=environment, capture_output=True, text=True, timeout=280, check=False
        )
        assert result.returncode == 0, f"{block.name}\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("block", marked("dry-run"))
def test_a_study_could_be_run(block: Block, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in block.commands():
        assert words[:3] == ["python", "-m", "study.run"], words
        assert main([*words[3:], *(["--dry-run"] if "--dry-run" not in words else [])]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("block", marked("options"))
def test_options_and_keys_exist(block: Block, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in block.commands():
        found = next((number for number, word in enumerate(words) if word == "-m" and OWN.match(words[number + 1])), -1)
        if found < 0:
            continue
        module, arguments = words[found + 1], words[found + 2 :]
        with pytest.raises(SystemExit):
            importlib.import_module(module).main(["--help"])
        text = capsys.readouterr().out
        assert [word for word in arguments if word.startswith("--") and word.partition("=")[0] not in text] == []
        names = [name for name, _ in list_shipped_studies() if name in arguments[:1]]
        keys = [word for word in arguments if re.match(r"[a-z_]+(\.[\w-]+)*=", word)]
        if keys and "--sweep" not in arguments:
            load_study(names[0] if names else None, keys)


@pytest.mark.parametrize("block", marked("study"))
def test_a_study_file_is_whole(block: Block, place: Path) -> None:
    (place / "page.toml").write_text(block.text, encoding="utf-8")
    load_study("page.toml")


@pytest.mark.parametrize("block", marked("keys"))
def test_keys_fit_into_a_study(block: Block, place: Path) -> None:
    whole = tomllib.loads((ROOT / "study" / "studies" / f"{block.detail or 'quick'}.toml").read_text("utf-8"))
    load_study(block.detail or "quick", list(_overrides(tomllib.loads(block.text), whole)))


def _overrides(data: dict[str, Any], whole: dict[str, Any], place: str = "") -> list[str]:
    """The leaves of a part of a study file, as overrides."""
    found = []
    for name, value in data.items():
        if isinstance(value, dict) and isinstance(whole.get(name, {}), dict) and name not in ("custom", "end"):
            found += _overrides(value, whole.get(name, {}), f"{place}{name}.")
        else:
            found.append(f"{place}{name}={_as_toml(value)}")
    return found


def _as_toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_as_toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
